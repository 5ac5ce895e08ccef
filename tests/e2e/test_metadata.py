"""Metadata of real senders reaches the tenants that have the family, in a real Cortex, and no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cramjam
import pytest

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import MetricMetadata
from tests.e2e import fleet
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.peers.promql import QueryApi
from tests.peers.push import HEADERS
from tests.peers.vmagent import Options as VmagentOptions
from tests.peers.vmagent import vmagent
from tests.peers.web import Call, fetch

NODE = "gpu-node-b"
ML, NLP, SHARED = fleet.KUBERNETES
HISTOGRAM = "".join(
    f'both_seconds_bucket{{UUID="{card}",le="+Inf"}} 1\nboth_seconds_sum{{UUID="{card}"}} 1\n'
    f'both_seconds_count{{UUID="{card}"}} 1\n'
    for card in (ML, NLP)
)
EXPOSITION = f"""\
# HELP only_ml Temperature, in "C".
# TYPE only_ml gauge
only_ml{{UUID="{ML}"}} 1
# HELP both_seconds How long it took.\\nOr did not.
# TYPE both_seconds histogram
{HISTOGRAM}# HELP nlp_total Größe.
# TYPE nlp_total counter
nlp_total{{UUID="{NLP}"}} 1
# HELP before What one tenant has under another name.
# TYPE before gauge
before{{UUID="{NLP}"}} 1
# HELP dropped_by_ml What a tenant's rules drop.
# TYPE dropped_by_ml gauge
dropped_by_ml{{UUID="{ML}"}} 1
# HELP quarantined What is shared and in nobody's store.
# TYPE quarantined gauge
quarantined{{UUID="{SHARED}"}} 1
# HELP of_nobody What has no device.
# TYPE of_nobody gauge
of_nobody 1
"""
FAMILIES = {"ml": {"only_ml", "both_seconds"}, "nlp": {"both_seconds", "nlp_total"}}
RULES: dict[str, list[dict[str, Any]]] = {
    "ml": [{"source_labels": ["__name__"], "regex": "dropped_by_ml", "action": "drop"}],
    "nlp": [
        {"source_labels": ["__name__"], "regex": "before", "target_label": "__name__", "replacement": "after"},
    ],
}


class Scene:
    """A proxy with two tenants in one Cortex, each with a card, and a target with metrics of both."""

    def __init__(self, store: Cortex, through: Proxy, target: Exposition) -> None:
        self.through = through
        self.target = target
        self.apis = {name: store.api(tenant_of(through.config_file.parents[1], name)) for name in FAMILIES}

    def metadata(self, name: str) -> dict[str, Any]:
        """What a tenant's store has."""
        return dict(self.apis[name].get("/api/v1/metadata"))

    def has_all(self) -> bool:
        """Whether the tenants have all of their families, or more."""
        return all(self.metadata(name).keys() >= families for name, families in FAMILIES.items())

    def counted(self, fate: str) -> float:
        """A counter of the proxy's metadata."""
        return self.through.scrape().total("metadata_total", fate=fate)


def tenant_of(folder: Path, name: str) -> str:
    """Tenants are called after the test's own folder, since all tests share one Cortex."""
    return f"{folder.name}.{name}"


@contextmanager
def scene(store: Cortex, folder: Path) -> Iterator[Scene]:
    """The scene, with owners of both cards, and one that they share."""
    begin = fleet.now_ms() - 60_000
    owners = {name: fleet.owner(name, f"{name}-0", "Job", name) for name in FAMILIES}
    devices = [
        fleet.device(ML, fleet.interval(begin, None, owners["ml"])),
        fleet.device(NLP, fleet.interval(begin, None, owners["nlp"])),
        fleet.device(SHARED, fleet.interval(begin, None, *owners.values()), sharing="time-slicing"),
    ]
    config = {
        "ownership": {"files": [str(fleet.write(folder / "node.json", NODE, devices))]},
        "tenants": [
            {
                "id": tenant_of(folder, name),
                "namespaces": [name],
                "endpoint": {"url": store.push_url},
                "write_relabel_configs": RULES[name],
            }
            for name in FAMILIES
        ],
    }
    with serving(EXPOSITION) as target, proxy(folder / "proxy", config) as through:
        yield Scene(store, through, target)


