import tracemalloc
from collections.abc import Callable

import pytest

from proxy.core.errors import InvalidUtf8Error, MalformedSeriesError
from tests.proxy.core.messages import (
    INFINITY,
    NAN,
    NOW_MS,
    STALE,
    blob,
    block,
    double,
    exemplar,
    fixed32,
    histogram,
    label,
    number,
    sample,
    tag,
    varint,
)
from tests.proxy.core.twins import Twin

UP = block(("__name__", "up"))

# The wire types that a field may have, by message and field number: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes.
WIRE_TYPES: dict[str, dict[int, tuple[int, ...]]] = {
    "series": {1: (2,), 2: (2,), 3: (2,), 4: (2,), 6: (0,)},
    "label": {1: (2,), 2: (2,)},
    "sample": {1: (1,), 2: (0,), 3: (0,)},
    "exemplar": {1: (2,), 2: (1,), 3: (0,)},
    "exemplar label": {1: (2,), 2: (2,)},
    "histogram": {
        **dict.fromkeys((1, 4, 6, 14, 15, 17), (0,)),
        **dict.fromkeys((2, 3, 5, 7), (1,)),
        **dict.fromkeys((8, 11), (2,)),
        **dict.fromkeys((9, 12), (0, 2)),
        **dict.fromkeys((10, 13, 16), (1, 2)),
    },
    "span": {1: (0,), 2: (0,)},
}
IN_SERIES: dict[str, Callable[[bytes], bytes]] = {
    "series": lambda field: UP + field + sample(),
    "label": lambda field: blob(1, field),
    "sample": lambda field: UP + blob(2, field),
    "exemplar": lambda field: UP + blob(3, field),
    "exemplar label": lambda field: UP + blob(3, blob(1, field)),
    "histogram": lambda field: UP + blob(4, field),
    "span": lambda field: UP + blob(4, blob(8, field) + blob(11, field)),
}
VALUES: dict[int, Callable[[int], bytes]] = {
    0: lambda field: number(field, 1),
    1: lambda field: double(field, 1.0),
    2: lambda field: blob(field, b""),
    5: lambda field: fixed32(field, b"abcd"),
}
UNKNOWN_FIELDS = {"series": (5, 7, 100), "histogram": (18, 100)}


@pytest.mark.parametrize("message", WIRE_TYPES)
@pytest.mark.parametrize("kind", VALUES)
def test_wire_types(twin: Twin, message: str, kind: int) -> None:
    """A known field is taken in the wire types that every store takes, and a series is refused for any other."""
    for field, kinds in WIRE_TYPES[message].items():
        entry = IN_SERIES[message](VALUES[kind](field))
        if kind in kinds:
            twin.timeseries.parse_series(entry, 0, len(entry))
        else:
            with pytest.raises(MalformedSeriesError):
                twin.timeseries.parse_series(entry, 0, len(entry))


@pytest.mark.parametrize("message", WIRE_TYPES)
@pytest.mark.parametrize("kind", VALUES)
def test_unknown_fields_are_taken(twin: Twin, message: str, kind: int) -> None:
    """A field that nobody knows is taken in every wire type, at every level, and passed on with what holds it."""
    for field in UNKNOWN_FIELDS.get(message, (4, 7, 100)):
        raw = VALUES[kind](field)
        entry = IN_SERIES[message](raw)
        series = twin.timeseries.parse_series(entry, 0, len(entry))
        assert raw in b"".join([series.block, series.unknown, *(point.raw for point in series.points)])
        assert series.unknown == (raw if message == "series" else b"")


CUT = {
    "a label": UP + b"\x0a\x05\x0a\x01",
    "a name": blob(1, b"\x0a\x05up"),
    "a label's value": blob(1, blob(1, b"up") + b"\x12\x05abcd"),
    "a label's value before its length": blob(1, blob(1, b"up") + b"\x12"),
    "a sample": UP + b"\x12\x10" + b"\x09",
    "a value": UP + blob(2, b"\x09\x00\x00"),
    "a time": UP + blob(2, b"\x10\x80"),
    "a time that ends behind its sample": UP + b"\x12\x02\x10\x80" + b"\x01",
    "an exemplar's label": UP + blob(3, b"\x0a\x05\x0a\x01"),
    "a span": UP + blob(4, b"\x42\x05\x08\x01"),
    "a span's length": UP + blob(4, blob(8, b"\x10\x80")),
    "packed deltas": UP + blob(4, blob(9, b"\x80")),
    "packed deltas that go on behind": UP + blob(4, blob(12, b"\x01\x80") + b"\x78\x01"),
    "packed counts": UP + blob(4, blob(10, bytes(12))),
    "packed custom values": UP + blob(4, blob(16, bytes(7))),
    "an unknown field": UP + b"\x3a\x05a",
    "a tag": UP + b"\x80",
}


