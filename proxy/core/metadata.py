"""Metadata of remote write 1.0, handed out by the names of families (design 6): best effort, and never queued.

An entry goes at once to every tenant that has its family, and is held for HELD_MS, in memory: a tenant that comes to
have the family meanwhile gets it then. Nobody else ever gets it. A newer entry of a family takes the place of the held
one; entries of one family that come together (exporters that do not agree) stay together.

Counted in `Books.metadata`, in entries: here `rejected`, what is no metadata, and `dropped`, once, what no tenant got
while it was held. What a tenant gets is counted by its lane, each copy where it ends: `delivered`, or `dropped`. What
is still held is in no count but `held`.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from proxy.core.books import Books
from proxy.core.errors import MalformedSeriesError, ProxyError
from proxy.core.families import Families
from proxy.core.fields import read_field, read_varint, varint
from proxy.core.wire import Part

HELD_MS: Final = 120_000
"""How long an entry waits for tenants: Prometheus sends it every minute, so the next one is there long before."""

HELD_ENTRIES: Final = 20_000
"""Held at most: what ten senders have of different families (Prometheus sends 2,000 of them at once)."""

HELD_BYTES: Final = 8 << 20
"""Likewise: 400 bytes an entry, four times what the usual help text takes."""

ENTRY_BYTES: Final = 64 << 10
"""Of an entry at most: stores take 1 KiB of help (Cortex' and Mimir's `max_metadata_length`), or cut it there."""

PART_ENTRIES: Final = 2_000
"""In a part at most: what Prometheus sends at once; stores count them as samples, against the tenant's rate."""

PART_BYTES: Final = 1 << 20
"""Likewise: compressed it is a fifth, well below what a proxy in front of a store takes (nginx: 1 MiB by default)."""

SLICE: Final = 500
"""Entries taken in one go: some milliseconds of work."""

_TYPES: Final = 8  # unknown, counter, gauge, histogram, gauge histogram, summary, info, state set
_TYPE, _FAMILY, _HELP, _UNIT = 1, 2, 4, 5
_FRAME, _VARINT, _BYTES = b"\x1a", 0, 2


class MetadataError(ProxyError):
    """The bytes are no metadata that may be passed on."""

    status = 400
    reason = "metadata"


@dataclass(frozen=True, slots=True)
class MetricMetadata:
    """One entry: `kind` is the number of the metric's type, the texts are as sent."""

    kind: int
    family: str
    help: bytes
    unit: bytes

    def framed(self) -> bytes:
        """The entry as a field of a request; it has nothing that 1.0 does not have."""
        body = b"".join(
            (
                b"\x08" + varint(self.kind) if self.kind else b"",
                _text(_FAMILY, self.family.encode()),
                _text(_HELP, self.help),
                _text(_UNIT, self.unit),
            )
        )
        return _FRAME + varint(len(body)) + body


def parse_metadata(raw: bytes) -> MetricMetadata:
    """Read a MetricMetadata message (prompb/types.proto); raises MetadataError.

    Unknown fields are left behind: VictoriaMetrics has the numbers of an account and a project there (11, 12), which
    would say whose it is. Of repeated fields the last counts.
    """
    if len(raw) > ENTRY_BYTES:
        raise MetadataError(f"an entry of {len(raw)} bytes, more than {ENTRY_BYTES}")
    kind = 0
    texts = {_FAMILY: b"", _HELP: b"", _UNIT: b""}
    at, end = 0, len(raw)
    try:
        while at < end:
            key, at, stop = read_field(raw, at, end)
            number = key >> 3
            if number == _TYPE:
                _check(key, _VARINT)
                kind, _ = read_varint(raw, at, stop)
            elif number in texts:
                _check(key, _BYTES)
                texts[number] = raw[at:stop]
            at = stop
        family = texts[_FAMILY].decode()
        texts[_HELP].decode()
        texts[_UNIT].decode()
    except (MalformedSeriesError, UnicodeDecodeError) as error:
        raise MetadataError(str(error)) from None
    if not family:
        raise MetadataError("an entry without the name of a family")
    if kind >= _TYPES:
        raise MetadataError(f"a metric of type {kind}, which 1.0 does not have")
    return MetricMetadata(kind, family, texts[_HELP], texts[_UNIT])


