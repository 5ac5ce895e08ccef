import tracemalloc
from types import ModuleType

import pytest

from proto.prompb.remote_pb2 import WriteRequest
from proxy.core.errors import CorruptRequestError, MislabelledVersionError, RequestError, TooManySeriesError
from tests.proxy.core.messages import (
    blob,
    block,
    double,
    fixed32,
    number,
    recorded,
    request,
    sample,
    tag,
    varint,
)

SHORT = block(("__name__", "up")) + sample()
LONG = block(("__name__", "up"), ("job", "x" * 200)) + sample()
VERY_LONG = block(("__name__", "up"), ("job", "x" * 20_000)) + sample()
META = number(1, 2) + blob(2, b"up") + blob(4, b"help")


def _entries(wire: ModuleType, body: bytes) -> list[bytes]:
    bounds: list[int] = wire.frames(body).bounds
    return [body[bounds[i] : bounds[i + 1]] for i in range(0, len(bounds), 2)]


ENTRIES = {
    "none": (b"", []),
    "an empty one": (blob(1, b""), [b""]),
    "two empty ones": (blob(1, b"") * 2, [b"", b""]),
    "a short one": (request(SHORT), [SHORT]),
    "a long one": (request(LONG), [LONG]),
    "a very long one": (request(VERY_LONG), [VERY_LONG]),
    "all lengths": (request(SHORT, LONG, b"", VERY_LONG, SHORT), [SHORT, LONG, b"", VERY_LONG, SHORT]),
    "127, 128, 16383 and 16384 bytes": (
        request(bytes(127), bytes(128), bytes(16383), bytes(16384)),
        [bytes(127), bytes(128), bytes(16383), bytes(16384)],
    ),
    "a padded tag": (tag(1, 2, 1) + varint(len(SHORT)) + SHORT, [SHORT]),
    "a padded length": (blob(1, SHORT, 1) + blob(1, SHORT, 4), [SHORT, SHORT]),
    "a padded length of a long one": (blob(1, LONG, 1), [LONG]),
    "an entry like a request": (request(request(SHORT)), [request(SHORT)]),
}


@pytest.mark.parametrize(("body", "entries"), ENTRIES.values(), ids=ENTRIES.keys())
def test_entries_are_found(wire: ModuleType, body: bytes, entries: list[bytes]) -> None:
    """Each entry is found, in order, whatever its length and however it is written."""
    assert _entries(wire, body) == entries


def test_thousands_of_entries_are_found(wire: ModuleType) -> None:
    """A request of several thousand entries of mixed lengths is taken apart without a loss."""
    entries = [block(("__name__", "up"), ("i", "x" * (i % 400))) + sample(i) for i in range(5000)]
    assert _entries(wire, request(*entries)) == entries


UNKNOWN = {
    "2, the source of Cortex and Mimir": (number(2, 1), 1),
    "1000, no check of labels": (number(1000, 1), 1),
    "1001, no check of their number": (number(1001, 1), 1),
    "1002, no samples out of order": (number(1002, 1), 1),
    "4 and 5, a request of 2.0": (blob(4, b"") + blob(4, b"up") + blob(5, b"\x0a\x02\x00\x01"), 3),
    "6 of each kind": (number(6, 7) + double(6, 1.0) + fixed32(6, b"abcd") + blob(6, b"x"), 4),
    "the highest": (blob(536_870_911, b"x"), 1),
    "2 again and again": (number(2, 2) * 50, 50),
}


