"""Protobuf as bytes: varints, fields, where the entries of a request lie, and what stands before one.

Lengths are checked before use, and integers are bounded before they could outgrow 64 bits, so that the plain and the
compiled build (with the types of `fields.pxd`) give the same answers on the same bytes.
"""

from typing import Final

from proxy.core.errors import (
    CorruptRequestError,
    MalformedSeriesError,
    MislabelledVersionError,
    TooManySeriesError,
)

COMPILED: Final = not __file__.endswith(".py")

ENTRIES: Final = 1 << 20
"""Fields of a request at most. 32 MiB hold that many of 32 bytes, which is about the least that a series takes; of
empty ones they would hold 16 million, and noting where each lies takes 70 bytes."""

# An alias that Cython does not read as a type, so that fields.pxd alone types the compiled twin.
_int = int


class Frames:
    """The top level of a request: where entries lie (start, end, start, end, ...) and what else there was."""

    __slots__ = ("bounds", "dropped", "metadata")

    def __init__(self) -> None:
        self.bounds: list[int] = []
        self.metadata: list[bytes] = []
        self.dropped = 0


def read_varint(body: bytes, at: _int, end: _int) -> tuple[_int, _int]:
    """One varint of at most 64 bits, and where the next field begins; raises MalformedSeriesError."""
    value = 0
    shift = 0
    while at < end and shift < 63:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    if at < end and shift == 63 and body[at] < 2:
        byte = body[at]
        return value | (byte << 63), at + 1
    raise MalformedSeriesError("a varint is cut or too long")


def read_field(body: bytes, at: _int, end: _int) -> tuple[_int, _int, _int]:
    """The tag of the field at `at`, where its value begins (behind its length if it has one), and where it ends.

    Refused are the group wire types (3, 4), field numbers outside 1 to 2^29-1, and tags and lengths of more than five
    bytes: no sender of remote write uses them, and there are decoders that refuse a whole request for each of them.

    Raises MalformedSeriesError.
    """
    key, at = read_varint(body, at, at + 5 if end - at > 5 else end)
    if key < 8 or key >= 1 << 32:
        raise MalformedSeriesError("a field number is outside 1 to 536870911")
    kind = key & 7
    if kind == 0:
        return key, at, read_varint(body, at, end)[1]
    if kind == 1:
        length = 8
    elif kind == 5:
        length = 4
    elif kind == 2:
        length, at = read_varint(body, at, at + 5 if end - at > 5 else end)
    else:
        raise MalformedSeriesError("a field has a wire type that protobuf 3 does not use")
    if length > end - at:
        raise MalformedSeriesError("a field is longer than what holds it")
    return key, at, at + length


def frames(body: bytes) -> Frames:
    """The entries of a decoded 1.0 request.

    Only fields 1 (timeseries) and 3 (metadata) pass; every other one is counted in `dropped` and left behind, because
    stores read fields there that switch off their checks or reorder (2, 1000, 1001, 1002).

    Raises CorruptRequestError where the top level is no protobuf, MislabelledVersionError for a 2.0 request, and
    TooManySeriesError for more than ENTRIES.
    """
    found = Frames()
    bounds = found.bounds
    most = ENTRIES
    end = len(body)
    at = 0
    symbols = False
    try:
        while at < end:
            key = body[at]
            if key == 0x0A and at + 2 < end and body[at + 1] >= 0x80 and body[at + 2] < 0x80:
                start = at + 3
                at = start + (body[at + 1] & 0x7F) + (body[at + 2] << 7)
                if at > end:
                    break
                bounds.append(start)
                bounds.append(at)
                continue
            key, start, at = read_field(body, at, end)
            if key == 0x0A:
                bounds.append(start)
                bounds.append(at)
            elif key == 0x1A:
                found.metadata.append(body[start:at])
            elif key >> 3 in (1, 3):
                raise CorruptRequestError("timeseries or metadata is not a message")
            else:
                symbols = symbols or key >> 3 in (4, 5)
                found.dropped += 1
            if len(bounds) // 2 + len(found.metadata) + found.dropped > most:
                break
    except MalformedSeriesError:
        at = end + 1
    if at > end:
        raise CorruptRequestError("the decoded body is not a WriteRequest")
    if len(bounds) // 2 + len(found.metadata) + found.dropped > most:
        raise TooManySeriesError(f"more than {most} fields in one request: let the sender send fewer at once")
    if symbols and not bounds and not found.metadata:
        raise MislabelledVersionError(
            "this is a body of remote write 2.0 declared as 1.0; "
            "set protobuf_message: prometheus.WriteRequest at the sender"
        )
    return found


def varint(value: _int) -> bytes:
    """`value`, 0 to 2^64-1, as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_FRAMES: Final[dict[int, bytes]] = {}
_FRAMES_KEPT: Final = 8192
"""Frame headers shared by all series of one length; entries of remote write are rarely longer than this."""


def frame(length: _int) -> bytes:
    """What stands before a timeseries entry of `length` bytes."""
    known: bytes | None = _FRAMES.get(length)
    if known is None:
        known = b"\x0a" + varint(length)
        if length < _FRAMES_KEPT:
            _FRAMES[length] = known
    return known
