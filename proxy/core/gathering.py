"""What one request brings together: parts for tenants, samples to hold back, and what its sender is told."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proxy.core.books import DUPLICATE, FILTERED, QUARANTINED, REJECTED, Books
from proxy.core.decisions import Decisions
from proxy.core.feed import Marker, goes_on, marker_entry
from proxy.core.route import UNOWNED
from proxy.core.timeseries import Point, framed
from proxy.core.wire import Fate, Output, Part, Slot

SENTENCES: Final = 10
"""Reasons told in one answer at most; senders log its first 1024 bytes."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a request is taken: `now_ms` since the epoch, `tick` in whole seconds of a clock that never steps back."""

    now_ms: int
    tick: int


@dataclass(frozen=True, slots=True)
class Held:
    """Samples of one series for the quarantine: `entry` is a framed entry with just these, labels as sent."""

    reason: str
    time_ms: int
    samples: int
    entry: bytes


class Addressed(NamedTuple):
    """A framed entry, and the tenant and (cluster, replica) pair that it is for."""

    tenant: str
    pair: Hashable
    entry: bytes


class Run(NamedTuple):
    """Points of one series, in order, that go the same way: to `outputs`, and into quarantine if `held` says why.

    `block` and `unknown` are the rest of the entry, as sent; `fates` are those of its samples.
    """

    block: bytes
    points: Sequence[Point]
    unknown: bytes
    outputs: tuple[Output, ...]
    held: str
    fates: Sequence[Fate]


@dataclass(slots=True)
class Taken:
    """What is to be done with a request.

    `refusals` are sentences for the sender, SENTENCES at most, on `refused` samples or parts that can never be stored;
    `metadata` are the metadata entries as they came. `endings` are the markers of our own making, which no sender sends
    again, and which are in the parts too; `collided` is what tenants did not get because they have another value.
    """

    parts: list[Part] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    endings: list[Addressed] = field(default_factory=list)
    collided: list[Addressed] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    metadata: list[bytes] = field(default_factory=list)
    refused: int = 0
    received: int = 0
    exemplars_dropped: int = 0
    fields_dropped: int = 0

    def refuse(self, sentence: str, count: int) -> None:
        """Note what the sender is told."""
        self.refused += count
        if len(self.refusals) < SENTENCES and sentence not in self.refusals:
            self.refusals.append(sentence)

    def add(self, other: "Taken") -> None:
        """Do what is to be done with another part of the request, after what is to be done already."""
        self.parts += other.parts
        self.held += other.held
        self.endings += other.endings
        self.collided += other.collided
        self.refusals += other.refusals[: SENTENCES - len(self.refusals)]
        self.refused += other.refused
        self.received += other.received
        self.exemplars_dropped += other.exemplars_dropped
        self.metadata += other.metadata
        self.fields_dropped += other.fields_dropped


