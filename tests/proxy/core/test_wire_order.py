import random
import subprocess
import sys
from types import ModuleType

import pytest

from tests.proxy.core.messages import NOW_MS, block, exemplar, number, request, sample
from tests.proxy.core.router import NO_PAIR, Part, Router, To, Way
from tests.proxy.core.twins import Twin

SERIES = [block(("__name__", "up"), ("i", str(i))) for i in range(40)]


def _request(order: list[bytes], at_ms: int = NOW_MS) -> bytes:
    return request(*(each + sample(1.0, at_ms) for each in order))


def _predicted(router: Router, body: bytes) -> int:
    """How many samples of a request go the fast way when only the remembered order tells what they are."""
    entries = dict(router.cache.entries)
    router.cache.entries.clear()
    kept, router.kept = router.kept, False
    router.scan(body)
    router.kept = kept
    router.cache.entries.update(entries)
    fast: int = router.cache.fast_samples
    return fast


def test_a_cold_cache_asks_for_each_series_once(twin: Twin) -> None:
    """The first time each series is asked for, the second time none, and both times everything is passed on."""
    router = Router(twin)
    for slow in (len(SERIES), 0, 0):
        assert router.scan(_request(SERIES)) == [Part("a", NO_PAIR, _request(SERIES), len(SERIES), 0)]
        assert len(router.slow) == slow
        assert router.cache.fast_samples == len(SERIES) - slow


def test_the_order_of_last_time_is_enough(twin: Twin) -> None:
    """Series that come in the order of last time are known without a look into the dictionary."""
    router = Router(twin)
    router.scan(_request(SERIES))
    assert _predicted(router, _request(SERIES)) == len(SERIES)


@pytest.mark.parametrize("seed", range(5))
def test_another_order_is_learnt_at_once(twin: Twin, seed: int) -> None:
    """A new order needs the dictionary once, never the resolver, and is then what is expected."""
    router = Router(twin)
    router.scan(_request(SERIES))
    shuffled = random.Random(seed).sample(SERIES, len(SERIES))
    assert router.scan(_request(shuffled)) == [Part("a", NO_PAIR, _request(shuffled), len(SERIES), 0)]
    assert router.slow == []
    assert _predicted(router, _request(shuffled)) == len(SERIES)


def test_parts_of_a_cycle_are_expected(twin: Twin) -> None:
    """Requests that begin and end anywhere in the cycle cost one look-up each, at their beginning."""
    router = Router(twin)
    router.scan(_request(SERIES))
    for start in (7, 23, 39):
        assert _predicted(router, _request(SERIES[start:])) == 0
        router.scan(_request(SERIES[start : start + 9]))
        assert router.slow == []
        assert _predicted(router, _request(SERIES[start : start + 9])) == len(SERIES[start : start + 9])


def test_interleaved_senders(twin: Twin) -> None:
    """Two orders that come in turn are both passed on by scan alone, each whole and in its own order."""
    router = Router(twin)
    orders = [SERIES[:20], SERIES[20:], SERIES[::-1], SERIES[::2]]
    router.scan(_request(SERIES))
    for _ in range(3):
        for order in orders:
            assert router.scan(_request(order)) == [Part("a", NO_PAIR, _request(order), len(order), 0)]
            assert router.slow == []


def test_a_backlog_stays_in_order(twin: Twin) -> None:
    """Several samples of one series in one request come out in the order in which they came, each with its time."""
    router = Router(twin)
    router.scan(_request(SERIES[:1]))
    entries = [SERIES[0] + sample(float(i), NOW_MS + i % 7) for i in range(30)]
    assert router.scan(request(*entries)) == [Part("a", NO_PAIR, request(*entries), 30, 0)]
    assert router.slow == []
    assert router.cache.find(SERIES[0]).last_ms == NOW_MS + 6


def test_many_series(twin: Twin) -> None:
    """Some thousand series with the same and with different times pass, cold and warm, in two orders."""
    series = [block(("__name__", "up"), ("i", "x" * (i % 150) + str(i))) for i in range(4000)]
    router = Router(twin)
    for order in (series, series, series[::-1]):
        body = request(*(each + sample(1.0, NOW_MS + len(each) % 3) for each in order))
        assert router.scan(body) == [Part("a", NO_PAIR, body, len(series), 0)]
    assert router.slow == []


def test_a_refused_entry_does_not_break_the_order(twin: Twin) -> None:
    """A resolver that keeps nothing, or refuses, leaves the expectation where it was: behind the last known series."""
    router = Router(twin, lambda known, *_: Way((To("a", NO_PAIR, known),), kept=known != SERIES[1]))
    bad = number(2, 1)
    body = request(SERIES[0] + sample(), SERIES[1] + sample(), bad, SERIES[2] + sample())
    router.scan(body)
    router.scan(body)
    assert router.slow == [SERIES[1] + sample(), bad]
    assert _predicted(router, _request([SERIES[0], SERIES[2]])) == 2


