from hypothesis import given
from hypothesis import strategies as st

from proxy.core.walk import Place, Walk

SEGMENTS = st.lists(st.lists(st.integers(-5, 40), max_size=12), max_size=6)


def _places(segments: list[list[int]]) -> dict[int, list[Place]]:
    return {
        seq: [Place(at, seq, 10 * number, 10 * number + 10) for number, at in enumerate(times)]
        for seq, times in enumerate(segments, 1)
    }


def _all(walk: Walk, places: dict[int, list[Place]], records: int, size: int) -> tuple[list[list[Place]], list[int]]:
    """What a walk gives, slice by slice, and in which order it had segments opened."""
    lots: list[list[Place]] = []
    opened: list[int] = []
    while True:
        while (seq := walk.next_segment()) is not None:
            opened.append(seq)
            walk.open(seq, places[seq])
        lot = walk.take(records, size)
        if not lot:
            return lots, opened
        lots.append(lot)


@given(SEGMENTS, st.integers(1, 9), st.integers(1, 60))
def test_oldest_first_and_each_once(segments: list[list[int]], records: int, size: int) -> None:
    """Everything is given once, in order of time and arrival, in slices that are as small as asked."""
    places = _places(segments)
    walk = Walk({seq: min((place.sample_ms for place in some), default=7) for seq, some in places.items()})
    lots, opened = _all(walk, places, records, size)
    given_out = [place for lot in lots for place in lot]
    assert given_out == sorted(place for some in places.values() for place in some)
    assert all(len(lot) <= records and (len(lot) == 1 or 10 * len(lot) <= size) for lot in lots)
    assert sorted(opened) == sorted(places)
    assert (sorted(walk.emptied()), walk.emptied(), walk.left_out) == (sorted(places), [], set())


def test_a_segment_is_opened_when_the_walk_comes_to_it() -> None:
    """As long as all that is asked for is older, a segment stays closed."""
    walk = Walk({1: 0, 2: 10, 3: 20})
    assert walk.next_segment() == 1
    walk.open(1, [Place(0, 1, 0, 10), Place(9, 1, 10, 20), Place(15, 1, 20, 30)])
    assert walk.next_segment() is None
    assert [place.sample_ms for place in walk.take(10, 1000)] == [0, 9]
    assert walk.next_segment() == 2
    walk.open(2, [Place(10, 2, 0, 10)])
    assert walk.next_segment() is None
    assert [place.sample_ms for place in walk.take(10, 1000)] == [10, 15]
    assert walk.emptied() == [2, 1]


def test_what_is_too_much_at_once_is_left_out() -> None:
    """With enough in hand no further segment is opened in this walk, and the walk goes on beyond its beginning."""
    places = _places([[1, 30, 31], [2, 3], [4]])
    walk = Walk({1: 1, 2: 2, 3: 4}, limit=2)
    lots, opened = _all(walk, places, 1, 1000)
    assert opened == [1]
    assert walk.left_out == {2, 3}
    assert [place.sample_ms for lot in lots for place in lot] == [1, 30, 31]
