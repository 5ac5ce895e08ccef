import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.cursor import LINE_BYTES, Position, decode, encode, points_into

POSITIONS = st.builds(Position, st.integers(0, 10**20 - 1), st.integers(0, 10**20 - 1))


@given(POSITIONS)
def test_round_trip(position: Position) -> None:
    """A position reads back equal from a line that always has the same length."""
    line = encode(position)
    assert len(line) == LINE_BYTES
    assert decode(line) == position


@given(POSITIONS, st.data())
def test_damaged_lines(position: Position, data: st.DataObject) -> None:
    """A line with a changed byte, or cut, or with another one's part, is none."""
    line = bytearray(encode(position))
    at = data.draw(st.integers(0, len(line) - 1))
    assert decode(bytes(line[:at])) is None
    other = encode(data.draw(POSITIONS))
    mixed = bytes(line[:at]) + other[at:]
    assert decode(mixed) in {None, position, decode(other)}
    line[at] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(line)) is None


@pytest.mark.fuzz
@given(st.binary(max_size=80))
@example(b"")
@example(encode(Position(1, 2)) + b"\n")
@example(encode(Position(1, 2)).upper())
@example(encode(Position(1, 0xABCDEF)).replace(b"0", b"+", 1))
def test_any_bytes(line: bytes) -> None:
    """Any bytes are none, or exactly what `encode` writes."""
    position = decode(line)
    assert position is None or encode(position) == line


@pytest.mark.parametrize(
    ("position", "sizes", "expected"),
    [
        (Position(3, 0), {}, True),
        (Position(3, 10), {3: 10, 4: 1}, True),
        (Position(3, 11), {3: 10, 4: 1}, False),
        (Position(3, 10), {4: 1}, True),
        (Position(3, 10), {2: 50, 4: 1}, False),
        (Position(3, 10), {2: 50, 3: 10}, True),
        (Position(9, 0), {1: 1, 2: 1}, False),
    ],
)
def test_points_into(position: Position, sizes: dict[int, int], *, expected: bool) -> None:
    """A cursor is believed in its segment up to the end of that, and behind segments that are gone with all before."""
    assert points_into(position, sizes) == expected
