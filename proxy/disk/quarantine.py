"""Samples that wait, on disk, for an owner or a mapping: durable before they are acknowledged, bounded in size and age.

Group commit: `append` puts its records on a list and waits. One task gives whatever is on the list to one writer
thread, which writes it with one fsync, so that all who came while the last fsync ran share the next. The log belongs
to that thread, the counts and the list to the event loop; the thread hands back what it did. A failure of the disk
fails those who wait, with an error that makes the sender send again, and the next append simply tries again.
`close` waits for what was appended and ends the thread.

Whoever replays (`replay.py`) asks what waits, reads a segment's `places`, loads some records, and settles them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

import structlog

from ownership import DeviceKey
from proxy.core.errors import StorageError
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Verdict
from proxy.core.retention import Keep
from proxy.core.walk import Place
from proxy.disk.quarantine_log import Effect, QuarantineLog, Waiting, Writing

_log: Final = structlog.get_logger()

_T = TypeVar("_T")

_Append = tuple[Writing, asyncio.Future[None]]


class Quarantine:
    """The quarantine of one data folder. Made by `open`, which reads what is there; used by one event loop.

    `waiting` are samples per reason of quarantine, `recovered` those that were there at the start, `dropped` are
    samples per reason of dropping: `full` (more bytes than may be kept), `age`, and what verdicts say; `released` are
    samples that left for tenants. `torn_bytes` were unreadable. At any time
    quarantined + recovered = released + dropped + waiting, for those quarantined whose append has returned.
    """

    def __init__(self, log: QuarantineLog, writer: ThreadPoolExecutor) -> None:
        self.dropped: Counter[str] = Counter()
        self.released = 0
        self.waiting: Counter[str] = log.waiting()
        self.recovered: Counter[str] = Counter(self.waiting)
        self._files = log
        self._appends: list[_Append] = []
        self._committer: asyncio.Task[None] | None = None
        self._closing = False  # nothing more is appended
        self._closed = False
        self._writer = writer

    @classmethod
    async def open(cls, folder: Path, keep: Keep, clock: Callable[[], int]) -> Self:
        """The quarantine in `folder`; `clock` tells milliseconds since the epoch. Raises StorageError."""
        writer = ThreadPoolExecutor(1, thread_name_prefix="quarantine")
        opening = asyncio.get_running_loop().run_in_executor(writer, QuarantineLog, folder, keep, clock)
        try:
            return cls(await opening, writer)
        except OSError as error:
            writer.shutdown()
            raise StorageError(f"the quarantine cannot be opened: {error}") from error

    @property
    def torn_bytes(self) -> int:
        """Bytes that were no whole record when the quarantine was opened, moved aside."""
        return self._files.torn_bytes

    async def append(self, records: Sequence[QuarantineRecord]) -> None:
        """Return when the records are on the disk. Raises StorageError, and RecordError for numbers beyond their range.

        Records that are larger than the whole quarantine may be are dropped at once, and counted. Who is cancelled
        while waiting does not know whether they are kept; they are in the counts if they are.
        """
        if not records:
            return
        if self._closing:
            raise StorageError("the quarantine is closed")
        append = (Writing(records), asyncio.get_running_loop().create_future())
        self._appends.append(append)
        self._wake()
        await append[1]

    def keep(self, keep: Keep) -> None:
        """Other bounds from now on; what exceeds them goes with the next append or trim."""
        self._files.keep = keep

    async def trim(self) -> None:
        """Drop what has become too old since the last append. Raises StorageError."""
        effect = Effect()
        await self._change(lambda: self._files.trim(effect), effect)

    async def segments(self) -> dict[int, int]:
        """The segments in order of arrival, and when the earliest sample of each that may be answered was taken."""
        return await self._run(self._files.segments)

    async def waits(self, keys: AbstractSet[DeviceKey] | None) -> list[Waiting]:
        """What waits of these devices, or of all, by segment; without samples of shared devices."""
        return await self._run(lambda: self._files.waits(keys))

    async def places(
        self, seq: int, keys: AbstractSet[DeviceKey | None] | None = None, *, shared: bool = False
    ) -> list[Place]:
        """Where the records of a segment lie: those of these devices or of all, those of shared devices or not.

        They are good until the segment is compacted. Raises StorageError.
        """
        return await self._run(lambda: self._files.places(seq, keys, shared=shared))

    async def load(self, places: Sequence[Place]) -> list[tuple[Place, QuarantineRecord]]:
        """The records that lie there, in this order, as far as they still do. Raises StorageError."""
        return await self._run(lambda: self._files.load(places))

    async def settle(self, settled: Sequence[tuple[Place, Verdict]]) -> Effect:
        """Let verdicts come true and count them, but for records that went away meanwhile; what they changed.

        They are gone from the disk once their segment is compacted.
        """
        effect = Effect()
        await self._change(lambda: self._files.settle(settled, effect), effect)
        return effect

    async def compact(self, segments: Sequence[int] | None = None) -> None:
        """Take what was settled from the disk, a segment at a time. Raises StorageError: it is gone all the same.

        Only until the next start, though: then it waits again.
        """
        for seq in await self._run(self._files.unsettled) if segments is None else segments:
            effect = Effect()
            await self._change(partial(self._files.compact, seq, effect), effect)

    async def merge(self) -> dict[int, int]:
        """Make one segment of neighbours that replays have left small; where what they held lies by now.

        No places are good afterwards. Raises StorageError.
        """
        effect, moved = Effect(), dict[int, int]()
        await self._change(lambda: self._files.merge(moved, effect), effect)
        return moved

    async def close(self) -> None:
        """Wait for what was appended, end the writer thread. May be called again."""
        if self._closing:
            return
        self._closing = True
        if self._committer is not None:
            await self._committer
        try:
            await self.compact()
        except StorageError as error:
            _log.warning("quarantine not compacted", error=str(error))
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._writer, self._files.close)
        self._writer.shutdown()

    async def _change(self, work: Callable[[], None], effect: Effect) -> None:
        """Work that has an effect on the counts, which is entered even if the caller is cancelled meanwhile."""

        async def change() -> None:
            try:
                await self._run(work)
            finally:
                self._apply(effect)

        await asyncio.shield(asyncio.get_running_loop().create_task(change()))

    async def _run(self, work: Callable[[], _T]) -> _T:
        """Work in the writer thread, behind what it has to do already."""
        if self._closed:
            raise StorageError("the quarantine is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, work)
        except OSError as error:
            raise StorageError(f"the quarantine: {error}") from error

    def _wake(self) -> None:
        if self._committer is None or self._committer.done():
            self._committer = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._appends:
            group, self._appends = self._appends, []
            writings = [writing for writing, _ in group]
            try:
                self._apply(await loop.run_in_executor(self._writer, self._files.commit, writings))
            except Exception as error:  # noqa: BLE001 - the outermost frame of a task: nobody may be left waiting
                _log.exception("quarantine commit failed")
                for writing in writings:
                    writing.error = StorageError(f"the quarantine failed: {error}")
            for append in group:
                _settle(*append)

    def _apply(self, effect: Effect) -> None:
        self.waiting.update(effect.waiting)
        self.dropped.update(effect.dropped)
        self.released += effect.released


def _settle(writing: Writing, done: asyncio.Future[None]) -> None:
    if done.done():  # its caller gave up waiting
        return
    if writing.error is None:
        done.set_result(None)
    else:
        done.set_exception(writing.error)