def test_a_forgotten_entry_matches_nothing(twin: Twin) -> None:
    """An evicted series is asked for again, even where it was the next one expected, and its memory is let go."""
    router = Router(twin)
    router.scan(_request(SERIES[:3]))
    forgotten = router.cache.find(SERIES[1])
    router.forget(SERIES[1])
    assert (forgotten.fast, forgotten.outputs, forgotten.next, forgotten.home) == (False, (), None, None)
    assert forgotten.block not in SERIES
    assert router.scan(_request(SERIES[:3])) == [Part("a", NO_PAIR, _request(SERIES[:3]), 3, 0)]
    assert router.slow == [SERIES[1] + sample(1.0)]
    assert router.cache.find(SERIES[1]) is not forgotten
    router.scan(_request(SERIES[:3]))
    assert router.slow == []


@pytest.mark.parametrize("entry", [b"\x00" + SERIES[1][1:] + sample(), bytes(len(SERIES[1])) + sample(), b"\x00"])
def test_no_bytes_are_a_forgotten_entry(twin: Twin, entry: bytes) -> None:
    """What an evicted entry is left with is no beginning of any entry, so that nothing is ever taken for it."""
    router = Router(twin)
    router.scan(_request(SERIES[:3]))
    router.forget(SERIES[1])
    router.scan(request(SERIES[0] + sample(), entry, SERIES[2] + sample()))
    assert router.slow == [entry]
    assert router.refused == 1


def test_an_entry_forgotten_while_it_is_the_last_seen(twin: Twin) -> None:
    """A resolver may evict the very entry that came before; the rest of the request passes all the same."""
    router = Router(twin)
    router.scan(_request(SERIES[:2]))

    def policy(known: bytes, _at_ms: int, asked: Router) -> Way:
        asked.forget(SERIES[0])
        return Way((To("a", NO_PAIR, known),))

    router.policy = policy
    body = _request([SERIES[0], SERIES[2], SERIES[1], SERIES[0]])
    assert router.scan(body) == [Part("a", NO_PAIR, body, 4, 0)]
    assert router.slow == [SERIES[2] + sample(1.0), SERIES[0] + sample(1.0)]


PREFIX = block(("__name__", "up"))
TRICKY = {
    "one block begins with another": [PREFIX, PREFIX + block(("a", "1")), PREFIX + block(("a", "1"), ("b", "2"))],
    "a label of 18 bytes": [PREFIX, PREFIX + block(("abc", "123456789"))],
    "a label of 9 bytes": [PREFIX, PREFIX + block(("a", "12"))],
    "a value that ends as a sample begins": [
        block(("__name__", "\x12\x10\x09")),
        block(("__name__", "\x12\x10\x09" + "x" * 6)),
        block(("__name__", "\x12\x07\x10")),
        block(("__name__", "up"), ("z", "\x12\x10\x09" + "x" * 15)),
    ],
    "a value that ends like a sample": [
        block(("__name__", "up"))
        + b"\x0a\x17\x0a\x01z\x12\x12"
        + sample(1.0)[:12].replace(b"\x3f", b"?")
        + b"\x01" * 6,
        block(("__name__", "up")) + b"\x0a\x0e\x0a\x01z\x12\x09" + b"\x12\x07\x10" + b"\x01" * 6,
    ],
    "the last byte differs": [block(("__name__", "up"), ("a", each)) for each in ("1", "2", "3")],
    "the same labels in another order": [block(("a", "1"), ("b", "2")), block(("b", "2"), ("a", "1"))],
}


@pytest.mark.parametrize("series", TRICKY.values(), ids=TRICKY.keys())
@pytest.mark.parametrize("value", [None, 1.5])
def test_label_blocks_that_mislead(twin: Twin, series: list[bytes], value: float | None) -> None:
    """However alike label blocks are, and whatever their values look like, each sample stays with its own series."""
    for order in (series, series[::-1], [*series, *series], [each for one in series for each in (one, one)]):
        router = Router(twin)
        body = request(*(each + sample(value, NOW_MS + i) for i, each in enumerate(order)))
        for _ in range(3):
            assert router.scan(body) == [Part("a", NO_PAIR, body, len(order), 0)]
        assert router.refused == 0
        assert {entry.block for entry in router.cache.entries.values()} == set(series)


