"""What a real Cortex refuses reaches its sender, the books and the metrics under the right tenant, and no other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import fleet
from tests.e2e.compare import Content, content, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import serving
from tests.peers.processes import wait_until
from tests.peers.push import Entry
from tests.scrape import Scrape

pytestmark = pytest.mark.peer("prometheus", "cortex")

CARDS = dict(zip(("strict", "easy", "vision"), fleet.KUBERNETES, strict=True))
OWNERS = {name: fleet.owner(name, f"{name}-0", "Job", name) for name in CARDS}
NODE = "gpu-node-b"
DEVICES = '{__name__=~"DCGM_.+",job="dcgm"}'
FAMILIES = 25
IMPATIENT = "--storage.remote.flush-deadline=500ms"  # at its end: one minute by default


class Scene:
    """A proxy with two tenants in one Cortex and one in a Prometheus, and a Prometheus that sends to it."""

    def __init__(self, store: Cortex, vision: prom.Prometheus, through: Proxy, sender: prom.Prometheus) -> None:
        self.through = through
        self.sender = sender
        self.apis = {"vision": vision.api} | {name: store.api(tenant_of(through, name)) for name in ("strict", "easy")}

    def sender_counts(self, name: str) -> float:
        """A counter of the sender's remote write, without `prometheus_remote_storage_`; 0 until it has been scraped."""
        return sum(found.value for found in self.sender.query(f"prometheus_remote_storage_{name}"))

    def check(self, end_ms: int, names: Sequence[str]) -> None:
        """These tenants have everything up to that time, sample by sample."""
        wait_until(
            lambda: fleet.now_ms() > end_ms + 1000, "the last scrape up to then to be stored by the sender itself"
        )
        series = sent(self.sender.api, DEVICES, end_ms)
        for name in names:
            expected = owned(series, CARDS[name], NODE, OWNERS[name])
            assert len(expected) == FAMILIES
            wait_for(expected, lambda n=name: content(sent(self.apis[n], DEVICES, end_ms)), name)  # type: ignore[misc]

    def reads(self, holds: Callable[[Scrape], bool], what: str) -> None:
        """Wait until the proxy's metrics say so."""
        wait_until(lambda: holds(self.through.scrape()), what, diagnosis=self.through.process.log_tail)


def tenant_of(through: Proxy, name: str) -> str:
    """Tenants are called after the test's own folder, since all tests share one Cortex."""
    return f"{through.config_file.parents[1].name}.{name}"


@contextmanager
def scene(store: Cortex, folder: Path, limits: dict[str, Any]) -> Iterator[Scene]:
    """The scene, with these limits of Cortex for the tenant `strict`."""
    strict, easy = f"{folder.name}.strict", f"{folder.name}.easy"
    store.limit({strict: limits})
    begin = fleet.now_ms() - 60_000
    devices = [fleet.device(CARDS[name], fleet.interval(begin, None, OWNERS[name])) for name in CARDS]
    file = fleet.write(folder / "node.json", NODE, devices)
    with prom.prometheus(folder / "vision") as vision, serving(fleet.exposition("kubernetes")) as target:
        config = {
            "ownership": {"files": [str(file)]},
            "tenants": [
                {"id": strict, "namespaces": ["strict"], "endpoint": {"url": store.push_url}},
                {"id": easy, "namespaces": ["easy"], "endpoint": {"url": store.push_url}},
                {
                    "id": "vision",
                    "namespaces": ["vision"],
                    "endpoint": {"url": vision.write_url, "refusal": "whole"},
                },
            ],
        }
        with proxy(folder / "proxy", config) as through:
            itself = {"job_name": "itself", "scrape_interval": "200ms", "static_configs": [{"targets": []}]}
            written = prom.sender_config(
                [prom.scrape("dcgm", [target.target]), itself], [prom.remote_write(through.write_url)]
            )
            with prom.prometheus(folder / "sender", prom.Options(written, flags=[IMPATIENT])) as sender:
                itself["static_configs"] = [{"targets": [sender.target]}]
                sender.reload(written)
                yield Scene(store, vision, through, sender)


