"""Requests taken apart at their entries: for an upstream that takes less at once, or refuses all for one of them.

Nothing here is read twice: an entry is walked with the compiled `fields.read_field` and copied once, as it is framed.
"""

from typing import Final, NamedTuple

from proxy.core.errors import MalformedSeriesError
from proxy.core.fields import read_field
from proxy.core.wire import Part

# Tags of a WriteRequest and of a TimeSeries (remote write 1.0), all of them messages.
_TIMESERIES, _METADATA = 0x0A, b"\x1a"
_SAMPLE, _EXEMPLAR, _HISTOGRAM = 0x12, 0x1A, 0x22
_UNITS: Final = (_SAMPLE, _HISTOGRAM)


class Piece(NamedTuple):
    """Framed entries that stay together, mostly one: its bytes, and how many samples and exemplars it bears."""

    entry: bytes
    samples: int
    exemplars: int


def split_entries(body: bytes) -> list[Piece]:
    """The entries of an uncompressed WriteRequest in their order; joined, they are the body again.

    Other fields than timeseries bear no samples. What cannot be read stands together at the end, so that an upstream
    refuses it alone.
    """
    pieces = []
    at = 0
    end = len(body)
    while at < end:
        first = at
        try:
            key, start, at = read_field(body, first, end)
        except MalformedSeriesError:
            key, start, at = 0, end, end
        samples, exemplars = _points(body, start, at) if key == _TIMESERIES else (0, 0)
        pieces.append(Piece(body[first:at], samples, exemplars))
    return pieces


def fitting(part: Part, max_bytes: int, max_samples: int) -> list[Part]:
    """The part itself if it keeps both bounds or cannot be cut, else parts that do and hold its entries in order.

    Bytes are those of the framed entries, uncompressed. An entry that is larger than a bound stands alone. `made` is
    told of the first part, whose entries need not be those that were made.
    """
    if part.size <= max_bytes and part.samples <= max_samples:
        return [part]
    pieces = split_entries(part.body)
    if len(pieces) <= 1:
        return [part]
    last = _empty_like(part)
    last.made = part.made
    parts = [last]
    for entry, samples, exemplars in pieces:
        if last.size and (last.size + len(entry) > max_bytes or last.samples + samples > max_samples):
            last = _empty_like(part)
            parts.append(last)
        last.add(entry)
        last.samples += samples
        last.exemplars += exemplars
        last.metadata += entry.startswith(_METADATA)
    return parts


def _empty_like(part: Part) -> Part:
    empty = Part(part.tenant, part.pair)
    empty.replay = part.replay
    empty.batch = part.batch
    return empty


def _points(body: bytes, at: int, end: int) -> tuple[int, int]:
    """Samples, native histograms among them, and exemplars of one TimeSeries, as far as it can be read."""
    samples = 0
    exemplars = 0
    try:
        while at < end:
            key, _, at = read_field(body, at, end)
            if key in _UNITS:
                samples += 1
            elif key == _EXEMPLAR:
                exemplars += 1
    except MalformedSeriesError:
        pass
    return samples, exemplars
