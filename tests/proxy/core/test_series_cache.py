import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.series_cache import ENTRY_BYTES, LOOKED_AT, OUTPUT_BYTES, CacheBudget, cost_of
from proxy.core.wire import Entry, Epoch, Fate, Output, SeriesCache, Slot

SLOT = Slot("a", ("", ""))
IDLE_TICKS = 600
COST = ENTRY_BYTES + 20


def _entry(i: int, tick: int = 0) -> Entry:
    """An entry of a block of 20 bytes, used last at a tick."""
    entry = Entry(b"%020d" % i, Epoch(0, 0), Fate("routed", "", ""))
    entry.used = tick
    return entry


@dataclass(slots=True)
class Cache:
    """A cache for so many entries, and what was evicted from it."""

    room: int
    evicted: list[Entry] = field(default_factory=list)
    inner: SeriesCache = field(default_factory=lambda: SeriesCache(lambda *_: None))
    budget: CacheBudget = field(init=False)

    def __post_init__(self) -> None:
        self.budget = CacheBudget(self.room * COST, IDLE_TICKS)

    def put(self, entry: Entry, tick: int) -> bool:
        """Admit an entry if it may."""
        return self.budget.admit(self.inner, entry, tick, self._forget)

    def use(self, i: int, tick: int) -> bool:
        """A sample of series `i` comes; whether it was known."""
        known = self.inner.find(b"%020d" % i)
        if known is not None:
            known.used = tick
            return True
        self.put(_entry(i, tick), tick)
        return False

    def _forget(self, entry: Entry) -> None:
        self.evicted.append(entry)
        entry.forget()


def _hits(cache: "Cache | Lru", series: list[int], rounds: int, interval: int) -> list[float]:
    """Of each round of a scrape of all series, how many were known."""
    return [sum(cache.use(i, tick * interval) for i in series) / len(series) for tick in range(rounds)]


