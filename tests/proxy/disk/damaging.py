"""A queue with something in every part of it, and harm that may come to its files."""

from collections.abc import Callable
from pathlib import Path

from proxy.core.frames import START, frame
from proxy.core.retention import QueueKeep
from tests.proxy.disk.queueing import Stock, frame_size, record, segments

PER_SEGMENT = 3
SIZE = frame_size(record(0, 1000))
KEEP = QueueKeep(8 * PER_SEGMENT * (SIZE + 20), 1 << 40, "drop_oldest")
"""Three records of `filled` go into a segment, and no fourth: escapes make their sizes differ by some bytes."""

Damage = Callable[[Path], None]


async def filled(folder: Path) -> Stock:
    """A queue of three segments with three records each, of which the first was done and the second is taken."""
    opened = await Stock(folder / "queue", KEEP).open()
    for number in range(9):
        await opened.append(record(number, 1000))
    assert len(segments(opened.files)) == 3
    assert await opened.take(1) == [0]
    opened.queue.done()
    assert await opened.take(1) == [1]
    return opened


def frame_bytes(number: int) -> int:
    """The bytes of a record of `filled` on the disk."""
    return frame_size(record(number, 1000))


def flip(path: Path, at: int) -> None:
    """Turn over one bit of a byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def of(number: int, damage: Damage) -> Damage:
    """Harm to one of the segments."""
    return lambda files: damage(segments(files)[number])


def cut(path: Path) -> None:
    """Without its end."""
    path.write_bytes(path.read_bytes()[:-3])


def empty(path: Path) -> None:
    """Nothing is left."""
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    """Other bytes altogether."""
    path.write_bytes(b"nothing of ours")


def longer(path: Path) -> None:
    """Zeros behind the data, as a file system may leave them."""
    path.write_bytes(path.read_bytes() + bytes(100))


def flip_first(path: Path) -> None:
    """The first byte."""
    flip(path, 0)


def flip_middle(path: Path) -> None:
    """A byte in the middle."""
    flip(path, path.stat().st_size // 2)


def swap(path: Path) -> None:
    """Another version's record in the place of the last."""
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(START)] + frame(b"\x07 later"))