def test_every_slot_has_its_own_body(twin: Twin) -> None:
    """Parts of different tenants, and of different (cluster, replica) pairs of one tenant, are never in one body."""
    pairs = [("c1", "a"), ("c1", "b"), ("c2", "a"), NO_PAIR]

    def policy(known: bytes, _at_ms: int, _router: Router) -> Way:
        i = SERIES.index(known)
        return Way(tuple(To(tenant, pairs[i % 4], known) for tenant in ("a", "b", "c")[: i % 3 + 1]))

    router = Router(twin, policy)
    for _ in range(2):
        parts = router.scan(_request(SERIES))
        for part in parts:
            sent = [each for i, each in enumerate(SERIES) if pairs[i % 4] == part.pair and part.tenant <= "abc"[i % 3]]
            assert part == Part(part.tenant, part.pair, _request(sent), len(sent), 0)
        assert len(parts) == len({(part.tenant, part.pair) for part in parts}) == 12
    assert router.slow == []


def test_slots_come_in_the_order_of_their_first_use(twin: Twin) -> None:
    """The slots of a request are told in the order in which its series needed them, whichever way those went."""
    router = Router(twin, lambda known, *_: Way((To(str(SERIES.index(known) % 5), NO_PAIR, known),)))
    router.scan(_request(SERIES[:4]))
    parts = router.scan(_request([SERIES[i] for i in (3, 8, 4, 2, 7, 3)]))
    assert [part.tenant for part in parts] == ["3", "4", "2"]


def test_a_slot_begins_empty_with_each_scan(twin: Twin) -> None:
    """Nothing of an earlier request is in a later one: not its bytes, not its counts of samples and exemplars."""
    router = Router(twin)
    known = SERIES[0]
    assert router.scan(request(known + sample() + exemplar())) == [
        Part("a", NO_PAIR, request(known + sample() + exemplar()), 1, 1)
    ]
    assert router.scan(_request([known])) == [Part("a", NO_PAIR, _request([known]), 1, 0)]
    assert router.scan(b"") == []


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_an_output_gets_its_own_labels(twin: Twin, count: int) -> None:
    """Each output gets the sample under its own label block, however long; without outputs it is only counted."""
    blocks = [block(("__name__", "up"), ("tenant", "x" * 70 * i)) for i in range(count)]
    router = Router(twin, lambda *_: Way(tuple(To(str(i), NO_PAIR, each) for i, each in enumerate(blocks))))
    for value in (1.5, None, 2.5):
        body = request(*(each + sample(value) for each in SERIES[:3]))
        assert router.scan(body) == [
            Part(str(i), NO_PAIR, request(*[each + sample(value)] * 3), 3, 0) for i, each in enumerate(blocks)
        ]
    assert router.slow == []
    assert router.fates == {count: 9}


def test_what_an_entry_remembers(twin: Twin) -> None:
    """The fast way notes when an entry was used and the newest time it was fed with, and never an older one."""
    router = Router(twin)
    router.scan(_request(SERIES[:2]), tick=5)
    entry = router.cache.find(SERIES[0])
    for at_ms, newest in ((NOW_MS + 2, NOW_MS + 2), (NOW_MS + 1, NOW_MS + 2), (NOW_MS + 3, NOW_MS + 3)):
        router.scan(_request(SERIES[:1], at_ms), tick=at_ms % 1000)
        assert (entry.last_ms, entry.used) == (newest, at_ms % 1000)
    assert router.cache.find(SERIES[1]).used == 0


def test_equal_outputs(wire: ModuleType) -> None:
    """Outputs are one where they have one slot and one label block, wherever it is cut: so what feeds them is found."""
    slots = [wire.Slot("a", NO_PAIR), wire.Slot("a", NO_PAIR)]
    first = wire.Output(slots[0], SERIES[0])
    for at in range(len(SERIES[0]) + 1):
        other = wire.Output(slots[0], SERIES[0][:at], SERIES[0][at:])
        assert (other, hash(other), other.block) == (first, hash(first), SERIES[0])
        assert other.first + other.second == first.first + first.second
    assert first != wire.Output(slots[1], SERIES[0])
    assert first != wire.Output(slots[0], SERIES[1])
    assert first != SERIES[0]


def test_a_long_chain_is_freed_flat() -> None:
    """A cache of many series is let go without a call for each, which would end the process on a small stack."""
    script = """
import threading
from proxy.core.wire import Entry, Epoch, Fate, SeriesCache
def work():
    cache = SeriesCache(lambda *_: None)
    last, epoch, fate = cache.head, Epoch(0, 0), Fate("", "", "")
    for i in range(50_000):
        last.next = cache.entries[i] = last = Entry(str(i).encode(), epoch, fate)
threading.stack_size(256 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
