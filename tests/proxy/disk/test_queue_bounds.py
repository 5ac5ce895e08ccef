from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.core.errors import QueueFullError, StorageError
from proxy.core.retention import QueueKeep
from tests.proxy.disk.queueing import CLOCK_MS, KEEP, Stock, frame_size, on_disk, record, segments

LIMIT = 64 << 10
SMALL = QueueKeep(LIMIT, 1 << 40, "drop_oldest")
REFUSING = QueueKeep(LIMIT, 1 << 40, "refuse")


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    """A queue of 64 KiB that drops its oldest."""
    opened = await Stock(tmp_path / "queue", SMALL).open()
    yield opened
    await opened.close()


def _size(stock: Stock) -> int:
    return sum(path.stat().st_size for path in segments(stock.files))


async def test_the_oldest_go(stock: Stock) -> None:
    """The files never exceed the limit; the oldest go first, are told as full, and nothing is counted twice."""
    for number in range(300):
        await stock.append(record(number, 1000, samples=2))
        assert stock.queue.bytes == _size(stock) <= LIMIT
        assert stock.queue.samples + stock.dropped.total() == 2 * (number + 1)
    kept = on_disk(stock.files)
    assert kept == list(range(kept[0], 300))
    assert (stock.queue.records, set(stock.dropped)) == (len(kept), {"queue_full"})
    assert _size(stock) >= LIMIT * 3 // 4
    assert await stock.drain() == kept


async def test_what_is_taken_stays(stock: Stock) -> None:
    """However much comes, what is under way is on the disk until it is done, and only what waits is dropped."""
    await stock.append(*(record(number, 1000) for number in range(4)))
    assert await stock.take(2) == [0, 1]
    for number in range(4, 200):
        await stock.append(record(number, 1000))
        assert await stock.take() == [0, 1]
        assert stock.queue.bytes == _size(stock) <= LIMIT
    kept = on_disk(stock.files)
    assert kept == [0, 1, *range(kept[2], 200)]
    assert stock.queue.samples + stock.dropped["queue_full"] == 200
    stock.queue.done()
    assert await stock.drain() == kept[2:]


async def test_what_is_taken_may_exceed_the_limit(stock: Stock) -> None:
    """A record under way that fills the queue alone does not keep the newest from being queued behind it."""
    await stock.append(record(0, LIMIT - 1000))
    assert await stock.take() == [0]
    for number in (1, 2):
        await stock.append(record(number, LIMIT - 1000))
        assert on_disk(stock.files) == [0, number]
    assert stock.dropped == {"queue_full": 1}


async def test_a_parked_record_beyond_all_bounds(stock: Stock) -> None:
    """What is under way is kept however large it is, so that its sender need not wait; all else makes room."""
    await stock.append(record(0, 2 * LIMIT), record(1, LIMIT), record(2, 100), taken=True)
    assert (on_disk(stock.files), stock.dropped) == ([0, 2], {"queue_full": 1})
    stock.queue.done()
    assert await stock.drain() == [2]


async def test_one_record_beyond_all_bounds(stock: Stock) -> None:
    """A record that could never be kept is dropped and told, and so is all before it: the newest stays."""
    await stock.append(record(0, 100))
    await stock.append(record(1, LIMIT, samples=5))
    assert (stock.dropped, stock.queue.idle, segments(stock.files)) == ({"queue_full": 6}, True, [])


async def test_one_append_beyond_all_bounds(stock: Stock) -> None:
    """Of one append that exceeds the limit the newest records are kept."""
    await stock.append(record(0, 100))
    await stock.append(*(record(number, 10_000) for number in range(1, 11)))
    assert on_disk(stock.files) == [5, 6, 7, 8, 9, 10]
    assert stock.dropped == {"queue_full": 5}


async def test_refusing(tmp_path: Path) -> None:
    """A queue that refuses drops nothing: what finds no room is an error of its own, what still fits is taken."""
    stock = await Stock(tmp_path / "queue", REFUSING).open()
    number = 0
    while (error := await stock.try_append([record(number, 1000)])) is None:
        number += 1
    assert isinstance(error, QueueFullError)
    assert stock.queue.bytes <= LIMIT < stock.queue.bytes + frame_size(record(number, 1000))
    await stock.append(record(number))
    assert isinstance(await stock.try_append([record(99, 2 * LIMIT)]), QueueFullError)
    assert (await stock.take(), stock.dropped) == ([*range(number + 1)][:7], {})
    stock.queue.done()
    await stock.append(record(number + 1, 1000))
    await stock.close()


async def test_refused_together(tmp_path: Path) -> None:
    """Of appends at once those are refused for which the ones before them left no room."""
    stock = await Stock(tmp_path / "queue", REFUSING).open()
    ended: list[StorageError | None] = []
    for number, size in enumerate((40_000, 40_000, 10_000)):
        stock.queue.append([record(number, size)], ended.append)
    await stock.at_rest()
    assert [type(error) for error in ended] == [type(None), QueueFullError, type(None)]
    assert on_disk(stock.files) == [0, 2]
    await stock.close()


