"""The files of the quarantine and what is known of them; all of it belongs to one thread.

Records are taken out in two steps. `settle` says that a record has gone, or what is left of it, and the counts say so
from then on; `compact` rewrites the segment without it. A process that is killed between the two has the record again
at its next start. Places of records in a segment are good until it is compacted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from ownership import DeviceKey
from proxy.core.books import TORN
from proxy.core.errors import ProxyError, StorageError
from proxy.core.frames import frame
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Verdict
from proxy.core.retention import Extent, Held, Keep, mergeable, surplus
from proxy.core.route import SHARED
from proxy.core.waiting import Contents, Span, Spans
from proxy.core.walk import Place
from proxy.disk.segments import SegmentLog

_log: Final = structlog.get_logger()

_SUFFIX: Final = ".q"


class Waiting(NamedTuple):
    """A device of which samples wait in a segment; `span` is None for a segment that has more than are noted."""

    seq: int
    span: Span | None


@dataclass(slots=True)
class Writing:
    """The records of one append, which become durable or fail together."""

    records: Sequence[QuarantineRecord]
    frames: bytes = b""
    error: ProxyError | None = None


@dataclass(slots=True)
class Effect:
    """What was done to the counts."""

    waiting: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    released: int = 0


class QuarantineLog:
    """Segments of records in a folder. `clock` tells milliseconds since the epoch."""

    def __init__(self, folder: Path, keep: Keep, clock: Callable[[], int]) -> None:
        """Raises OSError."""
        self.keep = keep
        self._clock = clock
        self._spans = Spans()
        self._contents: dict[int, Contents] = {}
        self._gone: dict[int, dict[int, bytes]] = {}  # by segment and offset: the frames of what is left of a record
        self._segments = SegmentLog(folder, _SUFFIX, self._take)

    @property
    def torn_bytes(self) -> int:
        """Bytes that were no whole record when the log was opened, moved aside."""
        return self._segments.torn_bytes

    def waiting(self) -> Counter[str]:
        """Samples that wait, per reason."""
        return sum((held.samples for held in self._contents.values()), Counter())

    def segments(self) -> dict[int, int]:
        """The segments, and when the earliest sample of each was taken."""
        return {seq: held.from_ms for seq, held in self._contents.items()}

    def waits(self, keys: AbstractSet[DeviceKey] | None) -> list[Waiting]:
        """What waits of these devices, or of all, by segment."""
        found: list[Waiting] = []
        for seq, held in self._contents.items():
            asked = held.spans.keys() if keys is None else held.spans.keys() & keys
            found += [Waiting(seq, Span(key, *held.spans[key])) for key in asked]
            if held.crowded:
                found.append(Waiting(seq, None))
        return found

    def places(self, seq: int, keys: AbstractSet[DeviceKey | None] | None, *, shared: bool) -> list[Place]:
        """Where the records of a segment lie, those of `keys` only or all, with or without those of shared devices.

        Nowhere, if the segment is gone by now. Raises OSError.
        """
        if seq not in self._contents:
            return []
        gone = self._gone.get(seq, {})
        found = self._segments.scan(seq)
        out: list[Place] = []
        for (begin, payload), end in zip(found.records, found.ends, strict=True):
            if begin in gone:
                continue
            record = QuarantineRecord.decode(payload)
            if (shared or record.reason != SHARED) and (keys is None or self._spans.of(record).key in keys):
                out.append(Place(record.sample_ms, seq, begin, end))
        return out

    def load(self, places: Sequence[Place]) -> list[tuple[Place, QuarantineRecord]]:
        """The records that lie there, in this order, as far as they still do. Raises OSError."""
        by_segment: dict[int, list[Place]] = {}
        for place in places:
            if place.seq in self._contents:
                by_segment.setdefault(place.seq, []).append(place)
        found: dict[Place, bytes] = {}
        for seq, some in by_segment.items():
            found.update(self._read(seq, some))
        read = [(place, found.get(place)) for place in places]
        return [(place, QuarantineRecord.decode(payload)) for place, payload in read if payload is not None]

    def settle(self, settled: Sequence[tuple[Place, Verdict]], effect: Effect) -> None:
        """Let verdicts come true, but for records that went away meanwhile."""
        for place, verdict in settled:
            held, gone = self._contents.get(place.seq), self._gone.setdefault(place.seq, {})
            if held is None or place.begin in gone:
                continue
            gone[place.begin] = b"".join([frame(record.encode()) for record in verdict.kept])
            moved = Counter[str]()
            moved.subtract({verdict.record.reason: verdict.record.samples})
            for record in verdict.kept:
                moved[record.reason] += record.samples
            held.samples.update(moved)
            held.records += len(verdict.kept) - 1
            effect.waiting.update(moved)
            effect.released += verdict.released
            effect.dropped.update(dict(verdict.dropped))

    def unsettled(self) -> list[int]:
        """The segments that hold records on the disk which have gone."""
        return [seq for seq in self._gone if seq in self._contents]

    def compact(self, seq: int, effect: Effect) -> None:
        """Rewrite a segment without what has gone. Raises OSError, after which it stays as it is."""
        if not self._gone.get(seq) or seq not in self._contents:
            return
        if not self._contents[seq].records:
            self._segments.drop(seq)
            self._forget(seq)
            return
        gone = self._gone[seq]
        left = [gone.get(begin, frame(payload)) for begin, payload in self._read_for_good(seq)]
        self._segments.rewrite(seq, b"".join(left))
        self._recount(seq, self._segments.read(seq), effect)

    def merge(self, moved: dict[int, int], effect: Effect) -> None:
        """Make one segment of neighbours that replays have left small; `moved` gets where what they held lies by now.

        Raises OSError. After a crash in the middle some records are there twice.
        """
        extents = [
            Extent(seq, self._segments.sizes[seq], held.first_ms, held.newest_ms)
            for seq, held in self._contents.items()
            if seq != self._segments.current and not self._gone.get(seq)
        ]
        for first, *others in mergeable(extents, self.keep):
            payloads = [payload for seq in (first, *others) for _, payload in self._read_for_good(seq)]
            self._segments.rewrite(first, b"".join(map(frame, payloads)))
            held = self._contents[first].samples
            for seq in others:
                self._segments.drop(seq)
                held.update(self._forget(seq))
                moved[seq] = first
            self._recount(first, payloads, effect)

    def close(self) -> None:
        """Write no more."""
        self._segments.roll()

    def commit(self, group: Sequence[Writing]) -> Effect:
        """Write what was appended, with as few syncs as can be; what fails has its error."""
        effect = Effect()
        for writing in group:
            _encode(writing)
        ready = [writing for writing in group if writing.error is None]
        try:
            for run in self._runs(ready, effect):
                self._write(run, effect)
        except OSError as error:
            _log.error("quarantine not written", error=str(error))
            for writing in ready:
                if writing.frames:
                    writing.error = StorageError(f"the quarantine cannot be written: {error}")
        return effect

    def trim(self, effect: Effect) -> None:
        """Drop what has become too old. Raises OSError."""
        self._make_room(0, effect)

    def _read(self, seq: int, places: Sequence[Place]) -> dict[Place, bytes]:
        payloads = self._segments.read_at(seq, [(place.begin, place.end) for place in places])
        if len(payloads) == len(places):
            return dict(zip(places, payloads, strict=True))
        apart = [(place, self._segments.read_at(seq, [(place.begin, place.end)])) for place in places]
        return {place: found[0] for place, found in apart if found}  # the disk has lost some since they were scanned

    def _take(self, seq: int, payload: bytes) -> None:
        self._note(seq, QuarantineRecord.decode(payload))

    def _note(self, seq: int, record: QuarantineRecord) -> None:
        if seq not in self._contents:
            self._contents[seq] = Contents(record.received_ms, record.received_ms)
        self._contents[seq].add(record, self._spans.of(record))

    def _read_for_good(self, seq: int) -> Sequence[tuple[int, bytes]]:
        """The records of a segment that is rewritten; what is none, and there was no room for at the start, is kept."""
        found = self._segments.scan(seq)
        if found.damage or found.torn_at is not None:
            self._segments.set_aside(seq, self._segments.read_from(seq, 0).damaged)
        return found.records

    def _recount(self, seq: int, payloads: Sequence[bytes], effect: Effect) -> None:
        """Note what a segment holds, in its place among the others; what the disk has lost of it since is `torn`."""
        self._gone.pop(seq, None)
        missing = Counter(self._contents[seq].samples)
        self._contents[seq] = _none_yet(payloads[0] if payloads else None)
        for payload in payloads:
            self._take(seq, payload)
        missing.subtract(self._contents[seq].samples)
        effect.waiting.subtract(missing)
        if missing.total():
            effect.dropped[TORN] += missing.total()

    def _forget(self, seq: int) -> Counter[str]:
        self._gone.pop(seq, None)
        return self._contents.pop(seq).samples

    def _runs(self, writings: Sequence[Writing], effect: Effect) -> Iterator[list[Writing]]:
        """The appends in order, cut so that each run goes into one segment; none is cut itself."""
        run: list[Writing] = []
        for writing in writings:
            if len(writing.frames) > self.keep.bytes:
                effect.dropped["full"] += sum(record.samples for record in writing.records)
                writing.frames = b""
                continue
            run.append(writing)
            if self._current_bytes() + sum(len(each.frames) for each in run) >= self.keep.segment_bytes:
                yield run
                run = []
        if run:
            yield run

    def _write(self, run: Sequence[Writing], effect: Effect) -> None:
        frames = b"".join([writing.frames for writing in run])
        self._make_room(len(frames), effect)
        seq = self._segments.append(frames)
        for writing in run:
            writing.frames = b""
            for record in writing.records:
                self._note(seq, record)
                effect.waiting[record.reason] += record.samples

    def _current_bytes(self) -> int:
        current = self._segments.current
        return 0 if current is None else self._segments.sizes[current]

    def _make_room(self, incoming_bytes: int, effect: Effect) -> None:
        now_ms = self._clock()
        current = self._segments.current
        if current is not None and (
            self._segments.sizes[current] >= self.keep.segment_bytes
            or now_ms - self._contents[current].first_ms >= self.keep.segment_ms
        ):
            self._segments.roll()
        held = [Held(seq, size, self._contents[seq].newest_ms) for seq, size in self._segments.sizes.items()]
        for seq, reason in surplus(held, self.keep, now_ms, incoming_bytes):
            self._segments.drop(seq)
            gone = self._forget(seq)
            effect.waiting.subtract(gone)
            effect.dropped[reason] += gone.total()
            _log.warning("quarantine dropped samples", reason=reason, samples=gone.total())


def _none_yet(payload: bytes | None) -> Contents:
    received_ms = 0 if payload is None else QuarantineRecord.decode(payload).received_ms
    return Contents(received_ms, received_ms)


def _encode(writing: Writing) -> None:
    try:
        writing.frames = b"".join([frame(record.encode()) for record in writing.records])
    except ProxyError as error:
        writing.error = error
