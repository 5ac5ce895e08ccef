import pytest

from proxy.core.carrying import Carrying, Item, Settled
from proxy.core.outcome import DELIVERED, Outcome
from tests.proxy.core.carried import (
    BAD,
    LARGE,
    SLOW,
    budget_of,
    carry,
    endless,
    entry_of,
    item_of,
    joined,
    scripted,
    untouched,
)
from tests.proxy.core.messages import blob


def test_too_large_is_halved() -> None:
    """413 halves a request of any upstream, items first; an entry that is too large alone is refused so."""
    big = entry_of("big", samples=50)
    items = [item_of("a"), Item(entry_of("b") + big, 51, 0, 0), item_of("c")]
    requests, settled = carry(Carrying(items, "partial", endless), lambda body: LARGE if len(body) > 100 else DELIVERED)
    assert requests == [
        joined("a", "b") + big + entry_of("c"),
        joined("a", "b") + big,
        entry_of("a"),
        entry_of("b") + big,
        entry_of("b"),
        big,
        entry_of("c"),
    ]
    assert [(each.item, each.samples, each.outcome) for each in settled] == [
        (0, 1, DELIVERED),
        (1, 1, DELIVERED),
        (1, 50, LARGE),
        (2, 1, DELIVERED),
    ]


def test_too_large_without_budget() -> None:
    """What cannot be paid of a request that was too large is refused as too large, not as bad."""
    carrying = Carrying([item_of("a", "b"), item_of("c")], "whole", budget_of(1))
    assert carrying.replied(LARGE) == [Settled(1, 1, 0, 0, LARGE)]
    assert carrying.request == joined("a", "b")


def test_throttled_goes_on_in_halves() -> None:
    """After 429 nothing larger than the half is sent until requests pass again, and it costs nothing of the budget."""
    carrying = Carrying([item_of(*"abcdefgh")], "whole", untouched)
    sent = []

    def store(body: bytes) -> Outcome:
        sent.append(carrying.attempt)
        return SLOW if body.count(b"__name__") > 2 else DELIVERED

    requests, settled = carry(carrying, store)
    assert requests == [joined(*names) for names in ["abcdefgh", "abcd", "ab", "cd", "efgh", "ef", "gh"]]
    assert sent == [0] * 7
    assert [each.samples for each in settled] == [2] * 4


@pytest.mark.parametrize(
    ("first", "second", "requests"),
    [
        ([1] * 60, [1] * 30, [90, 60, 30, 30, 30]),
        ([1] * 60, [1] * 40, [100, 60, 30, 30, 20, 20]),
        ([1] * 60, [2] * 20, [80, 60, 30, 30, 10, 10]),
        ([1] * 20 + [2] * 20, [2] * 20, [60, 40, 20, 20, 20]),
        ([1] * 20 + [2] * 20, [2] * 10 + [3] * 12, [62, 40, 20, 20, 11, 11]),
    ],
)
def test_throttled_size_holds_for_the_items_behind(first: list[int], second: list[int], requests: list[int]) -> None:
    """What waits is cut to the larger half, by samples and exemplars as rate limits count them, before it is sent."""
    items = [
        Item(b"".join(entry_of("m", 1, of - 1) for of in each), len(each), 0, sum(each) - len(each))
        for each in (first, second)
    ]
    sent, _ = carry(Carrying(items, "whole", endless), scripted(BAD, SLOW))
    assert [body.count(b"__name__") for body in sent] == requests


def test_a_window_grows_with_success() -> None:
    """What throttling has come to is where the next one begins; each request that passes lets a larger one follow."""
    items = [item_of(*"abcdefghijklmnopqrstuvwxyz")]
    carrying = Carrying(items, "partial", untouched, window=2)
    sent, _ = carry(carrying, lambda _: DELIVERED)
    sizes = [body.count(b"__name__") for body in sent]
    assert sizes[0] <= 2
    assert sizes[:3] == sorted(sizes[:3])
    assert max(sizes) > 4
    assert b"".join(sent) == items[0].entries
    assert carrying.window > max(sizes)


def test_throttled_by_rate_not_burst() -> None:
    """A size that has passed is tried once more before it is halved: then it is the rate that wants time."""
    carrying = Carrying([item_of(*"abcdefgh")], "partial", untouched)
    requests, _ = carry(carrying, scripted(SLOW, DELIVERED, SLOW, SLOW))
    assert requests == [joined(*names) for names in ["abcdefgh", "abcd", "efgh", "efgh", "ef", "gh"]]


def test_throttled_alone() -> None:
    """A single entry that is throttled is sent again, the same bytes, for as long as it takes."""
    carrying = Carrying([item_of("a")], "partial", untouched)
    first = carrying.request
    for attempt in range(5):
        assert carrying.attempt == attempt
        assert carrying.replied(SLOW) == []
    assert carrying.request is first


def test_throttled_request_without_samples() -> None:
    """Entries that bear no samples are halved likewise, and not all at once."""
    item = Item(b"".join(blob(3, blob(2, bytes([name]))) for name in b"abcdefgh"), 0, 0, 0)
    carrying = Carrying([item], "partial", untouched)
    requests, _ = carry(carrying, scripted(SLOW))
    assert [body.count(b"\x1a") for body in requests] == [8, 4, 4]
