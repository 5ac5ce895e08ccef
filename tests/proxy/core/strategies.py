"""Requests to test with: well-formed ones, the same written as nobody writes them, and damaged ones."""

import struct
from random import Random
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import BucketSpan, Exemplar, Histogram, Label, MetricMetadata, Sample, TimeSeries
from tests.proxy.core.messages import (
    INFINITY,
    MINUS_ZERO,
    NAN,
    NOW_MS,
    STALE,
    blob,
    double,
    fixed32,
    number,
    tag,
    varint,
)

SIZE: Final = 1 << 16
"""Bytes of a generated request at most, so that a failing one can be looked at."""

_BITS: Final = [STALE, NAN, INFINITY, MINUS_ZERO, bytes(8), bytes.fromhex("efcdab896745f3ff"), struct.pack("<d", 87.0)]


def _float(bits: bytes) -> float:
    value: float = struct.unpack("<d", bits)[0]
    return value


DOUBLES: Final = st.one_of(st.sampled_from(_BITS), st.binary(min_size=8, max_size=8)).map(_float)
TIMES: Final = st.one_of(
    st.integers(NOW_MS - 2, NOW_MS + 2),
    st.sampled_from([0, -1, 1 << 35, (1 << 35) - 1, (1 << 42) - 1, 1 << 42, -(1 << 63), (1 << 63) - 1]),
)
NAMES: Final = st.sampled_from([b"__name__", b"job", b"instance", b"", b"GPU_I_ID", b"\xff", "größe".encode()])
TEXTS: Final = st.one_of(
    st.sampled_from([b"up", b"", b"x" * 200, b"\x12\x10\x09abcdef", b"\xff\xfe"]), st.binary(max_size=12)
)
_UINT64: Final = st.one_of(st.integers(0, 3), st.sampled_from([1 << 32, 1 << 63, (1 << 64) - 1]))
_SINT32: Final = st.one_of(st.integers(-2, 8), st.sampled_from([-(1 << 31), (1 << 31) - 1]))
_SINT64: Final = st.one_of(st.integers(-2, 2), st.sampled_from([-(1 << 63), (1 << 63) - 1]))


def _maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


LABELS: Final = st.builds(Label, name=NAMES, value=TEXTS)
SAMPLES: Final = st.builds(Sample, value=DOUBLES, timestamp=TIMES)
EXEMPLARS: Final = st.builds(Exemplar, labels=st.lists(LABELS, max_size=2), value=DOUBLES, timestamp=TIMES)
_SPANS: Final = st.lists(st.builds(BucketSpan, offset=_SINT32, length=st.integers(0, (1 << 32) - 1)), max_size=2)
_DELTAS: Final = st.lists(_SINT64, max_size=3)
_COUNTS: Final = st.lists(DOUBLES, max_size=3)
_WHOLE: Final = {
    "sum": _maybe(DOUBLES),
    "schema": _maybe(_SINT32),
    "zero_threshold": _maybe(DOUBLES),
    "negative_spans": _SPANS,
    "negative_deltas": _DELTAS,
    "negative_counts": _COUNTS,
    "positive_spans": _SPANS,
    "positive_deltas": _DELTAS,
    "positive_counts": _COUNTS,
    "reset_hint": _maybe(st.sampled_from(Histogram.ResetHint.values())),
    "timestamp": TIMES,
    "custom_values": _COUNTS,
}
HISTOGRAMS: Final = st.one_of(
    st.builds(Histogram, count_int=_maybe(_UINT64), zero_count_int=_maybe(_UINT64), **_WHOLE),
    st.builds(Histogram, count_float=_maybe(DOUBLES), zero_count_float=_maybe(DOUBLES), **_WHOLE),
)
SERIES: Final = st.builds(
    TimeSeries,
    labels=st.lists(LABELS, max_size=4),
    samples=st.lists(SAMPLES, max_size=3),
    exemplars=st.lists(EXEMPLARS, max_size=2),
    histograms=st.lists(HISTOGRAMS, max_size=2),
)
METADATA: Final = st.builds(MetricMetadata, metric_family_name=TEXTS, help=TEXTS)
REQUESTS: Final = st.builds(
    WriteRequest, timeseries=st.lists(SERIES, max_size=4), metadata=st.lists(METADATA, max_size=1)
)


