"""Samples whose owner or tenant is not known yet wait, and go to a real Cortex when it is; live ones do not wait.

The story is played once, for three cards. Two of them get an owner, from a moment on; whose they were before that is
told when newer samples are in already. The third's owner is known, and gets a tenant by a reload. The tests ask the
stores afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from tests.peers.promql import Series
from tests.scrape import Scrape

pytestmark = pytest.mark.peer("prometheus", "cortex")

CARDS = dict(zip(("lenient", "strict", "new"), fleet.KUBERNETES, strict=True))
OWNERS = {name: fleet.owner(name, f"{name}-0", "Job", name) for name in CARDS}
LATE = ("lenient", "strict")
NODES = {"lenient": "gpu-node-a", "strict": "gpu-node-a", "new": "gpu-node-b"}
DEVICES = '{__name__=~"DCGM_.+"}'
FAMILIES = 25
WINDOW = {"out_of_order_time_window": "1h"}
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Story:
    """What was played: `known_ms` is from when on two of the cards had an owner at first, `sent` what was scraped."""

    store: Cortex
    folder: Path
    known_ms: int
    sent: tuple[Series, ...]
    scrape: Scrape

    def has(self, name: str) -> Content:
        """What a tenant's store has."""
        return stored(self.store, self.folder, name)

    def should_have(self, name: str, from_ms: int = 0) -> Content:
        """All that was scraped of a tenant's card from a time on."""
        since = [Series(each.labels, tuple(at for at in each.samples if at[0] >= from_ms)) for each in self.sent]
        return owned(since, CARDS[name], NODES[name], OWNERS[name])

    def waited(self, name: str) -> int:
        """How many samples of a tenant's card were scraped before it had an owner."""
        samples = (at for each in self.sent if each.labels["UUID"] == CARDS[name] for at, _ in each.samples)
        return sum(at < self.known_ms for at in samples)


def stored(store: Cortex, folder: Path, name: str) -> Content:
    """What a tenant has in Cortex, sample by sample."""
    return content(sent(store.api(tenant_of(folder, name)), DEVICES, fleet.now_ms() + 1000))


def tenant_of(folder: Path, name: str) -> str:
    """Tenants are called after the test's own folder, since all tests share one Cortex."""
    return f"{folder.name}.{name}"


def own(folder: Path, node: str, names: Sequence[str], from_ms: int) -> None:
    """Tell whose cards of a node are from a time on, and nothing about earlier times."""
    held = [fleet.device(CARDS[name], fleet.interval(from_ms, None, OWNERS[name])) for name in names]
    fleet.write(folder / f"{node}.json", node, held, from_ms=from_ms)


def configuration(folder: Path, store: Cortex, names: Sequence[str]) -> dict[str, Any]:
    """These tenants."""
    tenants = [
        {"id": tenant_of(folder, name), "namespaces": [name], "endpoint": {"url": store.push_url}} for name in names
    ]
    files = [str(folder / f"{node}.json") for node in sorted(set(NODES.values()))]
    return {"ownership": {"files": files}, "tenants": tenants}


def play(store: Cortex, folder: Path, through: Proxy, sender: prom.Prometheus) -> int:
    """Let samples wait, tell whose the cards are from now on, then whose they were, then who the new tenant is."""

    def reads(holds: Callable[[Scrape], bool], what: str) -> None:
        wait_until(lambda: holds(through.scrape()), what, diagnosis=through.process.log_tail)

    def waits(found: Scrape) -> dict[str, float]:
        return found.by("samples_quarantined", "reason")

    reads(lambda found: waits(found).get("unmapped_namespace", 0) > 3 * FAMILIES, "samples that wait")
    known_ms = fleet.now_ms() + 3000
    own(folder, "gpu-node-a", LATE, known_ms)
    wait_until(lambda: all(stored(store, folder, name) for name in LATE), "live samples")
    waiting = waits(through.scrape())
    assert waiting["unknown_owner"] >= len(LATE) * FAMILIES * 6
    for name in LATE:
        assert min(samples[0][0] for samples in stored(store, folder, name).values()) >= known_ms
    own(folder, "gpu-node-a", LATE, known_ms - HOUR_MS)
    reads(lambda found: waits(found).keys() == {"unmapped_namespace"}, "the replay")
    assert stored(store, folder, "new") == {}
    assert through.reload(configuration(folder, store, list(CARDS))).status == 200
    reads(lambda found: waits(found) == {}, "the other replay")
    return known_ms


@pytest.fixture(scope="module")
def story(store: Cortex, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The story, played to its end."""
    folder = tmp_path_factory.mktemp("quarantine")
    store.limit({tenant_of(folder, name): WINDOW for name in ("lenient", "new")})
    own(folder, "gpu-node-a", [], fleet.now_ms() - HOUR_MS)
    own(folder, "gpu-node-b", ["new"], fleet.now_ms() - HOUR_MS)
    with (
        serving(fleet.exposition("kubernetes")) as target,
        proxy(folder / "proxy", configuration(folder, store, LATE)) as through,
    ):
        written = prom.sender_config([prom.scrape("dcgm", [target.target])], [prom.remote_write(through.write_url)])
        with prom.prometheus(folder / "sender", prom.Options(written)) as sender:
            known_ms = play(store, folder, through, sender)
            target.text = None
            wait_until(lambda: sender.query(DEVICES) == (), "the target to be gone")
            series = sent(sender.api, DEVICES, fleet.now_ms() + 1000)
        yield Story(store, folder, known_ms, series, through.balanced())


def test_with_a_window_everything_is_there_in_the_end(story: Story) -> None:
    """A store that takes samples out of order has all of them, those that waited and those that went by."""
    expected = story.should_have("lenient")
    wait_for(expected, lambda: story.has("lenient"), "everything")
    assert len(expected) == FAMILIES
    tenant = tenant_of(story.folder, "lenient")
    assert story.scrape.by("samples_dropped_total", "reason", tenant=tenant) == {}


def test_without_a_window_what_waited_is_counted_as_too_old(story: Story) -> None:
    """A store that takes nothing out of order has each live sample; exactly those that waited are counted as lost."""
    wait_for(story.should_have("strict", story.known_ms), lambda: story.has("strict"), "the live samples")
    tenant = tenant_of(story.folder, "strict")
    lost = story.scrape.by("samples_dropped_total", "reason", tenant=tenant)
    assert lost == {"too_old": story.waited("strict")}


def test_a_tenant_that_came_with_a_reload_has_what_waited_for_it(story: Story) -> None:
    """All samples of its card are there, those from before the reload too."""
    expected = story.should_have("new")
    wait_for(expected, lambda: story.has("new"), "everything")
    assert len(expected) == FAMILIES


def test_the_books_of_the_story(story: Story) -> None:
    """All that waited was released, to three tenants; no sender was told, and nobody else lost anything."""
    books = story.scrape
    waited = books.by("samples_quarantined_total", "reason")
    assert waited["unknown_owner"] == story.waited("lenient") + story.waited("strict")
    assert waited.keys() == {"unknown_owner", "unmapped_namespace"}
    assert books.total("quarantine_released_total") == sum(waited.values())
    assert books.by("quarantine_dropped_total", "reason") == {}
    assert books.total("samples_queued") == 0
    assert set(books.by("requests_total", "code")) == {"204"}
    assert set(books.by("samples_dropped_total", "tenant")) == {tenant_of(story.folder, "strict")}