@pytest.mark.parametrize("entry", CUT.values(), ids=CUT.keys())
def test_what_is_cut_is_refused(twin: Twin, entry: bytes) -> None:
    """A field that is cut, or goes on behind the message that holds it, is refused at every level."""
    for behind in (b"", b"\x01\x02"):
        with pytest.raises(MalformedSeriesError):
            twin.timeseries.parse_series(entry + behind, 0, len(entry))


HISTOGRAM_FIELDS = {
    "packed deltas": blob(9, varint(1) + varint(300) + varint(-1)),
    "unpacked deltas": number(12, 1) + number(12, 300) + number(12, -1),
    "deltas of both kinds": number(12, 1) + blob(12, varint(2)) + number(12, 3),
    "packed counts": blob(10, bytes(24)),
    "unpacked counts": double(13, 1.0) + double(13, 2.0),
    "no deltas": blob(9, b""),
    "custom values": blob(16, bytes(16)) + double(16, 1.0),
    "several spans": blob(8, number(1, 3) + number(2, 4)) + blob(8, b"") + blob(11, number(2, 1)),
    "the largest span": blob(8, number(1, (1 << 32) - 1) + number(2, (1 << 32) - 1)),
    "the largest schema": number(4, (1 << 32) - 1),
    "a negative reset hint": number(14, -1),
    "both counts": number(1, 5) + double(2, 5.0),
}


@pytest.mark.parametrize("fields", HISTOGRAM_FIELDS.values(), ids=HISTOGRAM_FIELDS.keys())
def test_histogram_fields(twin: Twin, fields: bytes) -> None:
    """A histogram is taken with its lists packed or not, and passed on as it came."""
    raw = blob(4, fields + number(15, NOW_MS))
    (point,) = twin.timeseries.parse_series(UP + raw, 0, len(UP + raw)).points
    assert (point.kind, point.time_ms, point.stale, point.counts, point.raw) == (4, NOW_MS, False, True, raw)


MARKERS = {
    "a marker": (sample(STALE), True),
    "time first": (blob(2, number(2, NOW_MS) + double(1, STALE)), True),
    "NaN": (sample(NAN), False),
    "infinity": (sample(INFINITY), False),
    "no value": (sample(None), False),
    "its sign turned": (sample(STALE[:7] + b"\xff"), False),
    "a marker, then a value": (blob(2, double(1, STALE) + double(1, 1.0) + number(2, NOW_MS)), False),
    "a value, then a marker": (blob(2, double(1, 1.0) + double(1, STALE) + number(2, NOW_MS)), True),
    "a histogram's marker": (histogram(STALE), True),
    "a histogram": (histogram(), False),
    "a histogram's NaN": (histogram(NAN), False),
    "a histogram whose count is one": (blob(4, double(2, STALE) + number(15, NOW_MS)), False),
    "a histogram whose threshold is one": (blob(4, double(5, STALE) + number(15, NOW_MS)), False),
    "an exemplar of that value": (blob(3, double(2, STALE) + number(3, NOW_MS)), False),
}


@pytest.mark.parametrize(("raw", "stale"), MARKERS.values(), ids=MARKERS.keys())
def test_markers(twin: Twin, raw: bytes, *, stale: bool) -> None:
    """A stale marker is a sample, or the sum of a histogram, of exactly these 64 bits."""
    (point,) = twin.timeseries.parse_series(UP + raw, 0, len(UP + raw)).points
    assert (point.stale, point.time_ms) == (stale, NOW_MS)


