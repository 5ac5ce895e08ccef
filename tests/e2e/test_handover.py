"""One card changes hands while a real Prometheus scrapes it; both owners' stores are a real Cortex."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import fleet
from tests.e2e.compare import EXTERNAL, Content, content, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.peers.promql import Series

pytestmark = pytest.mark.peer("prometheus", "cortex")

CARD = fleet.BARE[0]
NODE = "gpu-node-a"
FIRST = fleet.owner("first", "first-0", "StatefulSet", "first")
SECOND = fleet.owner("second", "second-0", "Job", "second")
UTIL = "DCGM_FI_DEV_GPU_UTIL"
TEXT = "\n".join(line for line in fleet.exposition("bare").splitlines() if CARD in line) + "\n"


class Scene:
    """A proxy with two tenants of one Cortex, and a Prometheus that scrapes the card."""

    def __init__(self, store: Cortex, through: Proxy, sender: prom.Prometheus, file: Path) -> None:
        self.store = store
        self.through = through
        self.sender = sender
        self._file = file

    def own(self, *intervals: fleet.Tree) -> None:
        """Tell the proxy whose the card is."""
        fleet.write(self._file, NODE, [fleet.device(CARD, *intervals)])

    def values(self, tenant: str, at_ms: int) -> tuple[Series, ...]:
        """What a query of a tenant returns at a time."""
        return self.store.query(tenant, UTIL, at_ms)

    def has_from(self, tenant: str, from_ms: int) -> bool:
        """Whether a tenant has a sample from that time on."""
        return any(at >= from_ms for each in self.store.query(tenant, f"{UTIL}[10m]") for at, _ in each.samples)


@contextmanager
def scene(store: Cortex, folder: Path, first: fleet.Tree, target: Exposition) -> Iterator[Scene]:
    """The scene, with the card as `first` says."""
    file = fleet.write(folder / "node.json", NODE, [fleet.device(CARD, first)])
    names = [(name, f"{folder.name}.{name}") for name in ("first", "second")]
    tenants = [
        {"id": tenant, "namespaces": [namespace], "endpoint": {"url": store.push_url}} for namespace, tenant in names
    ]
    config = {"ownership": {"files": [str(file)]}, "tenants": tenants}
    with proxy(folder / "proxy", config) as through:
        written = prom.sender_config([prom.scrape("dcgm", [target.target])], [prom.remote_write(through.write_url)])
        with prom.prometheus(folder / "sender", prom.Options(written)) as sender:
            yield Scene(store, through, sender, file)


def split(series: tuple[Series, ...], at_ms: int) -> tuple[Content, Content]:
    """What each owner should have of the card that changed hands at a time."""
    before = [Series(each.labels, tuple(s for s in each.samples if s[0] < at_ms)) for each in series]
    after = [Series(each.labels, tuple(s for s in each.samples if s[0] >= at_ms)) for each in series]
    return owned(before, CARD, NODE, FIRST), owned(after, CARD, NODE, SECOND)


@pytest.fixture
def target() -> Iterator[Exposition]:
    """The exporter of the card."""
    with serving(TEXT) as exposition:
        yield exposition


def test_a_hand_over_ends_the_old_owners_series_at_its_time(store: Cortex, tmp_path: Path, target: Exposition) -> None:
    """Each sample goes to who owned the card at its time, and the old owner's series end at the interval's `to`."""
    begin = fleet.now_ms() - 60_000
    first, second = (f"{tmp_path.name}.{name}" for name in ("first", "second"))
    with scene(store, tmp_path, fleet.interval(begin, None, FIRST), target) as on:
        wait_until(lambda: on.has_from(first, begin), "the first owner's samples")
        change_ms = fleet.now_ms() + 2_000
        on.own(fleet.interval(begin, change_ms, FIRST), fleet.interval(change_ms, None, SECOND))
        wait_until(lambda: on.has_from(second, change_ms), "the second owner's samples")
        target.text = None
        wait_until(lambda: on.sender.query(UTIL) == (), "the target to be gone")
        end_ms = fleet.now_ms() + 1000
        expected = split(sent(on.sender.api, '{__name__=~"DCGM_.+"}', end_ms), change_ms)
        for tenant, content_ in zip((first, second), expected, strict=True):
            wait_for(content_, lambda t=tenant: content(sent(on.store.api(t), '{__name__=~"DCGM_.+"}', end_ms)), tenant)  # type: ignore[misc]
        assert len(on.values(first, change_ms - 1)) == 1
        assert on.values(first, change_ms) == ()
        wait_until(lambda: on.values(second, end_ms) == (), "the stale markers")
        made = on.through.balanced().by("parts_made_total", "tenant")
        assert made == {first: len(expected[0])}


def test_a_hand_over_that_is_learnt_late_ends_the_old_series_then(
    store: Cortex, tmp_path: Path, target: Exposition
) -> None:
    """Samples that went to the old owner stay there, its series end behind the last of them, and nothing is lost."""
    begin = fleet.now_ms() - 60_000
    first, second = (f"{tmp_path.name}.{name}" for name in ("first", "second"))
    with scene(store, tmp_path, fleet.interval(begin, None, FIRST), target) as on:
        change_ms = fleet.now_ms()
        wait_until(lambda: on.has_from(first, change_ms + 1000), "samples that go to the old owner for now")
        on.own(fleet.interval(begin, change_ms, FIRST), fleet.interval(change_ms, None, SECOND))
        wait_until(lambda: on.has_from(second, change_ms), "the second owner's samples")
        (old,) = sent(on.store.api(first), UTIL, fleet.now_ms() + 1000)
        (new,) = sent(on.store.api(second), UTIL, fleet.now_ms() + 1000)
        last_ms = old.samples[-1][0]
        assert change_ms < last_ms < new.samples[0][0]
        assert len(on.values(first, last_ms)) == 1
        assert on.values(first, last_ms + 1) == ()
        (source,) = sent(on.sender.api, UTIL, new.samples[-1][0])
        assert old.samples + new.samples == source.samples[: len(old.samples + new.samples)]
        assert new.labels.items() >= EXTERNAL.items()


def test_a_pod_label_that_changes_ends_nothing(store: Cortex, tmp_path: Path, target: Exposition) -> None:
    """When the exporter names another pod Prometheus ends a series and begins one; the owner's goes on in one piece."""
    begin = fleet.now_ms() - 60_000
    first = f"{tmp_path.name}.first"
    with scene(store, tmp_path, fleet.interval(begin, None, FIRST), target) as on:
        wait_until(lambda: on.has_from(first, begin), "the first samples")
        change_ms = fleet.now_ms()
        target.text = re.sub(r"\} (\S+)\n", r',pod="another",namespace="other"} \1\n', TEXT)
        wait_until(lambda: on.has_from(first, change_ms + 1500), "samples from then on")
        end_ms = fleet.now_ms() + 1000
        (one,) = sent(on.store.api(first), UTIL, end_ms)
        parts = sorted(sent(on.sender.api, UTIL, one.samples[-1][0]), key=lambda each: each.samples)
        assert len(parts) == 2
        assert one.samples == parts[0].samples + parts[1].samples
        for at_ms in range(one.samples[0][0], one.samples[-1][0], 100):
            assert len(on.values(first, at_ms)) == 1
        assert on.through.balanced().total("samples_duplicate_total") == len(TEXT.splitlines())