async def test_other_bounds_at_run_time(stock: Stock) -> None:
    """Smaller bounds hold from the next trim on, larger ones and another policy from the next append on."""
    await stock.append(*(record(number, 1000) for number in range(20)))
    await stock.append(*(record(number, 1000) for number in range(20, 40)))
    stock.keep(QueueKeep(25_000, 1 << 40, "drop_oldest"))
    await stock.queues.trim()
    assert (on_disk(stock.files), stock.dropped) == ([*range(20, 40)], {"queue_full": 20})
    stock.keep(QueueKeep(25_000, 1 << 40, "refuse"))
    assert isinstance(await stock.try_append([record(40, 10_000)]), QueueFullError)
    stock.keep(QueueKeep(1000, 1 << 40, "refuse"))
    await stock.queues.trim()
    assert stock.queue.records == 20
    stock.keep(SMALL)
    await stock.append(record(41, 10_000))
    assert stock.queue.records == 21


async def test_age(tmp_path: Path) -> None:
    """What has become too old is dropped when it is trimmed, to the millisecond, and told as age."""
    stock = await Stock(tmp_path / "queue").open()
    for number in range(4):
        await stock.append(record(number, received_ms=stock.now_ms))
        stock.now_ms += 1
    stock.now_ms = CLOCK_MS + KEEP.age_ms
    await stock.queues.trim()
    assert (stock.queue.records, stock.queue.oldest_ms) == (4, CLOCK_MS)
    stock.now_ms += 2
    await stock.queues.trim()
    assert (stock.queue.records, stock.queue.oldest_ms) == (2, CLOCK_MS + 2)
    assert stock.dropped == {"queue_age": 2}
    stock.now_ms += 2
    await stock.queues.trim()
    assert (stock.queue.idle, stock.dropped, segments(stock.files)) == (True, {"queue_age": 4}, [])
    await stock.close()


async def test_too_old_is_never_taken(tmp_path: Path) -> None:
    """Whatever is too old is dropped when it would be taken, and what is taken already is not too old any more."""
    stock = await Stock(tmp_path / "queue").open()
    await stock.append(*(record(number, received_ms=CLOCK_MS + number) for number in range(4)))
    stock.now_ms += KEEP.age_ms + 1
    assert (await stock.take(1), stock.dropped) == ([1], {"queue_age": 1})
    stock.now_ms += 2
    await stock.queues.trim()
    assert (await stock.take(), stock.dropped) == ([1], {"queue_age": 2})
    stock.queue.done()
    assert await stock.take() == [3]
    await stock.close()


async def test_age_at_the_next_append(tmp_path: Path) -> None:
    """Segments whose newest record is too old go with the next append; a segment ends after an eighth of the age."""
    stock = await Stock(tmp_path / "queue").open()
    for number in range(3):
        await stock.append(record(number, received_ms=stock.now_ms))
        stock.now_ms += KEEP.segment_ms
    assert len(segments(stock.files)) == 3
    stock.now_ms = CLOCK_MS + KEEP.age_ms + 1
    await stock.append(record(3, received_ms=stock.now_ms))
    assert (on_disk(stock.files), stock.dropped) == ([1, 2, 3], {"queue_age": 1})
    await stock.close()


async def test_segments_are_bounded(stock: Stock) -> None:
    """Each segment is an eighth of the limit at most, unless one append is more."""
    await stock.append(*(record(number, 1000) for number in range(20)))
    for number in range(20, 40):
        await stock.append(record(number, 1000))
    first, *others = [path.stat().st_size for path in segments(stock.files)]
    assert first > SMALL.segment_bytes
    assert all(SMALL.segment_bytes // 2 < size <= SMALL.segment_bytes for size in others[:-1])


async def test_only_the_oldest_segment_is_in_memory(stock: Stock) -> None:
    """Whatever is looked at or dropped, no other segment's records stay in memory; none at all when it is unloaded."""
    for number in range(40):
        await stock.append(record(number, 1000))
    assert await stock.take(1) == [0]
    await stock.queue.inspect(100)
    await stock.queue.drop(9)
    assert _in_memory(stock) == [0] * len(segments(stock.files))
    stock.queue.done()
    assert await stock.take(1) == [10]
    first, *others = _in_memory(stock)
    assert first > 0
    assert not any(others)
    stock.queue.unload()
    await stock.at_rest()
    assert not any(_in_memory(stock))
    stock.queue.done()
    assert await stock.drain() == [*range(11, 40)]


def _in_memory(stock: Stock) -> list[int]:
    spool = stock.queue._spool
    assert spool is not None
    return [len(contents.loaded) for contents in spool._contents.values()]