TIMES = [0, 1, -1, NOW_MS, -NOW_MS, (1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize("at_ms", TIMES)
def test_times_are_signed(twin: Twin, at_ms: int) -> None:
    """Times of 64 bits are read with their sign, of samples, exemplars and histograms."""
    entry = UP + sample(1.0, at_ms) + exemplar(1.0, at_ms) + histogram(1.0, at_ms)
    points = twin.timeseries.parse_series(entry, 0, len(entry)).points
    assert [(point.kind, point.time_ms) for point in points] == [(2, at_ms), (3, at_ms), (4, at_ms)]


@pytest.mark.parametrize(("field", "time_field"), [(2, 2), (3, 3), (4, 15)])
def test_of_repeated_fields_the_last_counts(twin: Twin, field: int, time_field: int) -> None:
    """As every decoder does it, a point has the last of its times, and one without a time has the time 0."""
    for times, last in (((1, 2, 3), 3), ((3, -1), -1), ((), 0)):
        entry = UP + blob(field, b"".join(number(time_field, at_ms) for at_ms in times))
        assert [point.time_ms for point in twin.timeseries.parse_series(entry, 0, len(entry)).points] == [last]


LABELS = {
    "plain": (label(b"a", b"1"), (b"a", b"1")),
    "value first": (blob(1, blob(2, b"1") + blob(1, b"a")), (b"a", b"1")),
    "the last counts": (blob(1, blob(1, b"a") + blob(2, b"1") + blob(2, b"2") + blob(1, b"b")), (b"b", b"2")),
    "no value": (blob(1, blob(1, b"a")), (b"a", b"")),
    "no name": (blob(1, blob(2, b"1")), (b"", b"1")),
    "nothing": (blob(1, b""), (b"", b"")),
    "both empty": (label(b"", b""), (b"", b"")),
    "an empty value": (label(b"a", b""), (b"a", b"")),
    "127 bytes": (label(b"n" * 127, b"v" * 127), (b"n" * 127, b"v" * 127)),
    "128 bytes": (label(b"n" * 128, b"v" * 128), (b"n" * 128, b"v" * 128)),
    "a name that ends as a value begins": (label(b"n" * 129 + b"\x12", b"v" * 17), (b"n" * 129 + b"\x12", b"v" * 17)),
    "a long value": (label(b"a", b"v" * 20_000), (b"a", b"v" * 20_000)),
    "padded lengths": (blob(1, blob(1, b"a", 1) + blob(2, b"1", 4), 2), (b"a", b"1")),
    "padded tags": (blob(1, tag(1, 2, 1) + b"\x01a" + tag(2, 2, 4) + b"\x011"), (b"a", b"1")),
    "with an unknown field": (blob(1, blob(1, b"a") + blob(2, b"1") + number(3, 1)), (b"a", b"1")),
    "an unknown field between": (blob(1, blob(1, b"a") + number(3, 1) + blob(2, b"1")), (b"a", b"1")),
    "no UTF-8": (label(b"\xff", b"\xfe"), (b"\xff", b"\xfe")),
    "a value that looks like a label": (label(b"a", label(b"b", b"2")), (b"a", label(b"b", b"2"))),
}


@pytest.mark.parametrize(("raw", "pair"), LABELS.values(), ids=LABELS.keys())
def test_labels(twin: Twin, raw: bytes, pair: tuple[bytes, bytes]) -> None:
    """A label is read as a decoder reads it, and its field is part of the block as it came."""
    body = b"\x00\x01" + UP + raw + sample() + b"\x02"
    series = twin.timeseries.parse_series(body, 2, len(body) - 1)
    assert series.labels == ((b"__name__", b"up"), pair)
    assert series.block == UP + raw
    assert [point.raw for point in series.points] == [sample()]


def test_fields_in_any_order(twin: Twin) -> None:
    """Labels may come late and apart, points and unknown fields between them: each kind keeps its own order."""
    first, second = block(("a", "1")), block(("b", "2"))
    odd = [number(7, 1), blob(100, b"x")]
    points = [sample(1.0, 3), histogram(1.0, 2), exemplar(1.0, 1), sample(2.0, 0)]
    entry = odd[0] + points[0] + first + points[1] + points[2] + odd[1] + second + points[3]
    series = twin.timeseries.parse_series(entry, 0, len(entry))
    assert series.block == first + second
    assert series.labels == ((b"a", b"1"), (b"b", b"2"))
    assert [point.raw for point in series.points] == points
    assert [point.counts for point in series.points] == [True, True, False, True]
    assert series.unknown == b"".join(odd)


@pytest.mark.parametrize("entry", [b"", sample(), number(7, 1)])
def test_a_series_without_labels_is_read(twin: Twin, entry: bytes) -> None:
    """An entry without labels is well formed; that it has no name is another matter."""
    series = twin.timeseries.parse_series(entry, 0, len(entry))
    assert (series.block, series.labels, series.text_labels()) == (b"", (), [])


@pytest.mark.parametrize("bad", [(b"\xff", b"1"), (b"a", b"\xff"), (b"a", b"\xed\xa0\x80"), (b"\xc0\x80", b"")])
def test_text_must_be_utf8(twin: Twin, bad: tuple[bytes, bytes]) -> None:
    """Labels that are not UTF-8 are read as bytes; only asked for as text they are refused, in one short line."""
    entry = UP + label(*bad) + label(b"long", b"x" * 1000)
    series = twin.timeseries.parse_series(entry, 0, len(entry))
    assert series.labels[1] == bad
    with pytest.raises(InvalidUtf8Error) as caught:
        series.text_labels()
    assert len(caught.value.sentence) < 300


def test_text_labels(twin: Twin) -> None:
    """Labels come as text in their order, repeated and empty ones too."""
    pairs = [("größe", "☃"), ("a", ""), ("a", "1"), ("", "x")]
    entry = block(*pairs)
    assert twin.timeseries.parse_series(entry, 0, len(entry)).text_labels() == pairs


def test_labels_are_written(twin: Twin) -> None:
    """Label fields are written as protobuf has them, of any length and in the order given, and read back."""
    pairs = [(b"a", b"1"), (b"", b""), (b"n" * 127, b"v" * 128), (b"z", b"x" * 20_000), (b"\xff", b"\x00")]
    raw = b"".join(label(name, value) for name, value in pairs)
    assert twin.timeseries.encode_labels(pairs) == raw
    assert twin.timeseries.parse_series(raw, 0, len(raw)).labels == tuple(pairs)
    assert twin.timeseries.encode_labels([]) == b""


def test_an_entry_has_so_many_fields(twin: Twin) -> None:
    """As many labels and points as the limit says are taken, one more is refused: each takes fifty times its bytes."""
    entry = (blob(1, b"") + blob(2, b"") + blob(4, b"") + number(7, 1)) * (twin.timeseries.FIELDS // 4)
    twin.timeseries.parse_series(entry, 0, len(entry))
    for more in (blob(1, b""), blob(2, b""), number(7, 1)):
        with pytest.raises(MalformedSeriesError):
            twin.timeseries.parse_series(entry + more, 0, len(entry + more))


def test_an_entry_has_so_many_bytes(twin: Twin) -> None:
    """A histogram of very many spans is refused before they are read: spans are no points, and no limit counts them."""
    bytes_ = twin.timeseries.ENTRY_BYTES
    entry = blob(4, blob(8, b"") * (bytes_ // 2))
    with pytest.raises(MalformedSeriesError, match=f"{len(entry)} bytes"):
        twin.timeseries.parse_series(entry, 0, len(entry))
    long = blob(1, blob(1, b"n") + blob(2, b"v" * (bytes_ - 20)))
    assert len(long) <= bytes_
    twin.timeseries.parse_series(long, 0, len(long))


@pytest.mark.parametrize("length", [1 << 20, 1 << 31, 1 << 34, 1 << 62, -1])
def test_a_declared_length_allocates_nothing(twin: Twin, length: int) -> None:
    """A length that is a lie is refused before any memory is taken for it, at every level."""
    lies = [tag(field, 2) + varint(length) + b"x" for field in (1, 2, 3, 4, 7, 8, 9, 10, 11)]
    entries = [UP + put(lie) for lie in lies for put in IN_SERIES.values()]
    tracemalloc.start()
    try:
        for entry in entries:
            with pytest.raises(MalformedSeriesError):
                twin.timeseries.parse_series(entry, 0, len(entry))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 18