def said_by(api: QueryApi, families: set[str]) -> dict[str, Any]:
    """What a server says of these families."""
    found = api.get("/api/v1/metadata")
    return {family: found.get(family) for family in families}


def push(on: Scene, request: WriteRequest) -> int:
    """A hand-made request; the status of the answer."""
    body = bytes(cramjam.snappy.compress_raw(request.SerializeToString()))
    return fetch(Call(on.through.write_url, "POST", body, HEADERS)).status


def described(family: str) -> MetricMetadata:
    """Metadata of a counter."""
    return MetricMetadata(type=MetricMetadata.COUNTER, metric_family_name=family.encode(), help=b"Help.")


@pytest.mark.peer("prometheus", "cortex")
def test_each_tenant_has_that_of_its_own_families(store: Cortex, tmp_path: Path) -> None:
    """Word by word what the sending Prometheus has of its families, and of no other, however often it is sent."""
    with scene(store, tmp_path) as on:
        write = prom.remote_write(on.through.write_url, metadata_config={"send": True, "send_interval": "500ms"})
        config = prom.sender_config([prom.scrape("dcgm", [on.target.target])], [write])
        with prom.prometheus(tmp_path / "sender", prom.Options(config)) as sender:
            wait_until(on.has_all, "the metadata", deadline_s=30, diagnosis=on.through.process.log_tail)
            before = on.counted("delivered")
            wait_until(lambda: on.counted("delivered") >= before + 12, "three rounds more")
            everything = {family for families in FAMILIES.values() for family in families} | {"before", "of_nobody"}
            assert all(said_by(sender.api, everything).values())
            for name, families in FAMILIES.items():
                assert on.metadata(name) == said_by(sender.api, families)
        found = on.through.balanced()
        assert set(found.by("requests_total", "code")) == {"204"}
        assert set(found.by("metadata_total", "fate")) <= {"delivered", "dropped"}
        assert found.by("samples_dropped_total", "tenant") == {}


@pytest.mark.peer("vmagent", "cortex")
def test_a_vmagent_too(store: Cortex, tmp_path: Path) -> None:
    """What vmagent sends of metadata goes the same way, without its numbers of account and project."""
    with scene(store, tmp_path) as on:
        config = {"scrape_configs": [prom.scrape("dcgm", [on.target.target])]}
        with vmagent(tmp_path / "sender", VmagentOptions([on.through.write_url], config)):
            wait_until(on.has_all, "the metadata", deadline_s=30, diagnosis=on.through.process.log_tail)
            before = on.counted("delivered")
            wait_until(lambda: on.counted("delivered") >= before + 4, "more metadata")
            assert {name: set(on.metadata(name)) for name in FAMILIES} == FAMILIES
        assert on.metadata("ml")["only_ml"] == [{"type": "gauge", "help": 'Temperature, in "C".', "unit": ""}]


@pytest.mark.peer("cortex")
def test_metadata_that_comes_before_its_series(store: Cortex, tmp_path: Path) -> None:
    """It waits for a tenant to have the family, and goes to that one; beside its series it goes at once."""
    with scene(store, tmp_path) as on:
        assert push(on, WriteRequest(metadata=[described("early"), described("never")])) == 204
        request = WriteRequest(metadata=[described("together")])
        for name in ("early_total", "together_total"):
            series = request.timeseries.add()
            for label, value in (("UUID", ML), ("__name__", name)):
                series.labels.add(name=label.encode(), value=value.encode())
            series.samples.add(value=1.0, timestamp=fleet.now_ms())
        assert push(on, request) == 204
        expected = [{"type": "counter", "help": "Help.", "unit": ""}]
        wait_until(lambda: on.metadata("ml") == {"early": expected, "together": expected}, "both", deadline_s=10)
        assert on.metadata("nlp") == {}
        assert on.through.balanced().by("metadata_total", "fate") == {"delivered": 2}
