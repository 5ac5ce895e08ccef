"""One timeseries entry of remote write 1.0, read whole and checked: the way of each that `wire.scan` does not know.

Stores decode a request strictly and refuse all of it for one field of the wrong wire type, so an entry is taken apart
down to its last known field here, and refused alone. "Known" is what any store knows: start times are no part of 1.0
(Mimir's series have them as field 6, 2.0 has them in samples and histograms), and VictoriaMetrics refuses a number
of more than 32 bits where other decoders cut it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from proxy.core.errors import InvalidUtf8Error, MalformedSeriesError
from proxy.core.fields import frame, read_field, read_varint, varint

SAMPLE: Final = 2
EXEMPLAR: Final = 3
HISTOGRAM: Final = 4

FIELDS: Final = 1 << 17
"""Labels and points of an entry at most: a day and a half of samples of one series, one a second. Senders put one point
into an entry, or a backlog of some thousand; a point of two bytes takes a hundred once it is read."""

ENTRY_BYTES: Final = 4 << 20
"""Of an entry at most: a histogram can have a span in two bytes, and 32 MiB of them are ten seconds of work."""

STALE_BITS: Final = b"\x02\x00\x00\x00\x00\x00\xf0\x7f"
"""The stale marker on the wire: float64 0x7ff0000000000002, little endian (prometheus model/value)."""

_NAME_TAG, _VALUE_TAG, _CONTINUED, _PLAIN_LABEL = 0x0A, 0x12, 0x80, 4

_VARINT, _DOUBLE, _BYTES = 0, 1, 2
_LABEL, _SPAN, _PACKED_VARINTS, _PACKED_DOUBLES, _INT32 = "label", "span", "varints", "doubles", "int32"

# Field number -> wire types that a strict decoder takes, and what a value of the last of them must hold.
_Fields = dict[int, tuple[tuple[int, ...], str]]
_SERIES_FIELDS: Final[_Fields] = {6: ((_VARINT,), "")}
_LABEL_FIELDS: Final[_Fields] = {1: ((_BYTES,), ""), 2: ((_BYTES,), "")}
_SPAN_FIELDS: Final[_Fields] = {1: ((_VARINT,), _INT32), 2: ((_VARINT,), _INT32)}
_POINT_FIELDS: Final[dict[int, _Fields]] = {
    SAMPLE: {1: ((_DOUBLE,), ""), 2: ((_VARINT,), ""), 3: ((_VARINT,), "")},
    EXEMPLAR: {1: ((_BYTES,), _LABEL), 2: ((_DOUBLE,), ""), 3: ((_VARINT,), "")},
    HISTOGRAM: {
        **dict.fromkeys((1, 6, 14, 15, 17), ((_VARINT,), "")),
        4: ((_VARINT,), _INT32),
        **dict.fromkeys((2, 3, 5, 7), ((_DOUBLE,), "")),
        **dict.fromkeys((8, 11), ((_BYTES,), _SPAN)),
        **dict.fromkeys((9, 12), ((_VARINT, _BYTES), _PACKED_VARINTS)),
        **dict.fromkeys((10, 13, 16), ((_DOUBLE, _BYTES), _PACKED_DOUBLES)),
    },
}
_TIME_FIELD: Final = {SAMPLE: 2, EXEMPLAR: 3, HISTOGRAM: 15}
_MARKER_FIELD: Final = {SAMPLE: 1, HISTOGRAM: 3}


@dataclass(frozen=True, slots=True)
class Point:
    """A sample, exemplar or histogram: `raw` is its whole field as sent, `stale` tells a stale marker."""

    kind: int
    time_ms: int
    stale: bool
    raw: bytes

    @property
    def counts(self) -> bool:
        """Whether it is a unit of the books: exemplars have counters of their own."""
        return self.kind != EXEMPLAR


@dataclass(frozen=True, slots=True)
class Series:
    """One entry: its label fields as sent (`block`) and as pairs, its points in order, and fields unknown to us."""

    block: bytes
    labels: tuple[tuple[bytes, bytes], ...]
    points: tuple[Point, ...]
    unknown: bytes

    def text_labels(self) -> list[tuple[str, str]]:
        """The labels as text; raises InvalidUtf8Error."""
        try:
            return [(name.decode(), value.decode()) for name, value in self.labels]
        except UnicodeDecodeError:
            shown = b", ".join(name + b"=" + value for name, value in self.labels).decode(errors="replace")
            raise InvalidUtf8Error(f"a label is not UTF-8: {shown[:200]}") from None


def parse_series(body: bytes, start: int, end: int) -> Series:
    """Read one TimeSeries message, wherever its fields stand; raises MalformedSeriesError.

    Labels may come late or apart: `block` is all label fields in their order, so that label sets sent alike have equal
    blocks.
    """
    labels: list[tuple[bytes, bytes]] = []
    blocks: list[bytes] = []
    points: list[Point] = []
    unknown: list[bytes] = []
    if end - start > ENTRY_BYTES:
        raise MalformedSeriesError(f"an entry of {end - start} bytes, more than {ENTRY_BYTES}")
    at = start
    while at < end:
        first = at
        key, at, stop = read_field(body, at, end)
        number = key >> 3
        if number > HISTOGRAM:
            _check_field(body, _SERIES_FIELDS, key, (at, stop))
            unknown.append(body[first:stop])
        elif key & 7 != _BYTES:
            raise MalformedSeriesError("a label, sample, exemplar or histogram is not a message")
        elif number == 1:
            labels.append(_parse_label(body, at, stop))
            blocks.append(body[first:stop])
        else:
            points.append(_parse_point(body, number, (first, at, stop)))
        if len(labels) + len(points) + len(unknown) > FIELDS:
            raise MalformedSeriesError(f"more than {FIELDS} labels and points in one entry")
        at = stop
    return Series(b"".join(blocks), tuple(labels), tuple(points), b"".join(unknown))


def framed(block: bytes, tail: bytes) -> bytes:
    """A whole entry, with its frame: a label block and what comes behind it."""
    return frame(len(block) + len(tail)) + block + tail


def encode_labels(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Label fields in the order given."""
    return b"".join([_encode_label(name, value) for name, value in pairs])


