"""Samples that wait, on disk, for an owner or a mapping: durable before they are acknowledged, bounded in size and age.

Group commit: `append` puts its records on a list and waits. One task gives whatever is on the list to one writer
thread, which writes it with one fsync, so that all who came while the last fsync ran share the next. The log belongs
to that thread, the counts and the list to the event loop; the thread hands back what it did. A failure of the disk
fails those who wait, with an error that makes the sender send again, and the next append simply tries again.
`close` waits for what was appended and ends the thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import structlog

from proxy.core.errors import ProxyError, StorageError
from proxy.core.record import QuarantineRecord, frame
from proxy.core.retention import Held, Keep, surplus
from proxy.segments import SegmentLog

_log: Final = structlog.get_logger()

_SUFFIX: Final = ".q"


@dataclass(slots=True)
class _Append:
    """The records of one call, which become durable or fail together."""

    records: Sequence[QuarantineRecord]
    done: asyncio.Future[None]
    frames: bytes = b""
    error: ProxyError | None = None


@dataclass(slots=True)
class _Contents:
    """What one segment holds: samples per reason, and when its first and newest record were received."""

    first_ms: int
    newest_ms: int
    samples: Counter[str] = field(default_factory=Counter)

    def add(self, record: QuarantineRecord) -> None:
        self.newest_ms = max(self.newest_ms, record.received_ms)
        self.samples[record.reason] += record.samples


@dataclass(slots=True)
class _Effect:
    """What the writer thread did to the counts."""

    waiting: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


class Quarantine:
    """The quarantine of one data folder. Made by `open`, which reads what is there; used by one event loop.

    `waiting` are samples per reason of quarantine, `recovered` those that were there at the start, `dropped` are
    samples per reason of dropping: `full` (more bytes than may be kept) and `age`. `torn_bytes` were unreadable.
    """

    def __init__(self, folder: Path, keep: Keep, clock: Callable[[], int]) -> None:
        self.dropped: Counter[str] = Counter()
        self._keep = keep
        self._clock = clock
        self._contents: dict[int, _Contents] = {}
        self._segments = SegmentLog(folder, _SUFFIX, self._take)
        self.waiting: Counter[str] = sum((held.samples for held in self._contents.values()), Counter())
        self.recovered: Counter[str] = Counter(self.waiting)
        self._appends: list[_Append] = []
        self._committer: asyncio.Task[None] | None = None
        self._closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="quarantine")

    @classmethod
    async def open(cls, folder: Path, keep: Keep, clock: Callable[[], int]) -> Self:
        """The quarantine in `folder`; `clock` tells milliseconds since the epoch. Raises StorageError."""
        try:
            return await asyncio.to_thread(cls, folder, keep, clock)
        except OSError as error:
            raise StorageError(f"storage: the quarantine cannot be opened: {error}") from error

    @property
    def torn_bytes(self) -> int:
        """Bytes that were no whole record when the quarantine was opened, moved aside."""
        return self._segments.torn_bytes

    async def append(self, records: Sequence[QuarantineRecord]) -> None:
        """Return when the records are on the disk. Raises StorageError, and RecordError for numbers beyond their range.

        Records that are larger than the whole quarantine may be are dropped at once, and counted. Who is cancelled
        while waiting does not know whether they are kept; they are in the counts if they are.
        """
        if not records:
            return
        if self._closed:
            raise StorageError("storage: the quarantine is closed")
        append = _Append(records, asyncio.get_running_loop().create_future())
        self._appends.append(append)
        self._wake()
        await append.done

    def keep(self, keep: Keep) -> None:
        """Other bounds from now on; what exceeds them goes with the next append or trim."""
        self._keep = keep

    async def trim(self) -> None:
        """Drop what has become too old since the last append. Raises StorageError."""
        effect = _Effect()
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._make_room, 0, effect)
        except OSError as error:
            raise StorageError(f"storage: the quarantine cannot be trimmed: {error}") from error
        finally:
            self._apply(effect)

    async def close(self) -> None:
        """Wait for what was appended, end the writer thread. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self._committer is not None:
            await self._committer
        await asyncio.get_running_loop().run_in_executor(self._writer, self._segments.roll)
        self._writer.shutdown()

    def _wake(self) -> None:
        if self._committer is None or self._committer.done():
            self._committer = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._appends:
            group, self._appends = self._appends, []
            try:
                self._apply(await loop.run_in_executor(self._writer, self._commit, group))
            except Exception as error:  # noqa: BLE001 - the outermost frame of a task: nobody may be left waiting
                _log.exception("quarantine commit failed")
                for append in group:
                    append.error = StorageError(f"storage: the quarantine failed: {error}")
            for append in group:
                _settle(append)

    def _apply(self, effect: _Effect) -> None:
        self.waiting.update(effect.waiting)
        self.dropped.update(effect.dropped)

    # ------------------------------------------------------------------ in the writer thread

    def _take(self, seq: int, payload: bytes) -> None:
        self._note(seq, QuarantineRecord.decode(payload))

    def _note(self, seq: int, record: QuarantineRecord) -> None:
        if seq not in self._contents:
            self._contents[seq] = _Contents(record.received_ms, record.received_ms)
        self._contents[seq].add(record)

    def _commit(self, group: Sequence[_Append]) -> _Effect:
        effect = _Effect()
        for append in group:
            _encode(append)
        ready = [append for append in group if append.error is None]
        try:
            for run in self._runs(ready, effect):
                self._write(run, effect)
        except OSError as error:
            _log.error("quarantine not written", error=str(error))
            for append in ready:
                if append.frames:
                    append.error = StorageError(f"storage: the quarantine cannot be written: {error}")
        return effect

    def _runs(self, appends: Sequence[_Append], effect: _Effect) -> Iterator[list[_Append]]:
        """The appends in order, cut so that each run goes into one segment; none is cut itself."""
        run: list[_Append] = []
        for append in appends:
            if len(append.frames) > self._keep.bytes:
                effect.dropped["full"] += sum(record.samples for record in append.records)
                append.frames = b""
                continue
            run.append(append)
            if self._current_bytes() + sum(len(each.frames) for each in run) >= self._keep.segment_bytes:
                yield run
                run = []
        if run:
            yield run

    def _write(self, run: Sequence[_Append], effect: _Effect) -> None:
        frames = b"".join([append.frames for append in run])
        self._make_room(len(frames), effect)
        seq = self._segments.append(frames)
        for append in run:
            append.frames = b""
            for record in append.records:
                self._note(seq, record)
                effect.waiting[record.reason] += record.samples

    def _current_bytes(self) -> int:
        current = self._segments.current
        return 0 if current is None else self._segments.sizes[current]

    def _make_room(self, incoming_bytes: int, effect: _Effect) -> None:
        now_ms = self._clock()
        current = self._segments.current
        if current is not None and (
            self._segments.sizes[current] >= self._keep.segment_bytes
            or now_ms - self._contents[current].first_ms >= self._keep.segment_ms
        ):
            self._segments.roll()
        held = [Held(seq, size, self._contents[seq].newest_ms) for seq, size in self._segments.sizes.items()]
        for seq, reason in surplus(held, self._keep, now_ms, incoming_bytes):
            self._segments.drop(seq)
            gone = self._contents.pop(seq).samples
            effect.waiting.subtract(gone)
            effect.dropped[reason] += gone.total()
            _log.warning("quarantine dropped samples", reason=reason, samples=gone.total())


def _encode(append: _Append) -> None:
    try:
        append.frames = b"".join([frame(record.encode()) for record in append.records])
    except ProxyError as error:
        append.error = error


def _settle(append: _Append) -> None:
    if append.done.done():  # its caller gave up waiting
        return
    if append.error is None:
        append.done.set_result(None)
    else:
        append.done.set_exception(append.error)
