"""What one segment of a queue holds, in sums; and of the oldest segment, in memory, the records that come next."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from proxy.core.books import TORN
from proxy.core.frames import RecordError, frame
from proxy.core.record import QueueRecord, queued_size
from proxy.disk.segments import SegmentLog


@dataclass(slots=True)
class Effect:
    """What was done to a queue: how many records and samples it has more, or less, and what was dropped by reason.

    `taken` are the records that are taken since; None where nothing was.
    """

    records: int = 0
    samples: int = 0
    taken: tuple[QueueRecord, ...] | None = None
    dropped_records: Counter[str] = field(default_factory=Counter)
    dropped_samples: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, records: int, samples: int) -> None:
        """There are so many less."""
        self.records -= records
        self.samples -= samples
        self.dropped_records[reason] += max(records, 0)
        self.dropped_samples[reason] += max(samples, 0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that was read from its segment, and is not decoded yet; `end` is the offset behind its frame."""

    payload: bytes
    end: int
    received_ms: int
    samples: int

    @classmethod
    def of(cls, payload: bytes, end: int) -> Self | None:
        """None where the payload is no record that this version reads."""
        try:
            received_ms, samples = queued_size(payload)
        except RecordError:
            return None
        return cls(payload, end, received_ms, samples)

    def decoded(self) -> QueueRecord | None:
        """None where its entries cannot be read."""
        try:
            return QueueRecord.decode(self.payload)
        except RecordError:
            return None


@dataclass(slots=True)
class Contents:
    """A segment: the sums of its records that are not done, and three offsets, each between two records.

    Up to `done` all is done. Up to `resume` all is done, taken, or dropped. Up to `loaded_to` all was read, and what of
    it is behind `resume` stands in `loaded`, the next one last.
    """

    seq: int
    first_ms: int
    newest_ms: int
    records: int = 0
    samples: int = 0
    done: int = 0
    resume: int = 0
    loaded_to: int = 0
    loaded: list[Waiting] = field(default_factory=list)
    damaged: bool = False  # found when it was read, and told

    @property
    def oldest_ms(self) -> int:
        """When the first that is not done, taken or dropped was received, or one before it."""
        return self.loaded[-1].received_ms if self.loaded else self.first_ms

    def add(self, received_ms: int, samples: int) -> None:
        """There is one record more."""
        self.newest_ms = max(self.newest_ms, received_ms)
        self.records += 1
        self.samples += samples

    def remove(self, records: int, samples: int) -> None:
        """There are so many less."""
        self.records -= records
        self.samples -= samples

    def pop(self) -> Waiting:
        """The next of what is loaded, which now is next no more."""
        waiting = self.loaded.pop()
        self.resume = waiting.end
        self.first_ms = waiting.received_ms
        return waiting

    def skip_to(self, offset: int) -> None:
        """All before the offset is done, taken or dropped; nothing is loaded."""
        self.resume = self.loaded_to = offset
        self.loaded = []

    def unload(self) -> None:
        """Hold nothing in memory, unless reading it again would tell its damage again."""
        if not self.damaged:
            self.skip_to(self.resume)

    def load(self, log: SegmentLog, taken: Sequence[QueueRecord], effect: Effect) -> bytes:
        """Read what follows what was loaded; these are the bytes of it that are no record.

        What was counted, is not `taken`, and does not come back is lost.
        """
        rest = log.read_from(self.seq, self.loaded_to)
        unread: list[bytes] = [rest.damaged]
        for end, payload in rest.records:
            waiting = Waiting.of(payload, end)
            if waiting is None:
                unread.append(frame(payload))
            else:
                self.loaded.append(waiting)
        self.loaded.reverse()
        self.loaded_to = log.sizes[self.seq]
        lost_records = self.records - len(taken) - len(self.loaded)
        known_samples = sum(record.samples for record in taken) + sum(waiting.samples for waiting in self.loaded)
        lost_samples = self.samples - known_samples
        if lost_records or lost_samples:
            self.remove(lost_records, lost_samples)
            effect.drop(TORN, lost_records, lost_samples)
        damage = b"".join(unread)
        self.damaged = self.damaged or bool(damage)
        return damage

    def peek(self, log: SegmentLog) -> Iterator[QueueRecord]:
        """The records that are not done, taken or dropped, as far as they can be read; nothing stays in memory."""
        rest = log.read_from(self.seq, self.loaded_to) if self.loaded_to < log.sizes[self.seq] else None
        behind = [] if rest is None else [Waiting.of(payload, end) for end, payload in rest.records]
        for waiting in [*reversed(self.loaded), *behind]:
            record = None if waiting is None else waiting.decoded()
            if record is not None:
                yield record
