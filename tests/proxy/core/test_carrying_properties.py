"""A request is carried against stores that refuse, throttle, measure and fail as hypothesis says."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.carrying import Carrying, Item, Settled
from proxy.core.outcome import DELIVERED, Delivered, Outcome, Refusal, Refused, Retryable
from proxy.core.pieces import split_entries
from tests.proxy.core.messages import blob, block, exemplar, sample

BAD = Refused("upstream_400", 400)
REST = "upstream_400_rest"
FAULTS = [Retryable("upstream_503"), Retryable("upstream_timeout", 3.0), Retryable("upstream_401")]

COUNTS = st.tuples(st.integers(0, 3), st.integers(0, 2))
ITEMS = st.lists(st.lists(COUNTS, min_size=1, max_size=6), max_size=20)


def _entries(items: list[list[tuple[int, int]]]) -> list[list[bytes]]:
    """Entries with these many samples and exemplars, each unlike all others."""
    return [
        [
            blob(1, block(("__name__", f"m{at}"), ("i", str(index))) + sample() * samples + exemplar() * exemplars)
            for index, (samples, exemplars) in enumerate(counts)
        ]
        for at, counts in enumerate(items)
    ]


def _items(counts: list[list[tuple[int, int]]], entries: list[list[bytes]]) -> list[Item]:
    return [
        Item(b"".join(each), sum(samples for samples, _ in of), at % 3, sum(exemplars for _, exemplars in of))
        for at, (of, each) in enumerate(zip(counts, entries, strict=True))
    ]


@dataclass
class Store:
    """Refuses a request whole for one bad entry, throttles more entries than `burst`, takes no more bytes than `size`.

    Faults come first, at most one for each request, as drawn.
    """

    bad: set[bytes]
    burst: int
    size: int
    faults: list[Outcome | None]
    taken: list[bytes] = field(default_factory=list)
    alone: list[bytes] = field(default_factory=list)
    requests: int = 0

    def reply(self, body: bytes) -> Outcome:
        fault = self.faults.pop() if self.faults else None
        if fault is not None:
            return fault
        found = [piece.entry for piece in split_entries(body)]
        if len(found) > self.burst:
            return Retryable("upstream_429")
        self.requests += 1
        if len(body) > self.size:
            return Refused("upstream_413", 413)
        if self.bad.intersection(found):
            if len(found) == 1:
                self.alone.append(body)
            return BAD
        self.taken += found
        return DELIVERED


def _carry(carrying: Carrying, store: Store, items: list[Item]) -> list[Settled]:
    """Carry on to the end; at each step what is settled and what is left make up each item."""
    settled: list[Settled] = []
    while (request := carrying.request) is not None:
        attempt = carrying.attempt
        outcome = store.reply(request)
        ended = carrying.replied(outcome)
        if isinstance(outcome, Retryable):
            assert ended == []
            if carrying.request is request:
                assert carrying.attempt == attempt + 1
            else:
                assert (outcome.reason, carrying.attempt) == ("upstream_429", 0)
        settled += ended
        _assert_adds_up(items, settled, carrying.rest())
    assert carrying.finished
    return settled


def _assert_adds_up(items: list[Item], settled: list[Settled], rest: list[Item]) -> None:
    left = {
        "samples": sum(item.samples for item in rest),
        "made": sum(item.made for item in rest),
        "exemplars": sum(item.exemplars for item in rest),
    }
    for count, waiting in left.items():
        ended = sum(getattr(each, count) for each in settled)
        assert ended + waiting == sum(getattr(item, count) for item in items)
    entries = [piece.entry for item in rest for piece in split_entries(item.entries)]
    whole = iter([piece.entry for item in items for piece in split_entries(item.entries)])
    assert all(entry in whole for entry in entries)  # an ordered subsequence


@given(ITEMS, st.data())
def test_every_good_entry_is_delivered_once(counts: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    """Whatever fails in between, good entries arrive once and in order, bad ones end alone, and each item adds up."""
    entries = _entries(counts)
    flat = [entry for each in entries for entry in each]
    bad = set(data.draw(st.lists(st.sampled_from(flat), unique=True))) if flat else set()
    largest = max(map(len, flat), default=0)
    faults = data.draw(st.lists(st.none() | st.sampled_from(FAULTS), max_size=20))
    store = Store(bad, data.draw(st.integers(1, 8)), largest + data.draw(st.integers(0, 300)), list(faults))
    items = _items(counts, entries)
    settled = _carry(Carrying(items, "whole", lambda: True), store, items)
    assert store.taken == [entry for entry in flat if entry not in bad]
    assert store.alone == [entry for entry in flat if entry in bad]
    for at, (item, of, each) in enumerate(zip(items, counts, entries, strict=True)):
        mine = [one for one in settled if one.item == at]
        refused = [one for one in mine if one.outcome == BAD]
        lost = [of[index] for index, entry in enumerate(each) if entry in bad]
        assert [(one.samples, one.exemplars) for one in refused] == lost
        assert all(one in refused or one.outcome == DELIVERED for one in mine)
        assert [one.made for one in mine] == [item.made, *[0] * (len(mine) - 1)]
        assert sum(one.samples for one in mine) == item.samples
        assert sum(one.exemplars for one in mine) == item.exemplars


@given(ITEMS, st.integers(0, 30), st.data())
def test_budget_bounds_the_requests(counts: list[list[tuple[int, int]]], budget: int, data: st.DataObject) -> None:
    """No more requests than the budget has are added, and what was not tried for it, only that, is the rest."""
    entries = _entries(counts)
    flat = [entry for each in entries for entry in each]
    bad = set(data.draw(st.lists(st.sampled_from(flat), unique=True))) if flat else set()
    store = Store(bad, 1 << 30, 1 << 30, data.draw(st.lists(st.none() | st.sampled_from(FAULTS), max_size=9)))
    items = _items(counts, entries)
    grants = iter([True] * budget)
    asked = []

    def spend() -> bool:
        asked.append(next(grants, False))
        return asked[-1]

    settled = _carry(Carrying(items, "whole", spend), store, items)
    assert store.requests <= 1 + budget
    good = iter([entry for entry in flat if entry not in bad])
    assert all(entry in good for entry in store.taken)
    assert sum(one.samples for one in settled) == sum(item.samples for item in items)
    reasons = {one.outcome.reason for one in settled if isinstance(one.outcome, Refused)}
    assert reasons <= {"upstream_400", REST}
    assert (REST in reasons) == (False in asked)
    if REST not in reasons:
        assert store.taken == [entry for entry in flat if entry not in bad]


@given(ITEMS.filter(bool), st.integers(1, 5), st.booleans())
def test_partial_upstreams_cost_one_request(
    counts: list[list[tuple[int, int]]],
    faults: int,
    refused: bool,  # noqa: FBT001 - drawn
) -> None:
    """A partial upstream gets one request, the same bytes until they are answered, and the answer is for every item."""
    items = _items(counts, _entries(counts))
    outcome: Delivered | Refused = Refused("upstream_400_partial", 400) if refused else DELIVERED
    carrying = Carrying(items, "partial", lambda: False)
    sent = {id(carrying.request)}
    for _ in range(faults):
        assert carrying.replied(FAULTS[0]) == []
        sent.add(id(carrying.request))
    assert len(sent) == 1
    assert carrying.replied(outcome) == [
        Settled(at, item.samples, item.made, item.exemplars, outcome) for at, item in enumerate(items)
    ]
    assert carrying.finished


REPLIES = st.sampled_from([DELIVERED, BAD, Refused("upstream_413", 413), Retryable("upstream_429"), *FAULTS])
REFUSALS: st.SearchStrategy[Refusal] = st.sampled_from(["whole", "partial"])


@pytest.mark.fuzz
@given(st.lists(st.tuples(st.binary(), *[st.integers(0, 9)] * 3), max_size=5), REFUSALS, st.lists(REPLIES, max_size=60))
def test_any_bytes_and_any_replies_add_up(
    rows: list[tuple[bytes, int, int, int]], refusal: Refusal, replies: list[Outcome]
) -> None:
    """Whatever the entries hold and the upstream answers, nothing raises, and each count is settled or left, once."""
    items = [Item(*row) for row in rows]
    carrying = Carrying(items, refusal, lambda: True)
    settled: list[Settled] = []
    for reply in replies:
        if carrying.finished:
            break
        settled += carrying.replied(reply)
        rest = carrying.rest()
        for count in ("samples", "made", "exemplars"):
            ended = [getattr(each, count) for each in settled]
            assert sum(ended) + sum(getattr(each, count) for each in rest) == sum(
                getattr(each, count) for each in items
            )
            assert min(ended, default=0) >= 0
        assert b"".join(each.entries for each in rest) in b"".join(each.entries for each in items)