class Lru:
    """What the cache is measured against: it drops what was used longest ago."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._known: dict[int, None] = {}

    def use(self, i: int, _tick: int) -> bool:
        """A sample of series `i` comes; whether it was known."""
        known = i in self._known
        self._known.pop(i, None)
        self._known[i] = None
        if len(self._known) > self._room:
            del self._known[next(iter(self._known))]
        return known


def test_a_cycle_that_is_a_little_too_large() -> None:
    """A cache for nine tenths of the series serves nine tenths of them, where one that drops the oldest serves none."""
    series = list(range(1000))
    assert _hits(Cache(900), series, 8, 15) == [0.0] + [0.9] * 7
    assert _hits(Lru(900), series, 8, 15) == [0.0] * 8


@pytest.mark.parametrize("interval", [1, 15, 60, 300, 599])
def test_no_scrape_interval_is_idleness(interval: int) -> None:
    """Series that come in any usual scrape interval keep their places, in whatever order they come."""
    cache = Cache(450)
    series = list(range(500))
    for tick in range(6):
        random.Random(tick).shuffle(series)
        hits = sum(cache.use(i, tick * interval) for i in series)
        assert hits == (0 if tick == 0 else 450)
    assert cache.evicted == []


def test_idle_entries_make_room() -> None:
    """When all series are replaced by others, the new ones take the places of the old after these have lain idle."""
    cache = Cache(300)
    assert _hits(cache, list(range(300)), 3, 15)[-1] == 1.0
    assert not any(cache.use(i, IDLE_TICKS + 29) for i in range(1000, 1300))
    assert cache.evicted == []
    for tick in (IDLE_TICKS + 60, IDLE_TICKS + 75):
        hits = [cache.use(i, tick) for i in range(1000, 1300)]
        assert all(hits) == (tick > IDLE_TICKS + 60)
    assert len(cache.evicted) == 300


@pytest.mark.parametrize(("idle", "admitted"), [(IDLE_TICKS - 1, False), (IDLE_TICKS, True), (IDLE_TICKS + 1, True)])
def test_idle_begins_exactly(idle: int, *, admitted: bool) -> None:
    """An entry may go from `idle_ticks` after its last use on, and not a tick earlier."""
    cache = Cache(1)
    cache.use(1, 100)
    assert cache.put(_entry(2, 100 + idle), 100 + idle) == admitted
    assert (cache.inner.find(b"%020d" % 1) is not None) != admitted


def test_an_evicted_entry_is_told_once() -> None:
    """What makes room is out of its cache when the caller is told to forget it, and never told again."""
    cache = Cache(10)
    for i in range(100):
        cache.use(i, i * IDLE_TICKS)
    assert len(cache.evicted) == len({id(entry) for entry in cache.evicted}) == 90
    assert all(entry.home is None for entry in cache.evicted)
    assert len(cache.inner.entries) == 10
    assert cache.inner.find(b"%020d" % 99) is not None
    assert cache.budget.used_bytes == 10 * COST


def test_caches_share_the_budget() -> None:
    """Entries of several senders count together, and one sender's idle entries make room for another's."""
    cache = Cache(10)
    others = SeriesCache(lambda *_: None)
    for i in range(10):
        assert cache.budget.admit(others, _entry(i), 0, cache._forget)
    assert not cache.use(1, 1)
    assert cache.inner.entries == {}
    for i in range(10):
        cache.use(i, IDLE_TICKS)
    assert (len(others.entries), len(cache.inner.entries)) == (0, 10)


def test_the_search_for_idle_entries_is_bounded() -> None:
    """A new series costs a look at a few entries, not at all; the hand goes on, so that idle ones are found in time."""
    cache = Cache(10 * LOOKED_AT)
    for i in range(10 * LOOKED_AT):
        cache.use(i, IDLE_TICKS if i < 9 * LOOKED_AT else 0)
    refused = [not cache.put(_entry(1000 + i, IDLE_TICKS), IDLE_TICKS) for i in range(10)]
    assert refused == [True] * 9 + [False]


def test_a_costly_entry_takes_several_places() -> None:
    """As many idle entries go as an entry needs room; where even that is not enough, it is not admitted."""
    cache = Cache(10)
    for i in range(10):
        cache.use(i, 0)
    large = Entry(b"x" * (3 * COST - ENTRY_BYTES), Epoch(0, 0), Fate("routed", "", ""))
    assert cost_of(large) == 3 * COST
    assert cache.put(large, IDLE_TICKS)
    assert len(cache.evicted) == 3
    assert cache.budget.used_bytes == 10 * COST
    assert not cache.put(Entry(b"x" * 11 * COST, Epoch(0, 0), Fate("routed", "", "")), 2 * IDLE_TICKS)
    assert cache.budget.used_bytes <= 10 * COST


def test_what_an_entry_costs() -> None:
    """An entry costs its block, its outputs and both pieces of theirs; a block that an output shares counts once."""
    entry = _entry(1)
    assert cost_of(entry) == COST
    entry.outputs = (Output(SLOT, entry.block),)
    assert cost_of(entry) == COST + OUTPUT_BYTES
    entry.outputs = (Output(SLOT, entry.block), Output(SLOT, b"x" * 50))
    assert cost_of(entry) == COST + 2 * OUTPUT_BYTES + 50
    entry.outputs = (Output(SLOT, b"x" * 50, b"y" * 70),)
    assert cost_of(entry) == COST + OUTPUT_BYTES + 120


def test_changed_outputs_are_accounted_for() -> None:
    """Outputs that an admitted entry gets or loses change what is used, and what may be admitted next."""
    cache = Cache(3)
    entry = _entry(1)
    cache.put(entry, 0)
    entry.outputs = tuple(Output(SLOT, b"%d" % i * 300) for i in range(2))
    cache.budget.recost(entry)
    assert cache.budget.used_bytes == cost_of(entry) == COST + 2 * (OUTPUT_BYTES + 300)
    assert not cache.put(_entry(2), 1)
    entry.outputs = ()
    cache.budget.recost(entry)
    assert cache.budget.used_bytes == COST
    assert cache.put(_entry(2), 1)


def test_an_entry_that_is_in_no_cache_costs_nothing() -> None:
    """An entry that was not admitted, or has been evicted, is not accounted for."""
    cache = Cache(1)
    first, second = _entry(1), _entry(2, IDLE_TICKS)
    cache.put(first, 0)
    assert not cache.put(second, 1)
    cache.budget.recost(second)
    assert cache.put(second, IDLE_TICKS)
    first.outputs = (Output(SLOT, b"x"),)
    cache.budget.recost(first)
    assert cache.budget.used_bytes == COST


def test_entries_forgotten_by_others_give_their_room_back() -> None:
    """An entry that its owner has forgotten is let go of when it is idle, and its room is used again."""
    cache = Cache(1)
    entry = _entry(1)
    cache.put(entry, 0)
    cache.inner.remove(entry)
    entry.forget()
    assert not cache.put(_entry(2, 1), 1)
    assert cache.put(_entry(2, IDLE_TICKS), IDLE_TICKS)
    assert cache.budget.used_bytes == COST


@given(
    room=st.integers(0, 12),
    steps=st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 1, 15, 300, IDLE_TICKS])), max_size=150),
)
def test_the_limit_is_held(room: int, steps: list[tuple[int, int]]) -> None:
    """Whatever comes, used bytes are those of the entries that are in, never above the limit, and nothing used goes."""
    cache = Cache(room)
    tick = 0
    for i, passed in steps:
        tick += passed
        cache.use(i, tick)
        entries = cache.inner.entries
        assert cache.budget.used_bytes == sum(cost_of(entry) for entry in entries.values()) <= room * COST
        assert all(entry.used + IDLE_TICKS <= tick for entry in cache.evicted)
        assert {id(entry) for entry in entries.values()}.isdisjoint(id(entry) for entry in cache.evicted)
        assert all(entry.home is cache.inner and cache.inner.find(entry.block) is entry for entry in entries.values())