class Gathering:
    """The request in hand. `number` tells slots apart from scan to scan."""

    def __init__(self, number: int, moment: Moment, books: Books) -> None:
        self.number = number
        self.moment = moment
        self.taken = Taken()
        self.touched: list[Slot] = []
        self._books = books
        self._markers: list[Marker] = []

    def send(self, run: Run) -> None:
        """Let a run go where it goes, and give its samples their fates."""
        for fate in run.fates:
            self.count(fate)
        self._emit(run.outputs, run)
        if run.held:
            self._hold(run)
        elif not run.outputs:
            self.taken.exemplars_dropped += len(run.points) - len(run.fates)

    def _emit(self, outputs: Sequence[Output], run: Run) -> bool:
        """Put a run into the slots of those outputs that lack it; whether there was any."""
        sent = False
        tail = b"".join(point.raw for point in run.points) + run.unknown
        for output in outputs:
            entry = framed(output.block, tail)
            if self._lacks(output.slot, entry):
                part = output.slot.open(self.number, self.touched)
                part.add(entry)
                part.samples += len(run.fates)
                part.exemplars += len(run.points) - len(run.fates)
                sent = True
        return sent

    def _hold(self, run: Run) -> None:
        """Keep the samples of a run for the quarantine; exemplars are left out and counted."""
        self.taken.exemplars_dropped += len(run.points) - len(run.fates)
        if run.fates:
            at_ms = next(point.time_ms for point in run.points if point.counts)
            self.taken.held.append(Held(run.held, at_ms, len(run.fates), held_entry(run)))

    def _lacks(self, slot: Slot, entry: bytes) -> bool:
        """Whether a tenant is to get an entry: always, unless the request is sent again."""
        del slot, entry
        return True

    def is_copy(self, block: bytes, tail: bytes, *, known: bool) -> bool:
        """Whether a point, `tail` of the series of `block`, is a copy; `known`: of a value that is there now."""
        if known:
            self.taken.collided.append(copy_of(framed(block, tail)))
        return known

    def collide(self, taken: tuple[Output, ...], tail: bytes) -> tuple[Output, ...]:
        """The outputs that do not get a point, which is `tail`, because they have another value of its time."""
        self.taken.collided += [
            Addressed(output.slot.tenant, output.slot.pair, framed(output.block, tail)) for output in taken
        ]
        return taken

    def count(self, fate: Fate, samples: int = 1) -> None:
        """Give samples their fate."""
        fate.samples += samples
        self.taken.received += samples

    def reject(self, reason: str, samples: int, sentence: str) -> None:
        """Give samples the fate `rejected`, and tell the sender."""
        self.count(self._books.fate(REJECTED, "", reason), samples)
        self.taken.refuse(sentence, max(samples, 1))

    def end_series(self, output: Output, at_ms: int) -> None:
        """End a series of a tenant that its sender does not know of: a part that we make ourselves."""
        self._add_ending(output.slot, marker_entry(output.block, at_ms))

    def _add_ending(self, slot: Slot, entry: bytes) -> None:
        if self._lacks(slot, entry):
            part = slot.open(self.number, self.touched)
            part.add(entry)
            part.samples += 1
            part.made += 1
            self.taken.endings.append(Addressed(slot.tenant, slot.pair, entry))

    def defer(self, marker: Marker) -> None:
        """Keep the place of a marker: whether its series goes on is known when all of the request has been read."""
        self.taken.received += 1
        for output in marker.outputs:
            part = output.slot.open(self.number, self.touched)
            marker.places.append(len(part.chunks))
            part.add(b"")
        self._markers.append(marker)

    def finish(self, decisions: Decisions) -> Taken:
        """Place the markers, and hand over what was gathered."""
        for marker in self._markers:
            sent = self._place(marker, decisions)
            fate = marker.fate if sent or not marker.outputs else self._books.fate(DUPLICATE)
            fate.samples += 1
        parts = [slot.take() for slot in self.touched]
        self.taken.parts = [part for part in parts if part.samples or part.exemplars]
        return self.taken

    def _place(self, marker: Marker, decisions: Decisions) -> bool:
        """Whether any output is ended; a raw view gets the marker as sent."""
        sent = False
        for output, place in zip(marker.outputs, marker.places, strict=True):
            at_ms = marker.point.time_ms if decisions.is_raw(output) else marker.at_ms
            known = decisions.outputs.get(output, output)  # a series of this request may have begun to feed it
            if decisions.is_gone(output) or goes_on(known, marker.entry, at_ms):
                continue
            made = at_ms != marker.point.time_ms
            tail = marker.point.raw + marker.unknown
            placed = marker_entry(output.block, at_ms) if made else framed(output.block, tail)
            if not self._lacks(output.slot, placed):
                continue
            part = output.slot.part
            part.chunks[place] = placed
            part.size += len(placed)
            part.samples += 1
            part.made += made
            if made:
                self.taken.endings.append(Addressed(output.slot.tenant, output.slot.pair, placed))
            sent = True
        return sent


def held_entry(run: Run) -> bytes:
    """The samples of a run as a framed entry for the quarantine."""
    return framed(run.block, b"".join(point.raw for point in run.points if point.counts) + run.unknown)


def copy_of(entry: bytes) -> Addressed:
    """How an inbound entry is noted that is a copy for all tenants."""
    return Addressed("", "copy", entry)


STALE_RULE: Final = "stale"


def stale_fate(books: Books) -> Fate:
    """The fate of a marker that ends nothing: neither quarantined nor refused (design 5)."""
    return books.fate(FILTERED, "", STALE_RULE)


def is_held_back(fate: Fate) -> bool:
    """Whether samples of this fate wait for an owner, or are refused or left out for lack of one."""
    return fate.kind in (QUARANTINED, REJECTED) or fate.detail == UNOWNED