def encode_text_labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    """As `encode_labels`, for text; what most series share is encoded once."""
    return b"".join(
        [
            _encode_text_label(pair)
            if len(pair[1]) <= _SHARED_CHARACTERS
            else _encode_label(pair[0].encode(), pair[1].encode())
            for pair in pairs
        ]
    )


_SHARED_CHARACTERS: Final = 128
"""Longer values are hardly shared, and a sender that invents them would fill the memory."""


@lru_cache(1 << 16)
def _encode_text_label(pair: tuple[str, str]) -> bytes:
    return _encode_label(pair[0].encode(), pair[1].encode())


def _encode_label(name: bytes, value: bytes) -> bytes:
    name_head = b"\x0a" + varint(len(name))
    value_head = b"\x12" + varint(len(value))
    size = len(name_head) + len(name) + len(value_head) + len(value)
    return b"\x0a" + varint(size) + name_head + name + value_head + value


def _parse_label(body: bytes, at: int, end: int) -> tuple[bytes, bytes]:
    """Name and value of one Label message: of repeated fields the last counts, as in every protobuf decoder.

    The plain form, name and value in this order and each shorter than 128 bytes, is read without the loop.
    """
    value_at = at + 2 + body[at + 1] if end - at >= _PLAIN_LABEL else end
    if (
        value_at + 1 < end
        and body[at] == _NAME_TAG
        and body[at + 1] < _CONTINUED
        and body[value_at] == _VALUE_TAG
        and body[value_at + 1] < _CONTINUED
        and value_at + 2 + body[value_at + 1] == end
    ):
        return body[at + 2 : value_at], body[value_at + 2 : end]
    text = {1: b"", 2: b""}
    while at < end:
        key, at, stop = read_field(body, at, end)
        number = key >> 3
        if number in text:
            _check_field(body, _LABEL_FIELDS, key, (at, stop))
            text[number] = body[at:stop]
        at = stop
    return text[1], text[2]


def _parse_point(body: bytes, kind: int, span: tuple[int, int, int]) -> Point:
    """One point, whose field begins, whose message begins, and both end at `span`.

    A histogram's stale marker is its sum (prometheus tsdb/head_append.go).
    """
    first, at, end = span
    fields = _POINT_FIELDS[kind]
    time_ms = 0
    stale = False
    while at < end:
        key, at, stop = read_field(body, at, end)
        number = key >> 3
        _check_field(body, fields, key, (at, stop))
        if number == _TIME_FIELD[kind]:
            raw, _ = read_varint(body, at, end)
            time_ms = raw - (1 << 64) if raw >> 63 else raw
        elif number == _MARKER_FIELD.get(kind):
            stale = body[at:stop] == STALE_BITS
        at = stop
    return Point(kind, time_ms, stale, body[first:end])


def _check_field(body: bytes, fields: _Fields, key: int, span: tuple[int, int]) -> None:
    """Refuse a known field that a strict decoder would refuse; `span` is where its value lies, without its length."""
    known = fields.get(key >> 3)
    if known is None:
        return
    types, holds = known
    if key & 7 not in types:
        raise MalformedSeriesError(f"field {key >> 3} of a series, point or label has a wrong wire type")
    if holds and key & 7 == types[-1]:
        _CHECKS[holds](body, *span)


def _check_span(body: bytes, at: int, end: int) -> None:
    while at < end:
        key, at, stop = read_field(body, at, end)
        _check_field(body, _SPAN_FIELDS, key, (at, stop))
        at = stop


def _check_int32(body: bytes, at: int, end: int) -> None:
    if read_varint(body, at, end)[0] >> 32:
        raise MalformedSeriesError("a number of 32 bits has more of them")


def _check_varints(body: bytes, at: int, end: int) -> None:
    while at < end:
        _, at = read_varint(body, at, end)


def _check_doubles(_body: bytes, at: int, end: int) -> None:
    if (end - at) % 8:
        raise MalformedSeriesError("packed doubles are cut")


_CHECKS: Final[dict[str, Callable[[bytes, int, int], object]]] = {
    _LABEL: _parse_label,
    _SPAN: _check_span,
    _INT32: _check_int32,
    _PACKED_VARINTS: _check_varints,
    _PACKED_DOUBLES: _check_doubles,
}
