"""A store as strict as a Prometheus TSDB, which keeps what it accepts exactly.

Of each series only something newer than its newest sample is taken. The newest sample once more, bit for bit, is
nothing new and fine; anything else at or before its time is out of order, and the request is answered 400 (head_append,
`appendable`). Whether the rest of that request is kept is the store's `refusal`.
"""

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import cramjam
from google.protobuf.message import DecodeError

from proto.prompb.remote_pb2 import WriteRequest

Series = tuple[tuple[str, str], ...]
"""A label set, sorted."""

PAIR = ("cluster", "__replica__")


class Key(NamedTuple):
    """Which sample it is, in one tenant's store."""

    series: Series
    at_ms: int


@dataclass(frozen=True, slots=True)
class Kept:
    """One sample as it is stored: the value's eight bytes, and when it came, on the clock of `time.monotonic`."""

    bits: bytes
    came_s: float


Refuses = Callable[[Mapping[str, str]], bool]


class Store:
    """What one tenant has. `faults` are what no proxy may ever send: it is empty, or the test has found something."""

    def __init__(self, refusal: Literal["partial", "whole"] = "partial") -> None:
        self.refusal = refusal
        self.kept: dict[Key, Kept] = {}
        self.faults: list[str] = []
        self.refuses: Refuses = _nothing
        self._newest: dict[Series, tuple[int, bytes]] = {}

    def write(self, body: bytes) -> str | None:
        """Take a request's body; None where all of it was fine, else why not, which is answered 400."""
        entries = list(self._entries(body))
        self._look_at(entries)
        newest, good, bad = self._newest.copy(), [], ""
        for series, at_ms, bits in entries:
            reason = self._reason(series, (at_ms, bits), newest.get(series))
            if reason:
                bad = bad or reason
            elif newest.get(series) != (at_ms, bits):
                newest[series] = (at_ms, bits)
                good.append((series, at_ms, bits))
        if bad and self.refusal == "whole":
            return bad
        now = time.monotonic()
        self._newest = newest
        for series, at_ms, bits in good:
            self.kept[Key(series, at_ms)] = Kept(bits, now)
        return bad or None

    def samples(self) -> dict[Key, bytes]:
        """Everything that is there, in the order in which it came."""
        return {key: kept.bits for key, kept in self.kept.copy().items()}

    def _reason(self, series: Series, sample: tuple[int, bytes], newest: tuple[int, bytes] | None) -> str:
        if self.refuses(dict(series)):
            return "label value too long for metric"
        if newest is None or sample[0] > newest[0] or sample == newest:
            return ""
        return "duplicate sample for timestamp" if sample[0] == newest[0] else "out of order sample"

    def _entries(self, body: bytes) -> Iterator[tuple[Series, int, bytes]]:
        try:
            request = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(body)))
        except (cramjam.DecompressionError, DecodeError) as error:
            self.faults.append(f"a body that is no write request: {error!r}")
            return
        for entry in request.timeseries:
            series = tuple((label.name.decode(), label.value.decode()) for label in entry.labels)
            if list(series) != sorted(dict(series).items()):
                self.faults.append(f"labels that are not sorted, or one twice: {series}")
            for sample in entry.samples:
                yield series, sample.timestamp, struct.pack("<d", sample.value)

    def _look_at(self, entries: list[tuple[Series, int, bytes]]) -> None:
        if not entries:
            self.faults.append("a request without samples")
        pairs = {tuple(value for name, value in series if name in PAIR) for series, _, _ in entries}
        if len(pairs) > 1:
            self.faults.append(f"one request with the pairs {sorted(pairs)}")


def samples_of(body: bytes) -> int:
    """How many samples a request's body bears."""
    request = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(body)))
    return sum(len(entry.samples) for entry in request.timeseries)


def _nothing(labels: Mapping[str, str]) -> bool:
    return False
