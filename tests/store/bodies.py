"""Requests of remote write 1.0 for the store's tests."""

import struct
from collections.abc import Mapping, Sequence

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import Histogram, Label, Sample, TimeSeries

Text = str | bytes


def entry(
    labels: Mapping[str, str] | Sequence[tuple[Text, Text]],
    *samples: tuple[int, float],
    histograms: Sequence[Histogram] = (),
) -> TimeSeries:
    """One series with its samples (time, value)."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    return TimeSeries(
        labels=[Label(name=_bytes(name), value=_bytes(value)) for name, value in pairs],
        samples=[Sample(timestamp=at_ms, value=value) for at_ms, value in samples],
        histograms=histograms,
    )


def body(*entries: TimeSeries) -> bytes:
    """A request with these entries."""
    return WriteRequest(timeseries=entries).SerializeToString()


def from_bits(bits: int) -> float:
    """The float with these 64 bits."""
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


def to_bits(value: float) -> int:
    """The 64 bits of a float."""
    return int.from_bytes(struct.pack(">d", value), "big")


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text
