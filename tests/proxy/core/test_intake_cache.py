from collections.abc import Callable

import pytest

from proxy.core.books import Books
from proxy.core.decisions import Decisions
from proxy.core.labels import LabelSet
from proxy.core.series_cache import ENTRY_BYTES, LOOKED_AT, OUTPUT_BYTES, CacheBudget, cost_of
from proxy.core.sharing import Shared
from proxy.core.timeseries import encode_labels
from proxy.core.wire import Entry, Epoch, Fate, Output, Part, SeriesCache, Slot
from tests.proxy.core.routing import NOBODY, tenancy_of
from tests.proxy.core.scene import OTHER_CARD, Scene, Series, card, fleet_of, interval, ms, owner, util

HANDED_OVER = card(interval(0, 20, owner("ml")), interval(20, None, owner("nlp")))
REQUESTS = [
    [Series(util(gpu=str(gpu)), (at, float(at))) for gpu in range(4)]
    + [Series({"__name__": "up", "i": str(gpu)}, (at, 1.0)) for gpu in range(4)]
    + [Series(util(UUID=OTHER_CARD), (at, 1.0)), Series({"a": "nameless"}, (at, 1.0))]
    for at in (10, 11, 25, 26, 15, 27)
]


def _without_markers(parts: list[Part]) -> list[tuple[str, int]]:
    return [(part.tenant, part.samples - part.made) for part in parts if part.samples > part.made]


@pytest.mark.parametrize("cache_bytes", [0, 1, 1500, 5000, 1 << 20])
def test_same_answers(cache_bytes: int) -> None:
    """However little may be remembered, each sample has the same fate and goes to the same tenants."""
    big, small = (Scene(tenancy_of("raw"), HANDED_OVER, cache_bytes=size) for size in (1 << 30, cache_bytes))
    for request in REQUESTS:
        for scene in (big, small):
            scene.take(*request)
        assert _without_markers(small.taken.parts) == _without_markers(big.taken.parts)
        assert small.taken.held == big.taken.held
        assert small.taken.refusals == big.taken.refusals
        assert small.intake._budget.used_bytes <= cache_bytes
    assert small.fates() == big.fates()
    assert small.intake.cached_series <= big.intake.cached_series == 8


def test_full_cache_serves_what_it_holds() -> None:
    """A cache that holds some of a cycle of series serves these, instead of losing all to the newcomers."""
    scene = Scene(tenancy_of("raw"), cache_bytes=6000)
    request = [Series({"__name__": "up", "i": f"{at:03}"}, (1, 1.0)) for at in range(40)]
    scene.take(*request)
    held = scene.intake.cached_series
    assert 5 < held < 20
    for tick in range(2, 5):
        scene.take(*request, tick=tick)
        assert (scene.fast(), scene.intake.cached_series) == (held, held)


def test_unused_series_make_room() -> None:
    """What has lain unused for long enough makes room; what fed a series before is then remembered no more."""
    scene = Scene(tenancy_of(), HANDED_OVER, cache_bytes=2000)
    scene.take(Series(util(), (10, 1.0)), tick=1)
    full = [Series({"__name__": "up", "i": f"{at:03}"}, (1, 1.0)) for at in range(10)]
    scene.take(*full, tick=100)
    assert scene.intake.cached_series == 3
    scene.take(Series(util(), (25, 1.0)), *full, tick=701)
    assert scene.got("ml") == [("ml-0", 20, "stale")]
    scene.take(*full, tick=1401)
    scene.take(Series(util(), (15, 1.0)), tick=1401)
    assert (scene.got("ml"), scene.fast()) == ([("ml-0", 15, 1.0)], 0)


def _decisions() -> Decisions:
    return Decisions(tenancy_of(), fleet_of(), Books())


def _entry(name: str, *outputs: int) -> Entry:
    entry = Entry(name.encode() * 10, Epoch(0, 0), Fate("", "", ""))
    slot = Slot("t", ("", ""))
    entry.outputs = tuple(Output(slot, b"x" * size) for size in outputs)
    return entry


@pytest.fixture
def cache() -> SeriesCache:
    """A cache whose resolver is never called."""
    return SeriesCache(lambda *_: None)


def _blocks(cache: SeriesCache) -> set[bytes]:
    return {entry.block for entry in cache.entries.values()}


def _forgotten() -> tuple[list[Entry], Callable[[Entry], None]]:
    gone: list[Entry] = []
    return gone, gone.append


def test_cost() -> None:
    """An entry costs its label block, what it takes itself, and each output; a block that is shared counts once."""
    entry = _entry("a", 100, 50)
    assert cost_of(entry) == 10 + ENTRY_BYTES + 150 + 2 * OUTPUT_BYTES
    entry.outputs = (Output(Slot("t", ()), entry.block),)
    assert cost_of(entry) == 10 + ENTRY_BYTES + OUTPUT_BYTES


