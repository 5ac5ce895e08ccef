"""What happens to the files of a queue that is open."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.core.retention import QueueKeep
from tests.proxy.disk.damaging import KEEP, Damage, cut, empty, filled, flip_middle, foreign, frame_bytes, of, swap
from tests.proxy.disk.queueing import CLOCK_MS, Stock, record, segments


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    """A queue of three segments, as `filled` makes it."""
    opened = await filled(tmp_path)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        (of(1, flip_middle), [4]),
        (of(1, cut), [5]),
        (of(1, empty), [3, 4, 5]),
        (of(1, Path.unlink), [3, 4, 5]),
        (of(1, foreign), [3, 4, 5]),
        (of(1, swap), [5]),
        (of(2, cut), [8]),
        (of(2, Path.unlink), [6, 7, 8]),
        (of(0, Path.unlink), []),
        (shutil.rmtree, [3, 4, 5, 6, 7, 8]),
    ],
    ids=[
        "flipped",
        "torn",
        "emptied",
        "missing",
        "foreign",
        "of another version",
        "current torn",
        "current missing",
        "read already",
        "all gone",
    ],
)
async def test_damage_while_it_runs(stock: Stock, damage: Damage, lost: list[int]) -> None:
    """What cannot be read any more is told as torn when its turn comes; the rest and what comes later is delivered."""
    damage(stock.files)
    await stock.append(record(9, 1000, samples=3))
    assert stock.queue.samples == 8 + 3
    assert await stock.drain() == [number for number in range(1, 10) if number not in lost]
    assert stock.dropped == ({"torn": len(lost)} if lost else {})
    assert (stock.queue.idle, stock.queue.samples) == (True, 0)


async def test_damage_that_is_found_while_it_runs_is_moved_aside(stock: Stock) -> None:
    """The bytes that could not be read are kept, and counted."""
    flip_middle(segments(stock.files)[1])
    await stock.drain()
    assert stock.queue.torn_bytes == frame_bytes(4)
    assert [path.stat().st_size for path in stock.files.glob("*.torn")] == [frame_bytes(4)]


async def test_damage_is_told_once(stock: Stock) -> None:
    """However often a segment is read, its damage is counted once."""
    flip_middle(segments(stock.files)[1])
    stock.queue.done()
    assert await stock.take() == [2]
    stock.queue.done()
    for expected in (3, 5):
        assert await stock.take(1) == [expected]
        stock.queue.unload()
        stock.queue.done()
    await stock.at_rest()
    assert (stock.queue.torn_bytes, stock.dropped) == (frame_bytes(4), {"torn": 1})


async def test_looking_at_damage_changes_nothing(stock: Stock) -> None:
    """Whoever inspects sees what is whole."""
    flip_middle(segments(stock.files)[1])
    assert [int(each.entries[:8]) for each in await stock.queue.inspect(99)] == [1, 2, 3, 5, 6, 7, 8]
    assert (stock.queue.records, stock.queue.torn_bytes, stock.dropped) == (8, 0, {})


async def test_dropping_what_is_damaged(stock: Stock) -> None:
    """The books balance too where a person drops records of which one cannot be read."""
    flip_middle(segments(stock.files)[1])
    await stock.queue.drop(4)
    assert stock.queue.records == 8 - stock.dropped.total()
    stock.queue.done()
    assert len(await stock.drain()) + stock.dropped.total() == 7
    assert stock.queue.idle


async def test_age_of_what_is_damaged(stock: Stock) -> None:
    """Damage is found by trimming too, and each sample is told once."""
    stock.keep(QueueKeep(KEEP.bytes, 1000, "drop_oldest"))
    stock.queue.done()
    flip_middle(segments(stock.files)[1])
    stock.now_ms = CLOCK_MS + 1001
    await stock.queues.trim()
    assert (stock.queue.idle, stock.queue.samples, stock.dropped.total()) == (True, 0, 7)