def test_what_a_store_refuses_for_good_is_dropped_for_its_tenant(store: Cortex, tmp_path: Path) -> None:
    """Cortex's 400 for too many labels is the sender's 400, counted for that tenant; the others have everything."""
    with scene(store, tmp_path, {"max_label_names_per_series": 10}) as on:
        strict = tenant_of(on.through, "strict")
        on.reads(lambda found: found.total("samples_dropped_total", tenant=strict) >= 2 * FAMILIES, "dropped parts")
        wait_until(lambda: on.sender_counts("samples_failed_total") > 0, "the sender to hear of it")
        end_ms = fleet.now_ms()
        on.check(end_ms, ["easy", "vision"])
        assert sent(on.apis["strict"], DEVICES, end_ms) == ()
        found = on.through.scrape()
        assert set(found.by("samples_dropped_total", "tenant")) == {strict}
        assert set(found.by("samples_dropped_total", "reason")) == {"upstream_400_partial"}
        assert set(found.by("upstream_requests_total", "code", tenant=strict)) == {"400"}
        assert "400" not in found.by("upstream_requests_total", "code", tenant="vision")
        assert set(found.by("requests_total", "code")) == {"204", "400"}
        said = on.through.events("upstream in trouble")
        assert [(each["tenant"], "series has too many labels" in each["said"]) for each in said] == [(strict, True)]


def test_a_sender_is_told_whose_part_was_refused_and_no_more(store: Cortex, tmp_path: Path) -> None:
    """The sender's 400 names reason and tenant; what Cortex said (series, addresses) goes into the log alone."""
    with scene(store, tmp_path, {"max_label_names_per_series": 3}) as on:
        labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": CARDS["strict"], "secret": "of-strict"}
        answer = on.through.push([(labels, [(fleet.now_ms(), 1.0)])])
        strict = tenant_of(on.through, "strict")
        assert (answer.status, answer.body.decode()) == (400, f"upstream_400_partial: tenant {strict}\n")
        assert any("of-strict" in each["said"] for each in on.through.events("upstream in trouble"))


def test_a_store_that_is_too_busy_makes_its_sender_wait(store: Cortex, tmp_path: Path) -> None:
    """Cortex's 429 is the sender's 503: it sends again, and when Cortex has room every tenant has everything."""
    with scene(store, tmp_path, {"ingestion_rate": 1, "ingestion_burst_size": 5}) as on:
        strict = tenant_of(on.through, "strict")
        on.reads(lambda found: found.total("upstream_requests_total", tenant=strict, code="429") > 0, "429 of Cortex")
        wait_until(lambda: on.sender_counts("samples_retried_total") > 0, "the sender to try again")
        labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "job": "by-hand"}
        entries = [({**labels, "UUID": uuid}, [(fleet.now_ms(), 1.0)]) for uuid in CARDS.values()]
        answer = on.through.push(entries * 10)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert answer.body.decode() == f"retry: not delivered yet: {strict} (upstream_429)\n"
        waiting_ms = fleet.now_ms()
        assert sent(on.apis["strict"], DEVICES, waiting_ms) == ()
        found = on.through.balanced()
        assert found.total("parts_total", tenant=strict) == 0
        assert found.total("requests_total", code="503") > 0

        store.limit({strict: {"ingestion_rate": 25_000}})
        on.check(waiting_ms, ["easy", "vision", "strict"])
        assert on.through.balanced().by("samples_dropped_total", "reason", tenant=strict) == {}


def test_a_store_that_refuses_a_request_as_a_whole_is_counted_so(store: Cortex, tmp_path: Path) -> None:
    """Prometheus takes nothing of a request with a sample out of order: all of it is dropped, for that tenant alone."""
    with scene(store, tmp_path, {}) as on:
        now_ms = fleet.now_ms()

        def entry(name: str, card: str, at_ms: int) -> Entry:
            return {"__name__": name, "UUID": CARDS[card], "job": "by-hand"}, [(at_ms, 1.0)]

        def times(card: str) -> Content:
            return content(sent(on.apis[card], '{job="by-hand"}', now_ms + 60_000))

        assert on.through.push([entry("m", card, now_ms) for card in CARDS]).status == 204
        late = [entry("m", card, now_ms - 5000) for card in ("vision", "easy")]
        answer = on.through.push([*late, *(entry("n", card, now_ms) for card in ("vision", "easy"))])
        easy = tenant_of(on.through, "easy")
        assert answer.body.decode() == f"upstream_400: tenant vision; upstream_400_partial: tenant {easy}\n"
        wait_until(lambda: len(times("easy")) == 2, "the good series")
        assert len(times("vision")) == 1
        found = on.through.balanced()
        assert found.by("samples_dropped_total", "reason", tenant="vision") == {"upstream_400": 2}
        assert found.by("samples_dropped_total", "reason", tenant=easy) == {"upstream_400_partial": 2}
