"""The files of one tenant's queue: appended to at one end, worked off at the other.

All of it happens in one thread at a time. All methods raise OSError; what they did until then is in the `Effect`.

The log begins at the cursor, a file beside the segments. It moves on when what was taken is done, by one write that is
not synced: a killed process loses nothing, a machine that crashes delivers a few records again. A segment whose records
are all done is removed, after the cursor was synced behind it. What is taken is in no danger: neither age nor size nor
a person drops it, and where it alone is more than may be kept, that is exceeded.
"""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

import structlog

from proxy.core.books import BY_HAND, TORN
from proxy.core.cursor import Position
from proxy.core.frames import frame
from proxy.core.record import QueueRecord, queued_size
from proxy.core.retention import Held, Keep, surplus
from proxy.disk.appending import Call, runs
from proxy.disk.contents import Contents, Effect, Waiting
from proxy.disk.cursor_file import CursorFile
from proxy.disk.segments import SegmentLog
from proxy.disk.terms import Terms

_log: Final = structlog.get_logger()

_SUFFIX: Final = ".wal"
_CURSOR: Final = "cursor"
_DROPPED: Final = {"full": "queue_full", "age": "queue_age"}


class Spool:
    """The files in `folder`, which is made where it is missing. `taken` are the records under way, the first of all."""

    def __init__(self, folder: Path, terms: Terms) -> None:
        self.taken: tuple[QueueRecord, ...] = ()
        self._terms = terms
        self._contents: dict[int, Contents] = {}
        self._begun_ms = 0
        self._cursor = CursorFile(folder / _CURSOR)
        self._log = SegmentLog(folder, _SUFFIX, self._recover, self._cursor.read())
        head = self._head
        if head is not None:
            head.done = self._log.begin
            head.skip_to(head.done)

    @property
    def samples(self) -> int:
        """Samples that are not done."""
        return sum(contents.samples for contents in self._contents.values())

    @property
    def records(self) -> int:
        """Records that are not done."""
        return sum(contents.records for contents in self._contents.values())

    @property
    def size(self) -> int:
        """Bytes of the segments."""
        return sum(self._log.sizes.values())

    @property
    def torn_bytes(self) -> int:
        """Bytes that were found to be no record, and moved aside."""
        return self._log.torn_bytes

    @property
    def oldest_ms(self) -> int | None:
        """When the first record that is not done was received, or one before it."""
        if self.taken:
            return self.taken[0].received_ms
        head = self._head
        return None if head is None else head.oldest_ms

    # -- the end that is appended to -----------------------------------------------------------------------------------

    def append(self, calls: Sequence[Call], effect: Effect) -> None:
        """Make the calls' records durable, in order; after an error those are that say so."""
        keep = self._terms.keep
        self._make_room(0, effect)
        used_bytes = self.size
        for call in calls:
            call.prepare(keep, used_bytes)
            used_bytes += call.size
        for run in runs((call for call in calls if call.error is None), keep.segment_bytes):
            self._write(run, effect)

    def _write(self, run: Sequence[Call], effect: Effect) -> None:
        frames = b"".join([framed for call in run for framed in call.frames])
        self._end_segment(len(frames))
        self._make_room(self._terms.keep.bytes if run[0].overflows else len(frames), effect)
        if frames:
            seq = self._log.append(frames)
            if seq not in self._contents:
                self._begun_ms = self._terms.clock()
            offset = self._log.sizes[seq] - len(frames)
            for call in run:
                self._note(call, seq, offset, effect)
                offset += call.size
        for call in run:
            call.count(effect)

    def _note(self, call: Call, seq: int, offset: int, effect: Effect) -> None:
        for record in call.kept:
            self._add(seq, record.received_ms, record.samples)
        head = self._head
        if call.taken and not self.taken and head is not None and (head.seq, head.resume) == (seq, offset):
            self.taken = effect.taken = (call.kept[0],)
            head.skip_to(offset + len(call.frames[0]))

    def _recover(self, seq: int, payload: bytes) -> None:
        self._add(seq, *queued_size(payload))

    def _add(self, seq: int, received_ms: int, samples: int) -> None:
        if seq not in self._contents:
            self._contents[seq] = Contents(seq, received_ms, received_ms)
        self._contents[seq].add(received_ms, samples)

    def _end_segment(self, incoming_bytes: int) -> None:
        keep, current = self._terms.keep, self._log.current
        if current is not None and (
            self._log.sizes[current] + incoming_bytes > keep.segment_bytes
            or self._terms.clock() - self._begun_ms >= keep.segment_ms
        ):
            self._log.roll()

    def _make_room(self, incoming_bytes: int, effect: Effect) -> None:
        """Drop the oldest segments until all is young enough, and small enough where that is the way to it."""
        keep = self._terms.keep
        held: list[Held] = []
        pinned_bytes = 0
        for seq, size in self._log.sizes.items():
            contents = self._contents[seq]
            taken = len(self._taken_of(contents))
            pinned = 0 if not taken else size if taken == contents.records else contents.resume
            pinned_bytes += pinned
            if pinned < size:
                held.append(Held(seq, size - pinned, contents.newest_ms))
        free = Keep(max(0, keep.bytes - pinned_bytes), keep.age_ms)
        for seq, reason in surplus(held, free, self._terms.clock(), incoming_bytes):
            if reason == "age" or keep.full == "drop_oldest":
                self._drop_segment(self._contents[seq], _DROPPED[reason], effect)

    # -- the end that is worked off ------------------------------------------------------------------------------------

    def take(self, max_samples: int, max_bytes: int, effect: Effect) -> None:
        """Take the first records that may go in one request; where some are taken already, these."""
        if not self.taken:
            self._take(max_samples, max_bytes, effect)
            self._move_on()
        effect.taken = self.taken

    def _take(self, max_samples: int, max_bytes: int, effect: Effect) -> None:
        samples = size = 0
        while (waiting := self._next(effect)) is not None:
            if waiting.received_ms < self._terms.oldest_ms:
                self._discard(self._first(), _DROPPED["age"], effect)
                continue
            record = waiting.decoded()
            if record is None:
                self._set_aside(self._first(), frame(waiting.payload))
                self._discard(self._first(), TORN, effect)
                continue
            samples += record.samples
            size += len(record.entries)
            if self.taken and (samples > max_samples or size > max_bytes or not record.may_follow(self.taken[0])):
                break
            self._first().pop()
            self.taken = (*self.taken, record)

    def settle(self) -> None:
        """What is taken is done."""
        if self.taken:
            self._first().remove(len(self.taken), sum(record.samples for record in self.taken))
            self.taken = ()
            self._move_on()

    def unload(self) -> None:
        """Keep nothing in memory but what is taken."""
        head = self._head
        if head is not None:
            head.unload()

    def trim(self, effect: Effect) -> None:
        """Drop what has become too old, or too much."""
        self._make_room(0, effect)
        oldest_ms = self._terms.oldest_ms
        while (head := self._head) is not None and head.oldest_ms < oldest_ms:
            waiting = self._next(effect)
            if waiting is None or waiting.received_ms >= oldest_ms:
                break
            self._discard(self._first(), _DROPPED["age"], effect)
        self._move_on()

    def drop(self, records: int | None, effect: Effect) -> None:
        """Drop the first so many, or all; what is taken stays, and does not count."""
        for contents in list(self._contents.values()):
            if records == 0:
                break
            there = contents.records - len(self._taken_of(contents))
            dropped = there if records is None else min(records, there)
            if dropped == there:
                self._drop_segment(contents, BY_HAND, effect)
            else:
                self._drop_first(contents, dropped, effect)
            records = None if records is None else records - dropped
        self._move_on()

    def inspect(self, limit: int) -> list[QueueRecord]:
        """The first records, what is taken among them."""
        behind = (contents.peek(self._log) for contents in self._contents.values())
        return list(islice(chain(self.taken, chain.from_iterable(behind)), limit))

    def close(self) -> None:
        """Sync the cursor, and let go of the files."""
        head = self._head
        if head is not None:
            self._cursor.write(Position(head.seq, head.done), sync=True)
        self._log.roll()

    @property
    def _head(self) -> Contents | None:
        return next(iter(self._contents.values()), None)

    def _first(self) -> Contents:
        return next(iter(self._contents.values()))

    def _taken_of(self, contents: Contents) -> tuple[QueueRecord, ...]:
        return self.taken if contents is self._head else ()

    def _next(self, effect: Effect) -> Waiting | None:
        """The first record that is not taken; None where there is none, or none in the segment of what is taken."""
        while (head := self._head) is not None:
            waiting = self._next_of(head, effect)
            if waiting is not None or self.taken:
                return waiting
            self._finish(head)
        return None

    def _next_of(self, contents: Contents, effect: Effect) -> Waiting | None:
        if not contents.loaded and contents.loaded_to < self._log.sizes[contents.seq]:
            damaged = contents.load(self._log, self._taken_of(contents), effect)
            if damaged:
                self._set_aside(contents, damaged)
        return contents.loaded[-1] if contents.loaded else None

    def _set_aside(self, contents: Contents, damaged: bytes) -> None:
        try:
            self._log.set_aside(contents.seq, damaged)
        except OSError as error:
            _log.error("damage not moved aside", segment=contents.seq, torn_bytes=len(damaged), error=str(error))

    def _discard(self, contents: Contents, reason: str, effect: Effect) -> None:
        waiting = contents.pop()
        contents.remove(1, waiting.samples)
        effect.drop(reason, 1, waiting.samples)

    def _drop_first(self, contents: Contents, records: int, effect: Effect) -> None:
        for _ in range(records):
            if self._next_of(contents, effect) is not None:
                self._discard(contents, BY_HAND, effect)
        if contents is not self._head:
            contents.unload()

    def _drop_segment(self, contents: Contents, reason: str, effect: Effect) -> None:
        """Drop all of a segment that is not taken."""
        taken = self._taken_of(contents)
        if not taken:
            self._log.drop(contents.seq)
            del self._contents[contents.seq]
        elif contents.records > len(taken):
            self._log.cut(contents.seq, contents.resume)
            contents.skip_to(contents.resume)
        records = contents.records - len(taken)
        samples = contents.samples - sum(record.samples for record in taken)
        contents.remove(records, samples)
        effect.drop(reason, records, samples)

    def _move_on(self) -> None:
        """Unless something is taken, all before the next record is done: tell the cursor, remove what is worked off."""
        while not self.taken and (head := self._head) is not None:
            if head.loaded or head.loaded_to < self._log.sizes[head.seq]:
                if head.done != head.resume:
                    head.done = head.resume
                    self._cursor.write(Position(head.seq, head.done))
                return
            self._finish(head)

    def _finish(self, head: Contents) -> None:
        self._cursor.write(Position(head.seq, self._log.sizes[head.seq]), sync=True)
        del self._contents[head.seq]
        try:
            self._log.drop(head.seq, sync=False)
        except OSError as error:  # delivered all the same, and the next start finds the file
            _log.error("segment not removed", segment=head.seq, error=str(error))
            self._log.leave(head.seq)