def test_budget_is_kept(cache: SeriesCache) -> None:
    """Nothing is admitted beyond the limit while all is in use, and what is refused leaves no trace."""
    budget = CacheBudget(1000, idle_ticks=10)
    gone, forget = _forgotten()
    assert [budget.admit(cache, _entry(name), 5, forget) for name in "abc"] == [True, True, False]
    assert (budget.used_bytes, gone, _blocks(cache)) == (820, [], {b"a" * 10, b"b" * 10})


def test_oldest_makes_room(cache: SeriesCache) -> None:
    """An entry unused for `idle_ticks` is forgotten for a new one; one used a tick later stays."""
    budget = CacheBudget(1000, idle_ticks=10)
    gone, forget = _forgotten()
    first, second = _entry("a"), _entry("b")
    for entry in (first, second):
        assert budget.admit(cache, entry, 0, forget)
    first.used, second.used = 5, 4
    assert not budget.admit(cache, _entry("c"), 13, forget)
    assert budget.admit(cache, _entry("c"), 14, forget)
    assert (gone, _blocks(cache), budget.used_bytes) == ([second], {b"a" * 10, b"c" * 10}, 820)


def test_hand_goes_round(cache: SeriesCache) -> None:
    """Only so many entries are looked at for each newcomer, but all are seen in time."""
    budget = CacheBudget(100 * 410, idle_ticks=10)
    gone, forget = _forgotten()
    entries = [_entry(chr(200 + at)[0]) for at in range(100)]
    for at, entry in enumerate(entries):
        entry.used = 100 if at < 90 else 0
        entry.lead, entry.length = bytes([at]) * 10, 10
        assert budget.admit(cache, entry, 0, forget)
    looked = 0
    while not budget.admit(cache, _entry("n"), 50, forget):
        looked += 1
    assert looked == 90 // LOOKED_AT
    assert gone == [entries[90]]


def test_recost(cache: SeriesCache) -> None:
    """Outputs that change are accounted for; those of an entry that is in no cache are not."""
    budget = CacheBudget(10_000)
    _, forget = _forgotten()
    entry = _entry("a")
    budget.recost(entry)
    assert budget.used_bytes == 0
    budget.admit(cache, entry, 0, forget)
    entry.outputs = _entry("a", 100).outputs
    budget.recost(entry)
    assert budget.used_bytes == cost_of(entry) == entry.cost


def test_outputs_are_forgotten_with_their_feeders() -> None:
    """When nothing is remembered of a series, nothing is remembered of what it fed."""
    scene = Scene(tenancy_of("raw"), HANDED_OVER, cache_bytes=0)
    scene.take(*REQUESTS[0])
    assert scene.intake._decisions.outputs == {}
    assert (scene.intake._budget.used_bytes, scene.intake.cached_series) == (0, 0)


def test_slots_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that invents replicas makes us forget slots, and nothing worse."""
    monkeypatch.setattr("proxy.core.decisions.SLOTS", 3)
    scene = Scene(tenancy_of("raw"))
    for at in range(10):
        scene.take(Series({"__name__": "up", "__replica__": str(at)}, (1, 1.0)), Series({"__name__": "up"}, (1, 1.0)))
        assert sum(part.samples for part in scene.taken.parts) == 2
    assert len(scene.intake._decisions._slots) <= 3


def test_outputs_of_one_family_do_not_share_a_hash() -> None:
    """Outputs are found by all of their labels: a family of many series is no long chain in a dictionary."""
    slot = Slot("t", ("", ""))
    outputs = [Output(slot, b"family", b"%d" % at) for at in range(1000)]
    assert len({hash(output) for output in outputs}) > 990
    assert Output(slot, b"family0") == outputs[0]
    assert hash(Output(slot, b"family0")) == hash(outputs[0])


def test_shared_pieces_are_bounded() -> None:
    """What outputs share is kept up to a number of bytes, whatever a sender invents."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    scene.intake._decisions._shared = Shared(5000)
    for at in range(30):
        scene.take(Series(util(note="n" * 2000, pod=str(at), z=str(at)), (10, 1.0)))
        assert len(scene.got("ml")) == 1
        assert sum(map(len, scene.intake._decisions._shared._pieces)) <= 5000


def test_equal_outputs_are_one() -> None:
    """Two decisions for the same series of the same tenant share one output while it is fed."""
    decisions = _decisions()
    labels = LabelSet.of({"__name__": "up", "namespace": "ml"})
    block = encode_labels([(name.encode(), value.encode()) for name, value in labels.pairs])
    decisions.tenancy = tenancy_of("raw")
    first = decisions.resolve(labels, ms(1), NOBODY, block).outputs[0]
    decisions.outputs[first] = first
    again = decisions.resolve(labels, ms(2), NOBODY, block).outputs[0]
    assert again is first
    assert again.block is block