def loosened(message: Message, random: Random, *, top: bool = False) -> bytes:
    """A message as nobody writes it but anybody may: fields in any order, unknown ones among them, odd lengths."""
    pieces = [piece for field, value in message.ListFields() for piece in _pieces(message, field, value, random)]
    if random.random() < 0.3:
        fields = {2, 1000, 1001, 1002, 7} if top else {5, 7, 19, 100, 536_870_911}
        pieces.append(_unknown(random, random.choice(sorted(fields.difference(message.DESCRIPTOR.fields_by_number)))))
    if random.random() < 0.5:
        random.shuffle(pieces)
    return b"".join(pieces)


def _pieces(message: Message, field: FieldDescriptor, value: object, random: Random) -> list[bytes]:
    """The encodings of the values of one field."""
    if isinstance(value, Message | str | bytes | int | float):
        values: list[object] = [value]
    else:
        values = list(value)  # type: ignore[call-overload]  # repeated
    if isinstance(values[0], Message):
        padding = random.choice([0, 0, 0, 1, 3])
        inner = [loosened(each, random) for each in values if isinstance(each, Message)]
        return [blob(field.number, each, padding if len(each) < 1 << 14 else 0) for each in inner]
    whole = type(message)()
    whole.MergeFrom(message)
    for other, _ in message.ListFields():
        if other.number != field.number:
            whole.ClearField(other.name)
    encoded = whole.SerializeToString()
    if len(values) > 1 and random.random() < 0.5:
        return [_unpacked(field, each) for each in values]
    if len(values) == 1 and random.random() < 0.1:
        return [encoded, encoded]
    return [encoded]


def _unpacked(field: FieldDescriptor, value: object) -> bytes:
    if isinstance(value, float):
        return double(field.number, value)
    assert isinstance(value, int)
    return number(field.number, value << 1 if value >= 0 else (-value << 1) - 1)


def _unknown(random: Random, field: int) -> bytes:
    """A field of any wire type."""
    return random.choice(
        [
            number(field, random.getrandbits(random.choice([3, 64]))),
            double(field, random.randbytes(8)),
            fixed32(field, random.randbytes(4)),
            blob(field, random.randbytes(random.choice([0, 5, 200]))),
        ]
    )


@st.composite
def loose_requests(draw: st.DrawFn) -> bytes:
    """Well-formed requests, most of them as senders do not write them."""
    request = draw(REQUESTS)
    if draw(st.booleans()):
        return request.SerializeToString()
    return loosened(request, Random(draw(st.integers(0, 1 << 32))), top=True)


TRAPS: Final = [
    b"\x80",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 10 + b"\x00",
    *(varint(length) for length in (1 << 31, 1 << 32, 1 << 34, 1 << 62, 1 << 63, (1 << 64) - 1)),
    *(varint(5, padding) for padding in (1, 4, 5, 9)),
    *(tag(field, kind) for field in (1, 2, 3, 6, 15, 17) for kind in range(8)),
    tag(0, 2),
    tag(1 << 29, 0),
    tag(1, 2, 5),
    number(4, 1 << 32),
    number(6, 1),
    blob(6, b"x"),
    b"\x33\x34",
    b"\x00",
    b"",
]


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes] | None = None) -> bytes:
    """Requests with some bytes cut, flipped, doubled, or replaced by what trips decoders; a few are left whole."""
    body = draw(loose_requests() if whole is None else whole)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        end = min(len(body), at + draw(st.sampled_from([0, 1, 1, 2, 8, 30])))
        match draw(st.sampled_from(["cut", "flip", "flip", "trap", "trap", "splice", "double", "tail"])):
            case "tail":
                body = body[:at]
            case "cut":
                body = body[:at] + body[end:]
            case "flip":
                body = (
                    body[:at]
                    + bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in body[at : at + 1])
                    + body[at + 1 :]
                )
            case "trap":
                body = body[:at] + draw(st.sampled_from(TRAPS)) + body[end:]
            case "double":
                body = body[:end] + body[at:]
            case _:
                body = body[:at] + draw(loose_requests()) + body[end:]
    return body[:SIZE]


HOSTILE: Final = st.one_of(
    damaged(), damaged(), st.binary(max_size=300), st.lists(st.sampled_from(TRAPS)).map(b"".join)
)