@pytest.mark.parametrize(("field", "count"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_other_fields_are_left_behind(wire: ModuleType, field: bytes, count: int) -> None:
    """Fields of the top level that are neither entries nor metadata are counted, and the rest is as without them."""
    body = field + request(SHORT) + field + blob(3, META) + request(LONG) + field
    found = wire.frames(body)
    assert found.dropped == 3 * count
    assert found.metadata == [META]
    assert _entries(wire, body) == [SHORT, LONG]


def test_metadata_is_kept(wire: ModuleType) -> None:
    """Metadata comes out as it was sent, also from a request without entries, however it is written."""
    assert wire.frames(blob(3, META) + blob(3, b"") + blob(3, META, 2)).metadata == [META, b"", META]


MISLABELLED = {
    "symbols only": blob(4, b"") + blob(4, b"up"),
    "timeseries of 2.0 only": blob(5, b"\x0a\x00"),
    "a whole request of 2.0": blob(4, b"") + blob(4, b"__name__") + blob(4, b"up") + blob(5, b"\x0a\x02\x01\x02"),
    "with other fields around": number(6, 1) + blob(4, b"") + number(1000, 1),
}


@pytest.mark.parametrize("body", MISLABELLED.values(), ids=MISLABELLED.keys())
def test_a_request_of_2_0_is_told(wire: ModuleType, body: bytes) -> None:
    """A body that has fields of 2.0 and none of 1.0 is refused as what it is, not taken as an empty request."""
    with pytest.raises(MislabelledVersionError):
        wire.frames(body)


@pytest.mark.parametrize("field", [blob(1, b""), blob(3, META)])
def test_one_field_of_1_0_makes_a_request_of_1_0(wire: ModuleType, field: bytes) -> None:
    """Fields of 2.0 beside entries or metadata are only left behind: that is no request of 2.0."""
    assert wire.frames(blob(4, b"up") + field + blob(5, b"")).dropped == 2


def test_only_unknown_fields_are_an_empty_request(wire: ModuleType) -> None:
    """A body without any field of 1.0 or 2.0 is an empty request; to refuse it would bar later versions."""
    assert wire.frames(number(2, 1) + blob(7, b"x")).bounds == []


CORRUPT = {
    "a tag only": b"\x0a",
    "a length past the end": b"\x0a\x05abcd",
    "a long length past the end": b"\x0a\x80\x01" + bytes(127),
    "a long length cut": b"\x0a\x80",
    "an endless length": b"\x0a" + b"\x80" * 10,
    "a length of 2^64-1": b"\x0a" + varint(-1) + b"abc",
    "a length of 2^63": b"\x0a" + varint(1 << 63) + b"abc",
    "a length of 2^31": b"\x0a" + varint(1 << 31) + b"abc",
    "a length that wraps to where it is": b"\x0a" + varint(-11) + b"abc",
    "a tag of six bytes": tag(1, 2, 5) + b"\x00",
    "entries that are a number": number(1, 5),
    "entries of eight bytes": double(1, 1.0),
    "entries of four bytes": fixed32(1, b"abcd"),
    "metadata that is a number": number(3, 5),
    "field 0": number(0, 1),
    "a group": tag(6, 3) + tag(6, 4),
    "a group of entries": tag(1, 3) + tag(1, 4),
    "an end of group": tag(6, 4),
    "text": b"not a request at all",
    "JSON": b'{"timeseries":[]}',
    "a snappy frame": bytes.fromhex("ff060000734e61507059"),
    "a good start": request(SHORT) + b"\x0a",
    "a good start, long": request(LONG, LONG)[:-1],
}


@pytest.mark.parametrize("body", CORRUPT.values(), ids=CORRUPT.keys())
def test_corrupt_bodies_are_refused(wire: ModuleType, body: bytes) -> None:
    """A body that is no sequence of protobuf fields is refused as a whole."""
    with pytest.raises(CorruptRequestError):
        wire.frames(body)


def test_a_cut_request_is_refused_or_shorter(wire: ModuleType) -> None:
    """A request cut between two entries has those before the cut; cut anywhere else it is refused."""
    entries = [SHORT, LONG, SHORT]
    body = request(*entries)
    whole = {len(request(*entries[:i])): entries[:i] for i in range(len(entries) + 1)}
    for end in range(len(body)):
        if end in whole:
            assert _entries(wire, body[:end]) == whole[end]
        else:
            with pytest.raises(CorruptRequestError):
                wire.frames(body[:end])


def test_a_request_has_a_million_fields(wire: ModuleType) -> None:
    """As many fields of any kind as the limit says are taken, one more is refused: each costs memory and time."""
    body = (blob(1, b"") + blob(3, b"") + number(2, 1) + blob(1, b"\x0a\x00")) * (wire.ENTRIES // 4)
    found = wire.frames(body)
    assert len(found.bounds) // 2 + len(found.metadata) + found.dropped == wire.ENTRIES
    for more in (blob(1, b""), request(LONG)):
        with pytest.raises(TooManySeriesError):
            wire.frames(body + more)


@pytest.mark.parametrize("length", [1 << 20, 1 << 31, 1 << 34, 1 << 62, -1])
def test_a_declared_length_allocates_nothing(wire: ModuleType, length: int) -> None:
    """A length that is a lie is refused before any memory is taken for it."""
    bodies = [tag(field, 2) + varint(length) + b"x" for field in (1, 3, 6)]
    tracemalloc.start()
    try:
        for body in bodies:
            with pytest.raises(RequestError):
                wire.frames(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16


@pytest.mark.parametrize(
    "name",
    [
        *("prometheus-1", "prometheus-2", "prometheus-stale", "prometheus-metadata"),
        *("prometheus-histograms-1", "prometheus-histograms-2"),
        *("vmagent-1", "vmagent-2", "vmagent-stale", "vmagent-metadata"),
    ],
)
def test_real_requests(wire: ModuleType, name: str) -> None:
    """What Prometheus 3.16 and vmagent 1.151 sent has the entries and metadata that the protobuf runtime finds."""
    body = recorded(name)
    parsed = WriteRequest.FromString(body)
    found = wire.frames(body)
    assert _entries(wire, body) == [series.SerializeToString() for series in parsed.timeseries]
    assert found.metadata == [metadata.SerializeToString() for metadata in parsed.metadata]
    assert len(parsed.timeseries) + len(parsed.metadata) > 0
    assert found.dropped == 0