def _check(key: int, kind: int) -> None:
    if key & 7 != kind:
        raise MetadataError(f"field {key >> 3} of metadata has a wrong wire type")


def _text(number: int, value: bytes) -> bytes:
    return varint(number << 3 | _BYTES) + varint(len(value)) + value if value else b""


@dataclass(slots=True)
class _Held:
    """The entries of one family that came together, framed; `given` tells that a tenant got them."""

    arrived_ms: int
    entries: list[bytes] = field(default_factory=list)
    size: int = 0
    given: bool = False


class _Parts:
    """Parts in the making, for several tenants side by side."""

    def __init__(self) -> None:
        self.done: list[Part] = []
        self._open: dict[str, Part] = {}

    def give(self, tenant: str, held: _Held) -> None:
        """Put the entries of a family behind what the tenant gets."""
        held.given = True
        for entry in held.entries:
            part = self._open.get(tenant)
            if part is None or part.metadata == PART_ENTRIES or part.size + len(entry) > PART_BYTES:
                part = self._open[tenant] = Part(tenant, ())
                self.done.append(part)
            part.add(entry)
            part.metadata += 1


class Metadata:
    """Takes entries, and makes parts of them for tenants that have their families.

    `now_ms` is of a clock that never steps back, and the same one in all calls.
    """

    def __init__(self, families: Families, books: Books) -> None:
        self.held = 0
        self.held_bytes = 0
        self._families = families
        self._counts = books.metadata
        self._held: OrderedDict[str, _Held] = OrderedDict()  # by family, in order of arrival

    def take(self, entries: Sequence[bytes], now_ms: int) -> Iterator[list[Part]]:
        """What tenants get now: first what waited for those that have learnt a family, then what has come.

        To be called after each request, with its entries or without, and to be gone through to the end. It goes in
        steps, so that a caller can see to others between; the parts of a step are for those who are tenants when it is
        asked for, so they are to be sent before anything else happens.
        """
        self.expire(now_ms)
        yield self._learnt()
        for some in _slices(entries):
            yield self._hand_out(some, now_ms)

    def expire(self, now_ms: int) -> None:
        """Let go of what has waited for HELD_MS."""
        while self._held:
            family = next(iter(self._held))
            if self._held[family].arrived_ms + HELD_MS > now_ms:
                return
            self._let_go(family)

    def _learnt(self) -> list[Part]:
        parts = _Parts()
        for tenant, family in self._families.news():
            held = self._held.get(family)
            if held is not None and self._families.has(tenant, family):
                parts.give(tenant, held)
        return parts.done

    def _hand_out(self, entries: Sequence[bytes], now_ms: int) -> list[Part]:
        fresh: dict[str, _Held] = {}
        for raw in entries:
            try:
                read = parse_metadata(raw)
            except MetadataError:
                self._counts["rejected"] += 1
                continue
            entry = read.framed()
            held = fresh.get(read.family)
            if held is None:
                held = fresh[read.family] = _Held(now_ms)
            held.entries.append(entry)
            held.size += len(entry)
        parts = _Parts()
        places = {family: place for place, family in enumerate(fresh)}
        for tenant, families in self._families.among(fresh.keys()):
            for family in sorted(families, key=places.__getitem__):
                parts.give(tenant, fresh[family])
        for family, held in fresh.items():
            self._hold(family, held)
        return parts.done

    def _hold(self, family: str, held: _Held) -> None:
        if family in self._held:
            self._let_go(family)
        self._held[family] = held
        self.held += len(held.entries)
        self.held_bytes += held.size
        while self.held > HELD_ENTRIES or self.held_bytes > HELD_BYTES:
            self._let_go(next(iter(self._held)))

    def _let_go(self, family: str) -> None:
        held = self._held.pop(family)
        self.held -= len(held.entries)
        self.held_bytes -= held.size
        if not held.given:
            self._counts["dropped"] += len(held.entries)


def _slices(entries: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The entries, SLICE at a time, and no more bytes than a part may have; one at least."""
    first = size = 0
    for at, entry in enumerate(entries):
        size += len(entry)
        if at > first and (at - first == SLICE or size > PART_BYTES):
            yield entries[first:at]
            first, size = at, len(entry)
    if first < len(entries):
        yield entries[first:]
