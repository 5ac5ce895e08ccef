import asyncio
import os
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.core.errors import StorageError
from proxy.core.record import QueueRecord
from tests.proxy.disk.queueing import CLOCK_MS, Stock, on_disk, record, segments


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    """Queues without anything in them, whose clock stands still."""
    opened = await Stock(tmp_path / "queue").open()
    yield opened
    await opened.close()


async def test_what_was_appended_is_on_the_disk(stock: Stock) -> None:
    """When an append ends well its records are in the files, in order, and counted."""
    await stock.append(record(1, samples=2), record(2, samples=3))
    assert on_disk(stock.files) == [1, 2]
    queue = stock.queue
    assert (queue.samples, queue.records, queue.oldest_ms) == (5, 2, CLOCK_MS)
    assert queue.bytes == sum(path.stat().st_size for path in segments(stock.files))
    assert not queue.idle


def _told(ended: list[int], number: int, error: StorageError | None) -> None:
    assert error is None
    ended.append(number)


async def test_appends_end_in_their_order(stock: Stock) -> None:
    """Each append is told of once, later, in the order of the calls, and stands in the files in that order."""
    ended: list[int] = []
    for number in range(50):
        stock.queue.append([record(number)], partial(_told, ended, number))
    assert ended == []
    assert not stock.queue.idle
    await stock.at_rest()
    assert ended == on_disk(stock.files) == list(range(50))


async def test_an_empty_append(stock: Stock) -> None:
    """An append of nothing ends well, and makes nothing."""
    await stock.append()
    assert (stock.queue.idle, stock.folder.exists()) == (True, False)


