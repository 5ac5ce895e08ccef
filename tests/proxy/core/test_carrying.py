import pytest

from proxy.core.carrying import ITEMS_APART, Carrying, Item, Settled
from proxy.core.outcome import DELIVERED, Outcome, Refused
from tests.proxy.core.carried import (
    BAD,
    FAULT,
    PARTIAL,
    REST,
    SLOW,
    TOO_OLD,
    budget_of,
    carry,
    endless,
    entry_of,
    item_of,
    joined,
    refusing,
    scripted,
    untouched,
)


def test_all_goes_well() -> None:
    """What is delivered at once is one request, the items' entries as they are, and each item is settled once."""
    carrying = Carrying([item_of("a", "b", made=1), item_of("c")], "whole", untouched)
    carrying.attempt = 3
    assert (carrying.request, carrying.attempt, carrying.finished) == (joined("a", "b", "c"), 3, False)
    assert carrying.replied(DELIVERED) == [Settled(0, 2, 1, 0, DELIVERED), Settled(1, 1, 0, 0, DELIVERED)]
    assert (carrying.request, carrying.finished, carrying.rest()) == (None, True, [])


def test_nothing_to_carry() -> None:
    """Without items there is nothing to send."""
    carrying = Carrying([], "whole", untouched)
    assert (carrying.request, carrying.finished, carrying.rest()) == (None, True, [])


@pytest.mark.parametrize("outcome", [PARTIAL, Refused("upstream_404", 404), Refused("upstream_422", 422)])
def test_final_refusal(outcome: Refused) -> None:
    """A partial 400 and any other permanent refusal is the end of all items in the request, with its reason."""
    carrying = Carrying([item_of("a", "b", made=2), item_of("c")], "partial", untouched)
    assert carrying.replied(outcome) == [Settled(0, 2, 2, 0, outcome), Settled(1, 1, 0, 0, outcome)]
    assert carrying.finished


def test_other_refusals_of_a_whole_upstream_are_final() -> None:
    """Only its 400 is taken apart: a 404 would be the same for each piece."""
    gone = Refused("upstream_404", 404)
    carrying = Carrying([item_of("a"), item_of("b")], "whole", untouched)
    assert [settled.outcome for settled in carrying.replied(gone)] == [gone, gone]


def test_retried_with_the_same_bytes() -> None:
    """A fault settles nothing; the request is the same object, and its attempts are counted for these bytes alone."""
    carrying = Carrying([item_of("a", "b"), item_of("c")], "whole", endless)
    carrying.attempt = 2
    first = carrying.request
    assert carrying.replied(FAULT) == carrying.replied(FAULT) == []
    assert carrying.request is first
    assert carrying.attempt == 4
    assert carrying.replied(BAD) == []
    assert (carrying.request, carrying.attempt) == (joined("a", "b"), 0)
    second = carrying.request
    assert carrying.replied(FAULT) == []
    assert carrying.request is second
    assert carrying.attempt == 1
    assert carrying.replied(DELIVERED) == [Settled(0, 2, 0, 0, DELIVERED)]
    assert (carrying.request, carrying.attempt) == (joined("c"), 0)


def test_items_one_by_one_then_halves() -> None:
    """After a whole refusal each item goes alone, and the refused one is halved, in order, until the bad is alone."""
    carrying = Carrying([item_of("a", "b"), item_of("c", "d", "e", made=2), item_of("f")], "whole", endless)
    requests, settled = carry(carrying, refusing(entry_of("d")))
    expected = ["abcdef", "ab", "cde", "cd", "c", "d", "e", "f"]
    assert requests == [joined(*names) for names in expected]
    assert settled == [
        Settled(0, 2, 0, 0, DELIVERED),
        Settled(1, 1, 2, 0, DELIVERED),
        Settled(1, 1, 0, 0, BAD),
        Settled(1, 1, 0, 0, DELIVERED),
        Settled(2, 1, 0, 0, DELIVERED),
    ]


@pytest.mark.parametrize("bad", [0, 1, 499, 500, 637, 998, 999])
@pytest.mark.parametrize("items", [1, 1000])
def test_one_bad_among_a_thousand(bad: int, items: int) -> None:
    """It stands alone after some twenty requests, whether one sender brought all of them or each another one."""
    names = [f"m{at:03}" for at in range(1000)]
    size = len(names) // items
    split = [item_of(*names[at : at + size]) for at in range(0, len(names), size)]
    requests, settled = carry(Carrying(split, "whole", endless), refusing(entry_of(names[bad])))
    assert len(requests) <= 22
    assert [each.samples for each in settled if each.outcome == BAD] == [1]
    assert sum(each.samples for each in settled) == 1000


@pytest.mark.parametrize(("items", "requests"), [(ITEMS_APART, ITEMS_APART), (ITEMS_APART + 1, 2)])
def test_how_many_items_go_one_by_one(items: int, requests: int) -> None:
    """Few items each get a request of their own, which is paid at once; of more, two halves."""
    paid: list[bool] = []

    def spend() -> bool:
        paid.append(True)
        return True

    carrying = Carrying([item_of(str(at)) for at in range(items)], "whole", spend)
    assert carrying.replied(BAD) == []
    assert len(paid) == requests


