from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.core import cursor
from proxy.core.cursor import Position
from proxy.core.frames import frame
from tests.proxy.disk.damaging import (
    Damage,
    cut,
    empty,
    filled,
    flip,
    flip_first,
    flip_middle,
    foreign,
    frame_bytes,
    longer,
    of,
    swap,
)
from tests.proxy.disk.queueing import Stock, on_disk, record, segments


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    """A queue of three segments, as `filled` makes it."""
    opened = await filled(tmp_path)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("damage", "lost", "torn"),
    [
        (of(2, cut), [8], frame_bytes(8) - 3),
        (of(0, cut), [2], frame_bytes(2) - 3),
        (of(2, empty), [6, 7, 8], 0),
        (of(1, empty), [3, 4, 5], 0),
        (of(1, Path.unlink), [3, 4, 5], 0),
        (of(2, foreign), [6, 7, 8], 15),
        (of(2, longer), [], 100),
        (of(0, longer), [], 100),
        (of(1, flip_first), [3], frame_bytes(3)),
        (of(1, flip_middle), [4], frame_bytes(4)),
        (of(1, swap), [5], len(frame(b"\x07 later"))),
        (of(0, flip_first), [], 0),
        (lambda files: flip(segments(files)[0], frame_bytes(0) + 30), [1], frame_bytes(1)),
    ],
    ids=[
        "torn end",
        "torn first segment",
        "emptied last",
        "emptied in the middle",
        "missing in the middle",
        "foreign",
        "zeros behind",
        "zeros behind the first",
        "flipped at its begin",
        "flipped in the middle",
        "of another version",
        "flipped where it is done",
        "flipped where it begins",
    ],
)
async def test_damage(stock: Stock, damage: Damage, lost: list[int], torn: int) -> None:
    """Every whole record that was not done is delivered, in order; the rest is moved aside, counted, and found once."""
    await stock.close()
    damage(stock.files)
    await stock.open()
    expected = [number for number in range(1, 9) if number not in lost]
    assert stock.queues.recovered() == {"team-a": len(expected)}
    assert stock.queue.torn_bytes == torn
    assert sum(path.stat().st_size for path in stock.files.glob("*.torn")) == torn
    await stock.close()
    await stock.open()
    assert stock.queue.torn_bytes == 0
    assert await stock.drain() == expected
    assert (stock.dropped, stock.queue.idle) == ({}, True)


async def test_flipped_at_the_cursor(stock: Stock) -> None:
    """Where no record begins at the cursor, the segment is delivered from its begin: twice is better than lost."""
    await stock.close()
    flip(segments(stock.files)[0], frame_bytes(0))
    await stock.open()
    assert stock.queue.torn_bytes == frame_bytes(1)
    assert await stock.drain() == [0, *range(2, 9)]


FIRST_BYTES = frame_bytes(0) + frame_bytes(1) + frame_bytes(2)


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        (None, 0),
        (b"", 0),
        (b"nonsense", 0),
        (cursor.encode(Position(1, frame_bytes(0)))[:-1], 0),
        (cursor.encode(Position(1, frame_bytes(0))) + b"!", 0),
        (cursor.encode(Position(1, frame_bytes(0))).replace(b"1 ", b"2 ", 1), 0),
        (cursor.encode(Position(1, 0)), 0),
        (cursor.encode(Position(1, frame_bytes(0) + 1)), 0),
        (cursor.encode(Position(1, FIRST_BYTES)), 3),
        (cursor.encode(Position(1, FIRST_BYTES + 1)), 0),
        (cursor.encode(Position(2, 0)), 3),
        (cursor.encode(Position(3, frame_bytes(6))), 7),
        (cursor.encode(Position(99, 0)), 0),
        (cursor.encode(Position(0, 0)), 0),
    ],
    ids=[
        "none",
        "empty",
        "nonsense",
        "short",
        "long",
        "checksum",
        "begin",
        "no record there",
        "end",
        "beyond the end",
        "second",
        "third",
        "no such segment",
        "gone",
    ],
)
async def test_cursor(stock: Stock, line: bytes | None, begins: int) -> None:
    """The queue begins where the cursor says, and with its oldest record where the cursor cannot be right."""
    await stock.close()
    if line is None:
        (stock.files / "cursor").unlink()
    else:
        (stock.files / "cursor").write_bytes(line)
    await stock.open()
    await stock.append(record(9, 1000))
    await stock.close()
    await stock.open()
    assert await stock.drain() == [*range(begins, 10)]


async def test_a_folder_in_the_place_of_the_cursor(stock: Stock) -> None:
    """A cursor that can be neither read nor written costs no more than that records are delivered twice."""
    await stock.close()
    (stock.files / "cursor").unlink()
    (stock.files / "cursor").mkdir()
    await stock.open()
    assert await stock.take(2) == [0, 1]
    stock.queue.done()
    await stock.close()
    await stock.open()
    assert await stock.drain() == [*range(9)]


async def test_nothing_new_looks_done(stock: Stock) -> None:
    """When all is done and removed, what comes after a restart has numbers behind the cursor, and is delivered."""
    await stock.drain()
    await stock.close()
    assert segments(stock.files) == []
    await stock.open()
    await stock.append(record(10))
    await stock.close()
    await stock.open()
    assert await stock.drain() == [10]


async def test_the_last_moves_of_the_cursor_are_lost(stock: Stock) -> None:
    """An old cursor, as a machine that crashes may leave, delivers again what is still there, and loses nothing."""
    old = (stock.files / "cursor").read_bytes()
    assert await stock.take() == [1]
    stock.queue.done()
    assert await stock.take(1) == [2]
    stock.queue.done()
    assert await stock.take(1) == [3]
    stock.queue.done()
    await stock.close()
    (stock.files / "cursor").write_bytes(old)
    await stock.open()
    assert await stock.drain() == [*range(3, 9)]


async def test_entries_that_cannot_be_unpacked(stock: Stock) -> None:
    """A whole record whose entries are no snappy block is told as torn, and moved aside."""
    path = segments(stock.files)[2]
    bad = record(7, 1000).encode()[:-5]
    path.write_bytes(frame(record(6, 1000).encode()) + frame(bad) + frame(record(8, 1000).encode()))
    await stock.close()
    await stock.open()
    assert stock.queue.samples == 8
    assert await stock.drain() == [1, 2, 3, 4, 5, 6, 8]
    assert (stock.dropped, stock.queue.torn_bytes) == ({"torn": 1}, len(frame(bad)))


async def test_moved_aside_on_a_full_disk(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk takes no copy of what is damaged it stays where it is, and all whole records are delivered."""
    flip_middle(segments(stock.files)[1])
    await stock.close()

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("proxy.disk.durable.replace", full)
        await stock.open()
        assert (stock.queue.records, on_disk(stock.files)) == (7, [0, 1, 2, 3, 5, 6, 7, 8])
        assert await stock.take() == [1, 2]
    await stock.close()
    await stock.open()
    assert stock.queue.torn_bytes == frame_bytes(4)
    assert await stock.drain() == [1, 2, 3, 5, 6, 7, 8]
