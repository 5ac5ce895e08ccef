"""The proxy ends, in order or killed, while a real Prometheus sends; what its stores have afterwards is complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proto.prompb.remote_pb2 import WriteRequest
from store.errors import StoreError
from store.reading import SampleReader
from store.schema import store_path
from tests.e2e import fleet
from tests.e2e.compare import Content, content, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.peers.promql import Series

pytestmark = pytest.mark.peer("prometheus", "cortex")

REMOTE_CARD, LOCAL_CARD, UNKNOWN_CARD = fleet.KUBERNETES
NODE = "gpu-node-b"
REMOTE = fleet.owner("remote", "remote-0", "Job", "remote")
LOCAL = fleet.owner("local", "local-0", "Job", "local")
DEVICES = '{__name__=~"DCGM_.+"}'


class Scene:
    """A proxy with a tenant in Cortex and one in its own files, and a Prometheus that sends to it."""

    def __init__(self, store: Cortex, through: Proxy, sender: prom.Prometheus, target: Exposition) -> None:
        self.through = through
        self.sender = sender
        self.target = target
        self._api = store.api(remote_tenant(through))

    def remote(self, end_ms: int) -> Content:
        """What Cortex has."""
        return content(sent(self._api, DEVICES, end_ms))

    def local(self) -> Content:
        """What the embedded storage has, without stale markers."""
        reader = SampleReader(store_path(self.through.data_dir, "local"))
        try:
            found = [
                (labels, [s for s in samples if s[1] == s[1]]) for labels, samples in reader.select({}, 0, 1 << 62)
            ]
        except StoreError:  # not there yet
            return {}
        return {frozenset(labels.items()): tuple(samples) for labels, samples in found if samples}

    def more_arrives(self) -> None:
        """Wait until both stores have samples from now on."""
        now_ms = fleet.now_ms()

        def newest(found: Content) -> int:
            return max((samples[-1][0] for samples in found.values()), default=0)

        wait_until(lambda: newest(self.remote(now_ms + 60_000)) > now_ms < newest(self.local()), "more samples")

    def end(self) -> tuple[Series, ...]:
        """Take the target away; all that the sender has scraped."""
        self.target.text = None
        wait_until(lambda: self.sender.query(DEVICES) == (), "the target to be gone")
        return sent(self.sender.api, DEVICES, fleet.now_ms() + 1000)


def remote_tenant(through: Proxy) -> str:
    """The tenant in Cortex, which all tests share."""
    return f"{through.config_file.parents[1].name}.remote"


@contextmanager
def scene(store: Cortex, folder: Path) -> Iterator[Scene]:
    """The scene; nobody knows the owner of the third card."""
    begin = fleet.now_ms() - 60_000
    owners = ((REMOTE_CARD, REMOTE), (LOCAL_CARD, LOCAL))
    devices = [fleet.device(card, fleet.interval(begin, None, owner)) for card, owner in owners]
    tenants = [
        {"id": f"{folder.name}.remote", "namespaces": ["remote"], "endpoint": {"url": store.push_url}},
        {"id": "local", "namespaces": ["local"], "endpoint": {"embedded": True}},
    ]
    files = [str(fleet.write(folder / "node.json", NODE, devices))]
    with (
        serving(fleet.exposition("kubernetes")) as target,
        proxy(folder / "proxy", {"ownership": {"files": files}, "tenants": tenants}) as through,
    ):
        written = prom.sender_config([prom.scrape("dcgm", [target.target])], [prom.remote_write(through.write_url)])
        with prom.prometheus(folder / "sender", prom.Options(written)) as sender:
            yield Scene(store, through, sender, target)


def held(through: Proxy) -> set[tuple[str, int]]:
    """The samples in quarantine, by family and time, each of which bears the unknown card."""
    found = set()
    for record in through.quarantined():
        for entry in WriteRequest.FromString(record.entry).timeseries:
            labels = {label.name: label.value.decode() for label in entry.labels}
            assert labels[b"UUID"] == UNKNOWN_CARD
            found |= {(labels[b"__name__"], sample.timestamp) for sample in entry.samples}
    return found


def test_a_killed_proxy_loses_nothing(store: Cortex, tmp_path: Path) -> None:
    """Killed twice in the middle of the stream: the sender sends again, and Cortex, files and quarantine have all."""
    with scene(store, tmp_path) as on:
        for _ in range(2):
            on.more_arrives()
            assert on.through.process.kill9() == -9
            missed = on.target.scrapes + 3
            wait_until(lambda due=missed: on.target.scrapes >= due, "scrapes while the proxy is down")  # type: ignore[misc]
            on.through.start()
        on.more_arrives()
        series = on.end()
        end_ms = fleet.now_ms() + 1000
        wait_for(owned(series, REMOTE_CARD, NODE, REMOTE), lambda: on.remote(end_ms), "all in Cortex")
        wait_for(owned(series, LOCAL_CARD, NODE, LOCAL), on.local, "all in the files")
        unknown = [each for each in series if each.labels["UUID"] == UNKNOWN_CARD]
        expected = {(each.labels["__name__"], at_ms) for each in unknown for at_ms, _ in each.samples}
        wait_until(lambda: held(on.through) == expected, "all in quarantine")


def test_a_stopped_proxy_goes_on_where_it_was(store: Cortex, tmp_path: Path) -> None:
    """After SIGTERM and a new start the quarantine is as it was, counted as recovered, and the stream is complete."""
    with scene(store, tmp_path) as on:
        on.more_arrives()
        on.through.stop()
        waiting = sum(record.samples for record in on.through.quarantined())
        assert waiting > 0
        on.through.start()
        found = on.through.scrape()
        assert found.by("quarantine_recovered_total", "reason") == {"unknown_owner": waiting}
        assert found.by("samples_quarantined", "reason")["unknown_owner"] >= waiting
        on.more_arrives()
        series = on.end()
        end_ms = fleet.now_ms() + 1000
        wait_for(owned(series, REMOTE_CARD, NODE, REMOTE), lambda: on.remote(end_ms), "all in Cortex")
        wait_for(owned(series, LOCAL_CARD, NODE, LOCAL), on.local, "all in the files")
        again = on.through.balanced()
        assert again.total("samples_quarantined") == waiting + again.total("samples_quarantined_total")
