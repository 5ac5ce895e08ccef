import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.retention import (
    MAX_QUEUE_SEGMENT_BYTES,
    MAX_SEGMENT_BYTES,
    DropReason,
    Extent,
    Held,
    Keep,
    QueueKeep,
    beyond,
    mergeable,
    surplus,
)

KEEP = Keep(bytes=100, age_ms=1000)


@pytest.mark.parametrize(
    ("held", "now_ms", "incoming", "expected"),
    [
        ([], 0, 0, []),
        ([], 0, 500, []),
        ([Held(1, 100, 0)], 0, 0, []),
        ([Held(1, 101, 0)], 0, 0, [(1, "full")]),
        ([Held(1, 40, 0), Held(2, 40, 0)], 0, 20, []),
        ([Held(1, 40, 0), Held(2, 40, 0)], 0, 21, [(1, "full")]),
        ([Held(1, 40, 0), Held(2, 40, 0)], 0, 100, [(1, "full"), (2, "full")]),
        ([Held(1, 40, 0), Held(2, 40, 0)], 1000, 0, []),
        ([Held(1, 40, 0), Held(2, 40, 1)], 1001, 0, [(1, "age")]),
        ([Held(1, 40, 5), Held(2, 40, 0)], 1001, 0, [(1, "age"), (2, "age")]),
        ([Held(1, 60, 0), Held(2, 60, 1), Held(3, 60, 1)], 1001, 0, [(1, "age"), (2, "full")]),
    ],
)
def test_surplus(held: list[Held], now_ms: int, incoming: int, expected: list[tuple[int, DropReason]]) -> None:
    """The oldest go, first for their age, then for the bytes that are needed, and no more than must."""
    assert surplus(held, KEEP, now_ms, incoming) == expected


HELD = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3000)), max_size=8).map(
    lambda rows: [Held(seq, size, newest_ms) for seq, (size, newest_ms) in enumerate(rows)],
)


@given(HELD, st.integers(0, 4000), st.integers(0, 100))
def test_what_remains_is_within_the_limits(held: list[Held], now_ms: int, incoming: int) -> None:
    """What is dropped is the oldest part, and what is kept is within both limits."""
    drops = surplus(held, KEEP, now_ms, incoming)
    assert [seq for seq, _ in drops] == [segment.seq for segment in held[: len(drops)]]
    kept = held[len(drops) :]
    assert sum(segment.size for segment in kept) + incoming <= KEEP.bytes
    assert all(segment.newest_ms >= now_ms - KEEP.age_ms for segment in kept)


def test_segments_are_a_fraction_of_the_limits() -> None:
    """Dropping one segment costs a small part of what may be kept, and a segment fits into memory."""
    assert Keep(8000, 800).segment_bytes == 1000
    assert Keep(8000, 800).segment_ms == 100
    assert Keep(1 << 40, 800).segment_bytes == MAX_SEGMENT_BYTES
    assert Keep(0, 0).segment_bytes == 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([(1, 0, 0)], []),
        ([(200, 0, 0), (300, 0, 50)], [[0, 1]]),
        ([(200, 0, 0), (301, 0, 0)], []),
        ([(1, 0, 0), (1, 0, 51)], []),
        ([(1, 60, 60), (1, 10, 10)], [[0, 1]]),
        ([(200, 0, 0), (200, 0, 0), (200, 0, 0), (200, 0, 0)], [[0, 1], [2, 3]]),
        ([(501, 0, 0), (1, 0, 0), (1, 0, 0), (501, 0, 0), (1, 0, 0)], [[1, 2]]),
    ],
)
def test_what_can_be_merged(rows: list[tuple[int, int, int]], expected: list[list[int]]) -> None:
    """Neighbours are merged as far as they come to half a segment in bytes (of 1000) and in time (of 100 ms)."""
    extents = [Extent(seq, size, first_ms, newest_ms) for seq, (size, first_ms, newest_ms) in enumerate(rows)]
    assert mergeable(extents, Keep(8000, 800)) == expected


def test_segments_of_a_queue_are_smaller() -> None:
    """A segment of a queue stays in memory while it is worked off, and is smaller than another log's."""
    assert QueueKeep(8000, 800, "refuse").segment_bytes == 1000
    assert QueueKeep(1 << 40, 800, "refuse").segment_bytes == MAX_QUEUE_SEGMENT_BYTES < MAX_SEGMENT_BYTES
    assert QueueKeep(0, 0, "refuse").segment_bytes == 1
    assert QueueKeep(8000, 800, "refuse").segment_ms == 100


@given(st.lists(st.integers(0, 50), max_size=10), st.integers(0, 200))
def test_beyond(sizes: list[int], limit: int) -> None:
    """Without the first so many the others fit, and with one less they would not."""
    count = beyond(sizes, limit)
    assert sum(sizes[count:]) <= limit
    assert count == 0 or sum(sizes[count - 1 :]) > limit