def test_exemplars_are_counted_with_their_entry() -> None:
    """An entry that bears exemplars only is settled with no sample, alone where it is the bad one."""
    entries = [entry_of("a", 3, 1), entry_of("b", 0, 2), entry_of("c", 2)]
    item = Item(b"".join(entries), 5, 0, 3)
    _, settled = carry(Carrying([item], "whole", endless), refusing(entries[1]))
    assert settled == [
        Settled(0, 3, 0, 1, DELIVERED),
        Settled(0, 0, 0, 2, BAD),
        Settled(0, 2, 0, 0, DELIVERED),
    ]


@pytest.mark.parametrize(
    ("budget", "requests", "settled"),
    [
        (0, ["abcd"], [(4, REST)]),
        (1, ["abcd", "ab"], [(2, REST), (2, DELIVERED)]),
        (3, ["abcd", "ab", "cd", "c"], [(2, DELIVERED), (1, REST), (1, DELIVERED)]),
        (4, ["abcd", "ab", "cd", "c", "d"], [(2, DELIVERED), (1, DELIVERED), (1, BAD)]),
    ],
)
def test_budget(budget: int, requests: list[str], settled: list[tuple[int, Outcome]]) -> None:
    """Each request that a refusal adds is paid when it comes; what cannot be paid of that refusal is the rest."""
    carrying = Carrying([item_of("a", "b", "c", "d")], "whole", budget_of(budget))
    sent, ended = carry(carrying, refusing(entry_of("d")))
    assert sent == [joined(*names) for names in requests]
    assert [(each.samples, each.outcome) for each in ended] == settled


def test_budget_is_kept_for_the_other_items() -> None:
    """The one item that uses the budget up does not take what was paid for the others."""
    carrying = Carrying([item_of("a", "b", "c", "d"), item_of("e"), item_of("f")], "whole", budget_of(7))
    _, settled = carry(carrying, refusing(*(entry_of(name) for name in "abcd")))
    assert [(each.item, each.samples, each.outcome) for each in settled] == [
        (0, 1, BAD),
        (0, 1, BAD),
        (0, 2, REST),
        (1, 1, DELIVERED),
        (2, 1, DELIVERED),
    ]


@pytest.mark.parametrize(
    ("replay", "too_old", "expected"),
    [(True, True, TOO_OLD), (True, False, PARTIAL), (False, True, PARTIAL)],
)
def test_too_old(replay: bool, too_old: bool, expected: Refused) -> None:  # noqa: FBT001 - columns of the table
    """Only what comes from the quarantine, and only where the store says so, is dropped as too old."""
    carrying = Carrying([item_of("a"), item_of("b")], "partial", untouched, replay=replay)
    assert [each.outcome for each in carrying.replied(PARTIAL, too_old=too_old)] == [expected] * 2


def test_too_old_of_a_whole_upstream() -> None:
    """Such a refusal is taken apart all the same; the single entry is too old if the reply to it alone says so."""
    carrying = Carrying([item_of("a", "b", "c", "d")], "whole", endless, replay=True)
    assert carrying.replied(BAD, too_old=True) == []
    assert carrying.replied(BAD, too_old=True) == []
    assert carrying.replied(BAD, too_old=True) == [Settled(0, 1, 0, 0, TOO_OLD)]
    assert carrying.replied(BAD) == [Settled(0, 1, 0, 0, BAD)]
    assert carrying.replied(DELIVERED, too_old=True) == [Settled(0, 2, 0, 0, DELIVERED)]


def test_rest() -> None:
    """What is not settled comes item by item and in order, with what is left of its counts."""
    items = [item_of("a", "b", "c", "d", made=3), item_of("e", made=1)]
    carrying = Carrying(items, "whole", endless)
    assert carrying.rest() == items
    carrying.replied(BAD)
    carrying.replied(BAD)
    assert carrying.rest() == items
    carrying.replied(DELIVERED)
    assert carrying.rest() == [Item(joined("c", "d"), 2, 0, 0), items[1]]
    carrying.replied(BAD)
    assert carrying.rest() == [Item(joined("c", "d"), 2, 0, 0), items[1]]
    carrying.replied(BAD)
    assert carrying.rest() == [Item(joined("d"), 1, 0, 0), items[1]]


@pytest.mark.parametrize("outcomes", [[], [BAD] * 7, [SLOW]])
@pytest.mark.parametrize(("samples", "exemplars"), [(9, 9), (3, 3), (1, 1), (0, 0)])
def test_an_item_adds_up_whatever_its_entries_say(samples: int, exemplars: int, outcomes: list[Outcome]) -> None:
    """Counts that disagree with the bytes are settled once all the same, the last piece with what is left."""
    for entries in (b"".join(entry_of(name, exemplars=1) for name in "abcd"), b"\xff" * 4):
        item = Item(entries, samples, 1, exemplars)
        _, settled = carry(Carrying([item], "whole", endless), scripted(*outcomes))
        assert sum(each.samples for each in settled) == samples
        assert sum(each.made for each in settled) == 1
        assert sum(each.exemplars for each in settled) == exemplars
        assert min(min(each.samples, each.exemplars) for each in settled) >= 0
