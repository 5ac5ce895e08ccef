"""Against the protobuf runtime: what we take is what it reads, and what it refuses we refuse.

We are stricter in the cases of STRICTER, and nowhere else: for each of them some store refuses a whole request.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import Histogram, Label, MetricMetadata, Sample, TimeSeries
from proxy.core.errors import MislabelledVersionError, RequestError, SeriesError
from tests.proxy.core.messages import (
    STALE,
    blob,
    double,
    exemplar,
    fixed32,
    histogram,
    label,
    number,
    request,
    sample,
    tag,
)
from tests.proxy.core.strategies import damaged, loose_requests
from tests.proxy.core.twins import Twin

pytestmark = pytest.mark.fuzz

M = TypeVar("M", bound=Message)

# Varints above 64 bits, and numbers above 32 where that is the limit: the runtime cuts them. Only possibly so: these
# bytes may stand for something else.
_LONG_VARINT: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\x7f]", re.DOTALL)
_LONG_NUMBER: Final = re.compile(rb"[\x80-\xff]{4}(?:[\x80-\xff]|[\x10-\x7f])", re.DOTALL)
# When series, samples and histograms began: no part of 1.0, but known to some stores, as a varint.
_STARTS: Final = {TimeSeries.DESCRIPTOR: 6, Sample.DESCRIPTOR: 3, Histogram.DESCRIPTOR: 17}


def _parsed(kind: type[M], raw: bytes) -> M | None:
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def _strange_fields(message: Message) -> Iterator[str]:
    """Why we refuse what the runtime keeps as unknown fields of a message, or of one inside it."""
    for field in list[Any](UnknownFieldSet(message)):  # type: ignore[call-overload]  # its stub lacks __iter__
        if field.wire_type == 3:
            yield "group"
        elif field.field_number in message.DESCRIPTOR.fields_by_number:
            yield "wrong wire type"
        elif _STARTS.get(message.DESCRIPTOR) == field.field_number and field.wire_type != 0:
            yield "start time of a wrong wire type"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in value:
                yield from _strange_fields(inner)


def _is_stricter(message: Message, raw: bytes) -> bool:
    """Whether one of the cases of STRICTER may be in what the runtime has read."""
    return any(_strange_fields(message)) or bool(_LONG_VARINT.search(raw) or _LONG_NUMBER.search(raw))


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


def _entries(twin: Twin, body: bytes) -> tuple[list[bytes], list[bytes]]:
    found = twin.wire.frames(body)
    bounds = found.bounds
    return [body[bounds[i] : bounds[i + 1]] for i in range(0, len(bounds), 2)], found.metadata


def _assert_same(series: Any, theirs: TimeSeries) -> None:
    """The labels, points, times, value bits and markers that we read are those that the runtime reads."""
    assert list(series.labels) == [(each.name, each.value) for each in theirs.labels]
    points: dict[int, list[tuple[int, bool]]] = {2: [], 3: [], 4: []}
    for point in series.points:
        points[point.kind].append((point.time_ms, point.stale))
    assert points[2] == [(each.timestamp, _bits(each.value) == STALE) for each in theirs.samples]
    assert points[3] == [(each.timestamp, False) for each in theirs.exemplars]
    assert points[4] == [(each.timestamp, _bits(each.sum) == STALE) for each in theirs.histograms]


def _without_labels(series: TimeSeries) -> bytes:
    """All of a series but its labels, unknown fields too, bit by bit."""
    copy = TimeSeries()
    copy.CopyFrom(series)
    copy.ClearField("labels")
    return copy.SerializeToString(deterministic=True)


def _reframed(twin: Twin, all_series: Sequence[Any]) -> bytes:
    out: list[bytes] = []
    block = twin.timeseries.encode_labels(OTHER)
    for series in all_series:
        tail = b"".join(point.raw for point in series.points) + series.unknown
        out += (twin.wire.frame(len(block) + len(tail)), block, tail)
    return b"".join(out)


OTHER: Final = [(b"__name__", b"renamed"), (b"namespace", b"x" * 150)]


@given(body=damaged())
def test_we_take_what_the_runtime_takes(twin: Twin, body: bytes) -> None:
    """Of any bytes: what we take the runtime reads in the same way; what only one of us refuses is in STRICTER."""
    theirs = _parsed(WriteRequest, body)
    try:
        entries, metadata = _entries(twin, body)
    except MislabelledVersionError:
        assert theirs is not None
        assert not theirs.timeseries
        assert not theirs.metadata
        return
    except RequestError:
        assert theirs is None or _is_stricter(theirs, body)
        return
    parsed = [_parsed(TimeSeries, entry) for entry in entries]
    assert (theirs is None) == (None in parsed or None in [_parsed(MetricMetadata, raw) for raw in metadata])
    for entry, their_series in zip(entries, parsed, strict=True):
        try:
            series = twin.timeseries.parse_series(entry, 0, len(entry))
        except SeriesError:
            assert their_series is None or _is_stricter(their_series, entry)
        else:
            assert their_series is not None
            _assert_same(series, their_series)


@given(body=loose_requests())
def test_a_new_frame_changes_labels_only(twin: Twin, body: bytes) -> None:
    """A request taken apart and framed anew differs from what came in its labels alone, to the last bit."""
    entries, metadata = _entries(twin, body)
    theirs = WriteRequest.FromString(body)
    assert len(metadata) == len(theirs.metadata)
    series = [twin.timeseries.parse_series(entry, 0, len(entry)) for entry in entries]
    after = WriteRequest.FromString(_reframed(twin, series)).timeseries
    assert [_without_labels(each) for each in after] == [_without_labels(each) for each in theirs.timeseries]
    for each in after:
        assert [(each_label.name, each_label.value) for each_label in each.labels] == OTHER


@given(body=loose_requests())
def test_value_bits_survive(twin: Twin, body: bytes) -> None:
    """The 64 bits of each value of samples, exemplars and histograms are in the new frame what they were in the old."""
    entries, _ = _entries(twin, body)
    series = [twin.timeseries.parse_series(entry, 0, len(entry)) for entry in entries]
    after = WriteRequest.FromString(_reframed(twin, series)).timeseries
    for new, old in zip(after, WriteRequest.FromString(body).timeseries, strict=True):
        assert [_bits(each.value) for each in new.samples] == [_bits(each.value) for each in old.samples]
        assert [_bits(each.value) for each in new.exemplars] == [_bits(each.value) for each in old.exemplars]
        assert [_bits(each.sum) for each in new.histograms] == [_bits(each.sum) for each in old.histograms]


UP: Final = label(b"__name__", b"up")
_LONG: Final = b"\xff" * 9 + b"\x02"

STRICTER: Final = {
    "a group in a series": UP + tag(6, 3) + tag(6, 4),
    "a group with fields": UP + tag(7, 3) + number(1, 1) + tag(7, 4),
    "a group in a sample": UP + blob(2, tag(7, 3) + tag(7, 4)),
    "a group in a label": blob(1, tag(7, 3) + tag(7, 4)),
    "labels that are a number": number(1, 1),
    "labels of four bytes": fixed32(1, b"abcd"),
    "samples that are a number": UP + number(2, 1),
    "samples of eight bytes that look like one": UP + double(2, b"\x10\x01" * 4),
    "labels of four bytes that look like one": fixed32(1, b"\x0a\x00\x12\x00"),
    "exemplars of eight bytes": UP + double(3, 1.0),
    "histograms that are a number": UP + number(4, 1),
    "a name that is a number": blob(1, number(1, 1)),
    "a label value of eight bytes": blob(1, double(2, 1.0)),
    "a value that is a number": UP + blob(2, number(1, 1)),
    "a value of four bytes": UP + blob(2, fixed32(1, b"abcd")),
    "a time of eight bytes": UP + blob(2, double(2, 1.0)),
    "a time that is text": UP + blob(2, blob(2, b"now")),
    "an exemplar's label that is a number": UP + blob(3, number(1, 1)),
    "an exemplar's label name that is a number": UP + blob(3, blob(1, number(1, 1))),
    "a histogram's sum that is a number": UP + blob(4, number(3, 1)),
    "a span that is a number": UP + blob(4, number(8, 1)),
    "a span's offset of eight bytes": UP + blob(4, blob(11, double(1, 1.0))),
    "deltas of eight bytes": UP + blob(4, double(9, 1.0)),
    "counts that are numbers": UP + blob(4, number(10, 1)),
    "custom values of four bytes": UP + blob(4, fixed32(16, b"abcd")),
    "a schema of 33 bits": UP + blob(4, number(4, 1 << 32)),
    "a span's offset of 64 bits": UP + blob(4, blob(8, number(1, -1))),
    "a span's length of 33 bits": UP + blob(4, blob(11, number(2, 1 << 32))),
    "a time above 64 bits": UP + blob(2, tag(2, 0) + _LONG),
    "an unknown number above 64 bits": UP + tag(5, 0) + _LONG,
    "a series' start that is text": UP + blob(6, b"x") + sample(),
    "a sample's start of eight bytes": UP + blob(2, double(3, 1.0)),
    "a histogram's start that is text": UP + blob(4, blob(17, b"x")),
}


@pytest.mark.parametrize("entry", STRICTER.values(), ids=STRICTER.keys())
def test_where_we_are_stricter(twin: Twin, entry: bytes) -> None:
    """Some store refuses a whole request for this entry although the runtime reads it, so we refuse the entry."""
    theirs = TimeSeries.FromString(entry)
    assert _is_stricter(theirs, entry)
    with pytest.raises(SeriesError):
        twin.timeseries.parse_series(entry, 0, len(entry))


STRICTER_REQUESTS: Final = {
    "a group": tag(6, 3) + tag(6, 4),
    "entries that are a number": number(1, 1),
    "metadata of eight bytes": double(3, 1.0),
    "an unknown number above 64 bits": tag(7, 0) + _LONG,
}


@pytest.mark.parametrize("field", STRICTER_REQUESTS.values(), ids=STRICTER_REQUESTS.keys())
def test_where_we_refuse_a_whole_request(twin: Twin, field: bytes) -> None:
    """At the top level too we refuse what the runtime alone would read; nothing that a sender writes is among it."""
    body = request(UP + sample()) + field
    assert _is_stricter(WriteRequest.FromString(body), body)
    with pytest.raises(RequestError):
        twin.wire.frames(body)


def test_the_cases_are_no_accident(twin: Twin) -> None:
    """The same entries without what makes them strange are taken, so each case above is refused for its own reason."""
    entry = UP + number(6, 1) + sample() + exemplar() + histogram() + blob(2, number(3, 1)) + blob(4, number(17, 1))
    series = twin.timeseries.parse_series(entry, 0, len(entry))
    assert len(series.points) == 5
    assert not any(_strange_fields(TimeSeries.FromString(entry)))
    assert Label(name=b"__name__", value=b"up") == TimeSeries.FromString(entry).labels[0]
