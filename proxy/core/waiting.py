"""What waits in a segment of the quarantine: how much for which reason, for which devices, and from when to when.

By this it is told, without reading a segment, whether ownership or configuration may have answered anything of it.
Samples of a shared device are not among it: they wait to be split, which no owner and no mapping changes.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ownership import DeviceKey, Fleet, Holding, device_key
from proxy.core.errors import SeriesError
from proxy.core.fields import read_field
from proxy.core.record import QuarantineRecord
from proxy.core.route import SHARED
from proxy.core.tenancy import Tenancy
from proxy.core.timeseries import Series, parse_series

KEYS: Final = 4096
"""Devices noted for a segment; a cluster of 2,000 GPUs fills one with a third of a scrape. A segment with more is read
from time to time to see whether anything of it is answered."""

_BLOCKS: Final = 1 << 15
_PLAIN_SAMPLE: Final = b"\x12\x10\x09"
_PLAIN_BYTES: Final = 18
_ENTRY: Final = 0x0A

_Times = tuple[int, int]


class Span(NamedTuple):
    """Samples of one device that wait: their times are within [from_ms, to_ms). `key` is None for unreadable ones."""

    key: DeviceKey | None
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class Contents:
    """What one segment holds. `first_ms` and `newest_ms` tell when its first and its newest record were received.

    `from_ms` is the time of the earliest sample; `crowded` tells that `spans` leaves devices out.
    """

    first_ms: int
    newest_ms: int
    records: int = 0
    samples: Counter[str] = field(default_factory=Counter)
    spans: dict[DeviceKey | None, _Times] = field(default_factory=dict)
    from_ms: int = (1 << 63) - 1
    crowded: bool = False

    def add(self, record: QuarantineRecord, span: Span) -> None:
        """Note a record more."""
        self.newest_ms = max(self.newest_ms, record.received_ms)
        self.records += 1
        self.samples[record.reason] += record.samples
        if record.reason == SHARED:
            return
        self.from_ms = min(self.from_ms, span.from_ms)
        known = self.spans.get(span.key)
        if known is not None:
            self.spans[span.key] = min(known[0], span.from_ms), max(known[1], span.to_ms)
        elif len(self.spans) < KEYS:
            self.spans[span.key] = span.from_ms, span.to_ms
        else:
            self.crowded = True


class Spans:
    """Tells which device a record is about, and of which times; remembers label blocks, which come again and again."""

    def __init__(self) -> None:
        self._keys: dict[bytes, DeviceKey | None] = {}

    def of(self, record: QuarantineRecord) -> Span:
        """The device and the times of a record."""
        entry = record.entry
        is_plain = entry[-_PLAIN_BYTES:].startswith(_PLAIN_SAMPLE)
        if is_plain:
            block = entry[:-_PLAIN_BYTES]
            if block in self._keys:
                return Span(self._keys[block], record.sample_ms, record.sample_ms + 1)
        series = read_entry(entry)
        if series is None or not series.points:
            return Span(None, record.sample_ms, record.sample_ms + 1)
        key = _device(series)
        if is_plain and entry.endswith(series.block, 0, -_PLAIN_BYTES):
            if len(self._keys) >= _BLOCKS:
                self._keys.clear()
            self._keys[entry[:-_PLAIN_BYTES]] = key
        times = [point.time_ms for point in series.points]
        return Span(key, min(times), max(times) + 1)


def read_entry(entry: bytes) -> Series | None:
    """The series of a framed entry; None where it is no whole entry."""
    try:
        tag, at, end = read_field(entry, 0, len(entry))
        return parse_series(entry, at, end) if tag == _ENTRY and end == len(entry) else None
    except SeriesError:
        return None


def answered(span: Span, tenancy: Tenancy, fleet: Fleet) -> tuple[_Times, ...]:
    """The times [from, to) of a span whose samples may leave the quarantine by now.

    Outside of them `route.decide` holds back every sample of the device, whatever its other labels are. Where rules
    decide, or a tenant would have to be made, a time is among them.
    """
    key, from_ms, to_ms = span
    if key is None or not tenancy.ownership:
        return ((from_ms, to_ms),)
    divided = bool(fleet.instances(key.uuid)) and key.gpu_instance_id == ""
    unknown_too = tenancy.unowned.fate != "quarantine" and not divided
    found: list[_Times] = []
    known_until = from_ms
    for holding in fleet.holdings(key, from_ms, to_ms):
        begin, end = max(from_ms, holding.valid_from_ms), min(to_ms, holding.valid_to_ms)
        if unknown_too and known_until < begin:
            found.append((known_until, begin))
        if _is_answer(holding, tenancy):
            found.append((begin, end))
        known_until = end
    if unknown_too and known_until < to_ms:
        found.append((known_until, to_ms))
    return tuple(found)


def _is_answer(holding: Holding, tenancy: Tenancy) -> bool:
    owners = holding.interval.owners
    if holding.device.sharing != "exclusive" or len(owners) > 1:
        return False
    if not owners or tenancy.unowned.fate != "quarantine":
        return True
    namespace = owners[0].namespace
    if not namespace:
        return False
    any_view = bool(tenancy.joined or tenancy.raw)
    return any_view or tenancy.dynamic is not None or tenancy.known_tenant(namespace) is not None


def _device(series: Series) -> DeviceKey | None:
    """The device of a series; of a label that comes twice the first counts, but such a series is refused anyway."""
    try:
        labels = dict(series.text_labels())
    except SeriesError:
        return None
    return device_key(lambda name: labels.get(name, ""))
