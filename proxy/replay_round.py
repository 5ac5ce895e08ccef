"""One round of replays: records of some segments, oldest first, a slice at a time.

A slice is loaded, decided in steps that give way to others, delivered, and settled when its parts are: delivered,
refused for good, or durable in their tenants' queues. One slice is in flight at a time. A tenant that could take its
parts in no way is paused for the rest of the round, and so are the records that it has to have; the others go on.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import structlog

from ownership import DeviceKey
from proxy.core.books import Books
from proxy.core.errors import ProxyError, StorageError
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Replay, Verdict
from proxy.core.walk import Place, Walk
from proxy.core.wire import Part
from proxy.disk.quarantine import Quarantine

SLICE: Final = 2000
"""Records delivered and settled together."""
SLICE_BYTES: Final = 1 << 20
STEP: Final = 100
"""Records decided in one go: some 10 ms."""
REST_SECONDS: Final = 0.01
"""Between two of them: live samples do not wait for a replay, which takes the other half of the time at most."""

HAD: Final = 1 << 16
"""Records of which some tenants have had their parts and others not; a round leaves a slice for each paused tenant."""

Deliver = Callable[[Sequence[Part]], Awaitable[Collection[str]]]
"""Sends parts and waits until each is settled.

Returns the tenants of which a part is neither delivered, nor refused for good, nor durable in a queue. Raises
ProxyError where that holds for all of them.
"""

Due = Mapping[int, AbstractSet[DeviceKey | None] | None]
"""The segments to read, and the devices whose records are to be looked at there, None for all."""

_log: Final = structlog.get_logger()


@dataclass(slots=True)
class Memory:
    """What outlives a round: which tenants have had their parts of records that still wait for others.

    It does not outlive the process: after a start they have them once more.
    """

    had: dict[QuarantineRecord, frozenset[str]] = field(default_factory=dict)

    def note(self, record: QuarantineRecord, tenants: frozenset[str]) -> None:
        """Note that these tenants have had a record, which waits for others."""
        if len(self.had) >= HAD:
            self.had.clear()
        self.had[record] = self.had.get(record, frozenset()) | tenants


@dataclass(slots=True)
class Totals:
    """What a round came to, in samples; `unsettled` are the tenants that could not take theirs."""

    released: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unsettled: set[str] = field(default_factory=set)

    def add(self, other: "Totals") -> None:
        """Count another round too."""
        self.released += other.released
        self.dropped.update(other.dropped)
        self.unsettled |= other.unsettled


class Round:
    """Made for one walk through `due`; `end` ends it after the slice in flight.

    `owed` is what has to be read again: all that was due where the round ended early, else what a paused tenant waits
    for, and what the walk left out. `fruitful` are the places in which something changed.
    """

    def __init__(self, quarantine: Quarantine, deliver: Deliver, books: Books, memory: Memory) -> None:
        self.totals = Totals()
        self.owed: dict[int, set[DeviceKey | None] | None] = {}
        self.fruitful: set[tuple[int, DeviceKey | None]] = set()
        self.ended = False
        self.left_out = False
        self._quarantine = quarantine
        self._deliver = deliver
        self._books = books
        self._memory = memory

    def end(self) -> None:
        """Deliver nothing that is not in flight yet."""
        self.ended = True

    async def run(self, due: Due, replay: Replay, paused: set[str], retried: AbstractSet[str]) -> None:
        """Walk through what is due. `paused` is what `replay` goes by, and grows.

        Where all of `retried` are paused again, the round has nothing more to do. Raises StorageError.
        """
        complete = False
        try:
            starts = await self._quarantine.segments()
            walk = Walk({seq: starts[seq] for seq in due if seq in starts})
            while not self.ended:
                while (seq := walk.next_segment()) is not None:
                    walk.open(seq, await self._quarantine.places(seq, due[seq]))
                places = walk.take(SLICE, SLICE_BYTES)
                if not places:
                    self.left_out = bool(walk.left_out)
                    self._owe_segments(walk.left_out, due)
                    complete = True
                    return
                await self._slice(places, replay, paused)
                await self._compact(walk.emptied())
                if retried and retried <= paused:
                    return
        finally:
            if not complete:
                self._owe_segments(due, due)
            await self._compact(None)

    async def _slice(self, places: Sequence[Place], replay: Replay, paused: set[str]) -> None:
        lot = await self._quarantine.load(places)
        parts: list[Part] = []
        judged: list[tuple[Place, Verdict]] = []
        for at in range(0, len(lot), STEP):
            some = lot[at : at + STEP]
            replayed = replay.take([record for _, record in some])
            parts += replayed.parts
            judged += zip((place for place, _ in some), replayed.verdicts, strict=True)
            await asyncio.sleep(REST_SECONDS if at + STEP < len(lot) else 0)
        if self.ended:  # the tenants may be other ones by now
            return
        unsettled = await self._send(parts)
        paused |= unsettled
        self.totals.unsettled |= unsettled
        await self._settle(judged, unsettled)

    async def _send(self, parts: Sequence[Part]) -> set[str]:
        if not parts:
            return set()
        try:
            return set(await self._deliver(parts))
        except ProxyError as error:
            _log.warning("replay not delivered", error=str(error))
            return {part.tenant for part in parts}

    async def _settle(self, judged: Iterable[tuple[Place, Verdict]], unsettled: set[str]) -> None:
        settled: list[tuple[Place, Verdict]] = []
        for place, verdict in judged:
            late = verdict.tenants & unsettled
            if late:
                self._memory.note(verdict.record, verdict.tenants - unsettled)
            if late or verdict.waits_for:
                self._owe(place.seq, verdict.key)
            elif verdict.changes:
                settled.append((place, verdict))
        if not settled:
            return
        effect = await self._quarantine.settle(settled)
        self.totals.released += effect.released
        self.totals.dropped.update(effect.dropped)
        for place, verdict in settled:
            self.fruitful.add((place.seq, verdict.key))
            self._memory.had.pop(verdict.record, None)
            for tenant, reason in verdict.lost:
                self._books.tenant(tenant).drop(reason, 1)

    async def _compact(self, segments: Sequence[int] | None) -> None:
        try:
            await self._quarantine.compact(segments)
        except StorageError as error:
            _log.warning("quarantine not compacted", error=str(error))

    def _owe(self, seq: int, key: DeviceKey | None) -> None:
        keys = self.owed.setdefault(seq, set())
        if keys is not None:
            keys.add(key)

    def _owe_segments(self, segments: Iterable[int], due: Due) -> None:
        for seq in segments:
            keys = due[seq]
            self.owed[seq] = None if keys is None else set(keys)
