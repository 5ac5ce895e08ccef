"""How far a log has been worked off: a place in one of its segments, and the line of text that keeps it.

The line has one length whatever it says, so that it is written over the last one with one write.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(rb"([0-9]{20}) ([0-9]{20}) ([0-9a-f]{8})\n")
LINE_BYTES: Final = 51


@dataclass(frozen=True, slots=True)
class Position:
    """The offset behind the last record that is done, in the segment of that number; all before it is done too."""

    seq: int
    offset: int


def encode(position: Position) -> bytes:
    """The position as a line."""
    text = b"%020d %020d" % (position.seq, position.offset)
    return b"%b %08x\n" % (text, zlib.crc32(text))


def decode(line: bytes) -> Position | None:
    """The position of a line; None where it is not exactly what `encode` writes."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    position = Position(int(found[1]), int(found[2]))
    return position if encode(position) == line else None


def points_into(position: Position, sizes: Mapping[int, int]) -> bool:
    """Whether the position can be of the log with these segments: number to bytes.

    Its segment is there and as long as it says; or it is gone, with all before it, as happens when all is done.
    """
    size = sizes.get(position.seq)
    return all(seq > position.seq for seq in sizes) if size is None else position.offset <= size