async def test_group_commit(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred appends at once cost few syncs: all that come while one runs share the next."""
    syncs: list[int] = []
    fdatasync = os.fdatasync

    def counted(fd: int) -> None:
        syncs.append(fd)
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    await asyncio.gather(*(stock.append(record(number)) for number in range(100)))
    assert stock.queue.records == 100
    assert len(syncs) <= 2


async def test_taken_until_done(stock: Stock) -> None:
    """What was taken is taken again until it is done, and counts as queued until then."""
    await stock.append(record(1))
    await stock.append(record(2, attempted=True))
    assert [await stock.take(), await stock.take()] == [[1], [1]]
    assert (stock.queue.samples, stock.queue.records) == (2, 2)
    stock.queue.done()
    assert (stock.queue.samples, stock.queue.records) == (1, 1)
    stock.queue.done()
    assert (stock.queue.samples, await stock.take()) == (1, [2])
    stock.queue.done()
    assert (stock.queue.idle, stock.queue.oldest_ms, await stock.take()) == (True, None, [])


PAIR = {"pair": ("c", "r")}


@pytest.mark.parametrize(
    ("values", "bounds", "expected"),
    [
        ([{}, {}, {}], (1000, 1000), [[1, 2, 3]]),
        ([{}, {}, {}], (2, 1000), [[1, 2], [3]]),
        ([{"samples": 9}, {}, {}], (2, 1000), [[1], [2, 3]]),
        ([{}, {}, {}], (1000, 16), [[1, 2], [3]]),
        ([{}, {}, {}], (1000, 15), [[1], [2], [3]]),
        ([{}, {}, {}], (0, 0), [[1], [2], [3]]),
        ([{}, PAIR, PAIR, {}], (1000, 1000), [[1], [2, 3], [4]]),
        ([{"replay": True}, {}, {"replay": True}], (1000, 1000), [[1], [2], [3]]),
        (
            [{"attempted": True}, {"attempted": True}, {}, {}, {"attempted": True}],
            (1000, 1000),
            [[1], [2], [3, 4], [5]],
        ),
        ([{"version": "2.0"}, {}, {}], (1000, 1000), [[1], [2, 3]]),
    ],
    ids=["all", "samples", "too many", "bytes", "byte less", "one at least", "pairs", "replay", "attempted", "version"],
)
async def test_what_goes_together(
    stock: Stock, values: list[dict[str, Any]], bounds: tuple[int, int], expected: list[list[int]]
) -> None:
    """Records of one kind go together as far as the bounds allow; one that was attempted goes alone, as it was."""
    await stock.append(*(record(number, **each) for number, each in enumerate(values, 1)))
    found = []
    for _ in expected:
        found.append(await stock.take(*bounds))
        stock.queue.done()
    assert found == expected
    assert await stock.take() == []


async def test_records_come_back_as_they_were(stock: Stock) -> None:
    """A record is taken as it was appended, to the byte."""
    written = QueueRecord(CLOCK_MS, ("c\u00e9", "\U0001f600"), 7, 2, 3, bytes(range(256)), attempted=True, replay=True)
    await stock.append(written)
    assert await stock.take_records() == (written,)


async def test_appending_while_it_is_worked_off(stock: Stock) -> None:
    """Records that come behind those that are being worked off, in one segment, are found in their turn."""
    await stock.append(record(1))
    assert await stock.take() == [1]
    await stock.append(record(2), record(3))
    stock.queue.done()
    assert await stock.take(1) == [2]
    await stock.append(record(4))
    stock.queue.done()
    assert await stock.drain() == [3, 4]
    assert segments(stock.files) == []


async def test_parked_while_under_way(stock: Stock) -> None:
    """A first record that is under way when it is appended counts as taken, and `done` is all that it needs."""
    await stock.append(record(1, attempted=True), record(2), taken=True)
    stock.queue.done()
    assert (stock.queue.records, await stock.take()) == (1, [2])
    stock.queue.done()
    assert (stock.queue.idle, await stock.take()) == (True, [])


async def test_parked_behind_others(stock: Stock) -> None:
    """Where others wait before it, a record that is under way waits too: nobody's `done` may be for another's."""
    await stock.append(record(1))
    await stock.append(record(2), taken=True)
    stock.queue.done()
    assert await stock.drain() == [1, 2]


async def test_parked_and_taken_again(stock: Stock) -> None:
    """What was parked under way is taken by whoever takes next, as long as it is not done, also after a restart."""
    await stock.append(record(1, attempted=True), taken=True)
    assert await stock.take() == [1]
    await stock.close()
    await stock.open()
    assert await stock.take() == [1]


async def test_looking_changes_nothing(stock: Stock) -> None:
    """Whoever inspects sees the oldest records first, those that are taken among them, and takes nothing away."""
    await stock.append(*(record(number) for number in range(5)))
    assert [each.entries for each in await stock.queue.inspect(2)] == [b"00000000", b"00000001"]
    assert await stock.take(2) == [0, 1]
    await stock.append(record(5))
    assert [int(each.entries) for each in await stock.queue.inspect(100)] == [0, 1, 2, 3, 4, 5]
    stock.queue.done()
    assert [int(each.entries) for each in await stock.queue.inspect(100)] == [2, 3, 4, 5]
    assert await stock.drain() == [2, 3, 4, 5]


async def test_dropping_by_hand(stock: Stock) -> None:
    """The oldest so many go, or all, never what is taken; it is told how much, and counted."""
    await stock.append(*(record(number, samples=2) for number in range(8)))
    assert await stock.queue.drop(1) == (1, 2)
    assert await stock.take(2) == [1]
    assert await stock.queue.drop(2) == (2, 4)
    assert [int(each.entries) for each in await stock.queue.inspect(9)] == [1, 4, 5, 6, 7]
    stock.queue.done()
    assert await stock.take(2) == [4]
    assert await stock.queue.drop() == (3, 6)
    assert await stock.queue.drop() == (0, 0)
    stock.queue.done()
    await stock.at_rest()
    assert (stock.queue.idle, stock.queue.samples, stock.dropped) == (True, 0, {"dropped_by_hand": 12})
    assert segments(stock.files) == []


async def test_dropped_is_dropped_after_a_restart(stock: Stock) -> None:
    """What was dropped by hand does not come back, whether something was taken or not."""
    await stock.append(*(record(number) for number in range(6)))
    await stock.queue.drop(2)
    await stock.close()
    await stock.open()
    assert await stock.take(1) == [2]
    await stock.queue.drop()
    await stock.append(record(6))
    await stock.close()
    await stock.open()
    assert await stock.drain() == [2, 6]


async def test_a_queue_that_was_never_used(stock: Stock) -> None:
    """Nothing is made on the disk, and no thread, for a queue that nothing is put into."""
    assert await stock.take() == []
    assert await stock.queue.inspect(9) == []
    assert await stock.queue.drop() == (0, 0)
    await stock.queues.trim()
    stock.queue.done()
    assert not stock.folder.exists()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_idle_queues_cost_nothing(stock: Stock) -> None:
    """A thousand queues have no thread, no task and no file; those that were used and are empty have no file open."""
    threads, files = threading.active_count(), _open_files()
    tasks = len(asyncio.all_tasks())
    for number in range(1000):
        stock.queues.queue(f"tenant-{number}")
    assert (threading.active_count(), _open_files()) == (threads, files)
    await stock.append(record(1))
    assert await stock.drain() == [1]
    await stock.at_rest()
    assert (_open_files(), len(asyncio.all_tasks())) == (files, tasks)


async def test_after_the_end(stock: Stock) -> None:
    """Nobody waits for ever on a queue that is closed: appends that are under way end, later ones are an error."""
    ended: list[StorageError | None] = []
    stock.queue.append([record(1)], ended.append)
    await stock.close()
    assert ended == [None]
    assert isinstance(await stock.try_append([record(2)]), StorageError)
    with pytest.raises(StorageError):
        await stock.take()
    with pytest.raises(StorageError):
        await stock.queue.inspect(1)
    stock.queue.done()
    await stock.close()
    assert on_disk(stock.files) == [1]


async def test_a_callback_that_fails(stock: Stock) -> None:
    """What the caller does wrong when it is told disturbs nobody else."""

    def wrong(_: object) -> None:
        raise ValueError("mine")

    stock.queue.append([record(1)], wrong)
    await stock.append(record(2))
    stock.queue.take(1, 1, wrong)
    assert await stock.take() == [1]


async def test_a_record_that_cannot_be_written(stock: Stock) -> None:
    """Numbers beyond their range fail their own append only."""
    good = asyncio.ensure_future(stock.try_append([record(1)]))
    assert isinstance(await stock.try_append([record(2), record(3, samples=-1)]), StorageError)
    assert (await good, on_disk(stock.files), stock.queue.records) == (None, [1], 1)
