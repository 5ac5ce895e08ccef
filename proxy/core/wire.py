"""Remote write 1.0 as bytes: find the series of a request, recognise them, put new labels on, frame them again.

One call per request, never one per field. Nothing here builds a protobuf object: a series entry is a *label block* (its
label fields, as bytes) followed by its points, and points go out as the bytes they came in.

- `fields.frames` checks the top level of a request and tells where its entries lie.
- `scan` walks the entries. An entry whose label block is known, which bears one plain sample, and whose decision is
  good at the time of that sample, is copied into the slots of its outputs at once. Every other entry goes to
  `SeriesCache.resolver`, which may take its time (`timeseries.parse_series` reads it whole).
- The guess that makes it fast: series come in the order in which they came last time, so `Entry.next` is compared
  first. It is sound: protobuf reads left to right, so an entry that begins with a block which a full parse has
  verified, and whose rest is exactly one sample field, has exactly these labels.

This module is plain Python and is compiled with the types of `wire.pxd` where a C compiler is found; both give the same
answers. `scan` is long on purpose: a call for each series would cost as much as all that it does.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final

from proxy.core.fields import frame

COMPILED: Final = not __file__.endswith(".py")

ALWAYS_FROM: Final = -(1 << 62)
ALWAYS_TO: Final = 1 << 62
"""A window without ends; far outside every time in milliseconds that a fast entry can bear."""

_NEVER_A_BLOCK: Final = b"\x00"
_NAME_LABEL: Final = b"\x0a\x08__name__\x12"
# Aliases that Cython does not read as types, so that wire.pxd alone types the compiled twin.
_int = int
_bool = bool
_Offsets = list[int]
_Slots = list["Slot"]


class Fate:
    """What became of samples, and of how many: one line of the books."""

    __slots__ = ("detail", "kind", "samples", "tenant")

    def __init__(self, kind: str, tenant: str, detail: str) -> None:
        self.kind = kind
        self.tenant = tenant
        self.detail = detail
        self.samples = 0


class Part:
    """What one request brings to one tenant under one (cluster, replica) pair: framed entries, and how many units.

    `chunks` are pieces of the entries in order, `size` their bytes; they are joined once, when they are sent. `made` of
    the `samples` are markers that we made ourselves; exemplars are not among them. `replay` tells that they come from
    the quarantine, `metadata` how many metadata entries there are instead of series. `batch` is whoever delivers it
    to tell that it has been settled.
    """

    __slots__ = ("batch", "chunks", "exemplars", "made", "metadata", "pair", "replay", "samples", "size", "tenant")

    def __init__(self, tenant: str, pair: Hashable) -> None:
        self.tenant = tenant
        self.pair = pair
        self.chunks: list[bytes] = []
        self.size = 0
        self.samples = 0
        self.made = 0
        self.exemplars = 0
        self.metadata = 0
        self.replay = False
        self.batch: Any = None

    def add(self, entry: bytes) -> None:
        """Put a framed entry, or a piece of one, behind the others."""
        self.chunks.append(entry)
        self.size += len(entry)

    @property
    def body(self) -> bytes:
        """The entries in one piece."""
        return b"".join(self.chunks)


class Slot:
    """Where the part for one tenant and one (cluster, replica) pair gathers while a request is scanned."""

    __slots__ = ("pair", "part", "scan", "tenant")

    def __init__(self, tenant: str, pair: Hashable) -> None:
        self.tenant = tenant
        self.pair = pair
        self.scan = 0
        self.part = Part(tenant, pair)

    def open(self, number: _int, touched: _Slots) -> Part:
        """The part of scan `number`, begun now if it has not been."""
        if self.scan != number:
            self.scan = number
            self.part = Part(self.tenant, self.pair)
            touched.append(self)
        return self.part

    def take(self) -> Part:
        """The part, which is let go of."""
        part = self.part
        self.part = _NO_PART
        return part


_NO_PART: Final = Part("", ())


class Output:
    """A series as one tenant gets it: its slot, its label block, and the inbound entries that feed it.

    A framed entry with one sample is `first`, `second` and the sample. With a `rest` (what the series of one device
    have in common, one object for all of them, and most of a block) that is the frame with the lead, and the rest;
    without one it is the frame, and the whole block, which may be the inbound entry's. `skip` is the frame's size.
    """

    __slots__ = ("feeders", "first", "second", "skip", "slot")

    def __init__(self, slot: Slot, lead: bytes, rest: bytes = b"") -> None:
        head = frame(len(lead) + len(rest) + 18)
        self.slot = slot
        self.first = head + lead if rest else head
        self.second = rest or lead
        self.skip = len(head)
        self.feeders: tuple[Entry, ...] = ()

    @property
    def block(self) -> bytes:
        """The label block in one piece."""
        return self.first[self.skip :] + self.second

    def __hash__(self) -> _int:
        """Equal outputs are one series of one tenant, wherever its block is cut."""
        return hash(self.block)

    def __eq__(self, other: object) -> _bool:
        """Two outputs are one where slot and label block agree."""
        return isinstance(other, Output) and self.slot is other.slot and self.block == other.block


class Epoch:
    """What a decision was made under: it is void when `generation` moves on, or from `until_ms` on."""

    __slots__ = ("generation", "until_ms")

    def __init__(self, generation: _int, until_ms: _int) -> None:
        self.generation = generation
        self.until_ms = until_ms


class Entry:
    """One inbound label block and the newest decision for it.

    `fast` says that `scan` may use the decision by itself. `from_ms` (inclusive) and `to_ms` (exclusive) bound the
    sample times that it holds for. `last_ms` is the newest sample time that the outputs were fed with, `ended` tells
    that a stale marker came after it. `owner` identifies the owner that the outputs bear. `cost` is what the entry
    takes of the budget, in bytes, and `home` the cache that it lies in.
    """

    __slots__ = (
        "cost",
        "device",
        "ended",
        "epoch",
        "fast",
        "fate",
        "from_ms",
        "generation",
        "home",
        "last_ms",
        "lead",
        "length",
        "next",
        "outputs",
        "owner",
        "rest",
        "to_ms",
        "used",
    )

    def __init__(self, block: bytes, epoch: Epoch, fate: Fate) -> None:
        self.lead = block
        self.rest = b""
        self.length = len(block)
        self.epoch = epoch
        self.fate = fate
        self.outputs: tuple[Output, ...] = ()
        self.generation = -1
        self.from_ms = ALWAYS_TO
        self.to_ms = ALWAYS_FROM
        self.last_ms = ALWAYS_FROM
        self.fast = False
        self.device = False
        self.ended = False
        self.used = 0
        self.cost = 0
        self.home: SeriesCache | None = None
        self.owner: object = None
        self.next: Entry | None = None

    @property
    def block(self) -> bytes:
        """The label block in one piece."""
        return self.lead + self.rest

    def cut(self) -> _int:
        """Where the block is best cut: behind the metric's name, after which the series of one device are alike.

        Any place will do, since both pieces are compared; a name inside of a value only makes a worse one.
        """
        at = self.lead.find(_NAME_LABEL)
        value_at = at + len(_NAME_LABEL) + 1
        return value_at + self.lead[value_at - 1] if at >= 0 and value_at < len(self.lead) else len(self.lead)

    def split(self, at: _int, one: Callable[[bytes], bytes]) -> None:
        """Keep the block in two pieces, the second as the object that `one` says."""
        rest = self.rest
        block = self.lead + rest
        self.lead = block[:at]
        self.rest = one(block[at:])

    def forget(self) -> None:
        """Make an evicted entry match nothing and hold nothing, whoever still points at it."""
        self.lead = _NEVER_A_BLOCK
        self.rest = b""
        self.fast = False
        self.outputs = ()
        self.home = None
        self.next = None


Resolver = Callable[[bytes, int, int, int, list[Slot]], Entry | None]


class SeriesCache:
    """The entries known for one kind of sender, and the order in which they came last time.

    `entries` holds them by the hash of their label block, because a key that held the block itself would double what a
    series takes. The hash is keyed anew in each process; a block that has the hash of another is not held.
    """

    __slots__ = ("entries", "fast_samples", "head", "resolver")

    def __init__(self, resolver: Resolver) -> None:
        self.entries: dict[int, Entry] = {}
        self.resolver = resolver
        self.head = Entry(_NEVER_A_BLOCK, Epoch(0, 0), Fate("", "", ""))
        self.fast_samples = 0

    def find(self, block: bytes) -> Entry | None:
        """The entry of a label block."""
        known: Entry | None = self.entries.get(hash(block))
        if known is None or known.length != len(block) or known.lead + known.rest != block:
            return None
        return known

    def add(self, entry: Entry) -> _bool:
        """Hold an entry; whether it is held."""
        key = hash(entry.lead + entry.rest)
        if self.entries.get(key) is not None:
            return False
        self.entries[key] = entry
        return True

    def remove(self, entry: Entry) -> None:
        """Hold an entry no more."""
        del self.entries[hash(entry.lead + entry.rest)]

    def __del__(self) -> None:
        """Take the chain of entries apart: compiled, each link would free the next one a call deeper."""
        self.head.next = None
        for entry in self.entries.values():
            entry.next = None


def _timestamp(body: bytes, at: _int) -> _int:
    """The six-byte varint at `at` (times from 1971 to 2109 in ms), or -1 where it has another length."""
    value = 0
    for i in range(6):
        byte = body[at + i]
        if (byte < 0x80) != (i == 5):
            return -1
        value |= (byte & 0x7F) << (7 * i)
    return value


def _tail_of(body: bytes, start: _int, end: _int) -> _int:
    """Where the label block ends if the entry ends with one plain sample, else `start`."""
    if end - start > 18 and body[end - 18] == 0x12 and body[end - 17] == 0x10 and body[end - 16] == 0x09:
        return end - 18
    if end - start > 9 and body[end - 9] == 0x12 and body[end - 8] == 0x07 and body[end - 7] == 0x10:
        return end - 9
    return start


def scan(body: bytes, bounds: _Offsets, cache: SeriesCache, number: _int, tick: _int) -> _Slots:
    """Copy each series of a request into the slots of its outputs; the slots that have any, in order of first use.

    `number` is new for each scan (never 0), `tick` a clock in whole seconds that tells how long an entry lies unused.
    A sample of 18 bytes bears a value, one of 9 bytes bears none, which means 0.0 (proto3 leaves zeros out).
    """
    touched: list[Slot] = []
    entry = cache.head
    stamp = b""
    at_ms = -1
    fast_samples = 0
    tail = 0
    for i in range(0, len(bounds), 2):
        start = bounds[i]
        end = bounds[i + 1]
        known = entry.next
        if known is not None:
            tail = start + known.length
            if (
                tail >= end
                or not body.startswith(known.lead, start)
                or not body.startswith(known.rest, start + len(known.lead))
            ):
                known = None
        if known is None:
            tail = _tail_of(body, start, end)
            if tail > start:
                known = cache.find(body[start:tail])
                if known is not None:
                    entry.next = known
        if known is not None and known.fast:
            size = end - tail
            time_at = 0
            if size == 18:
                if (
                    body[tail] == 0x12
                    and body[tail + 1] == 0x10
                    and body[tail + 2] == 0x09
                    and body[tail + 11] == 0x10
                    and not (known.device and body[tail + 10] == 0x7F)
                ):
                    time_at = tail + 12
            elif size == 9 and body[tail] == 0x12 and body[tail + 1] == 0x07 and body[tail + 2] == 0x10:
                time_at = tail + 3
            if time_at:
                if at_ms < 0 or not body.startswith(stamp, time_at):
                    at_ms = _timestamp(body, time_at)
                    stamp = body[time_at:end]
                if (
                    at_ms >= 0
                    and known.from_ms <= at_ms < known.to_ms
                    and at_ms < known.epoch.until_ms
                    and known.generation == known.epoch.generation
                ):
                    known.used = tick
                    known.fate.samples += 1
                    fast_samples += 1
                    if at_ms > known.last_ms:
                        known.last_ms = at_ms
                    if known.outputs:
                        point = body[tail:end]
                        for output in known.outputs:
                            slot = output.slot
                            part = slot.part if slot.scan == number else slot.open(number, touched)
                            chunks = part.chunks
                            head = output.first
                            if size != 18:
                                length = len(head) - output.skip + len(output.second) + size
                                head = frame(length) + head[output.skip :]
                            chunks.append(head)
                            chunks.append(output.second)
                            chunks.append(point)
                            part.size += len(head) + len(output.second) + size
                            part.samples += 1
                    entry = known
                    continue
        known = cache.resolver(body, start, end, number, touched)
        if known is not None:
            entry.next = known
            entry = known
    cache.fast_samples = fast_samples
    return touched
