"""Queues in a folder, with a clock that is set, as the tests of the queue use them."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proxy.core.errors import StorageError
from proxy.core.frames import frame, scan
from proxy.core.record import QueueRecord
from proxy.core.retention import QueueKeep
from proxy.disk.queue import TenantQueue
from proxy.disk.queues import Queues

CLOCK_MS = 1_000_000
KEEP = QueueKeep(bytes=1 << 20, age_ms=1000, full="drop_oldest")
TENANT = "team-a"


def record(number: int, size: int = 0, *, received_ms: int = CLOCK_MS, **values: Any) -> QueueRecord:
    """A record that says its number, with `size` bytes behind it that no compression makes shorter."""
    entries = b"%08d" % number + random.Random(number).randbytes(size)
    return replace(QueueRecord(received_ms, ("", ""), 1, 0, 0, entries), **values)


def number_of(one: QueueRecord) -> int:
    """The number that `record` was given."""
    return int(one.entries[:8])


def frame_size(*records: QueueRecord) -> int:
    """The bytes of records on the disk."""
    return sum(len(frame(one.encode())) for one in records)


def on_disk(folder: Path) -> list[int]:
    """The numbers of all records in a queue's files, in order."""
    found = [payload for path in segments(folder) for _, payload in scan(path.read_bytes()).records]
    return [number_of(QueueRecord.decode(payload)) for payload in found]


def segments(folder: Path) -> list[Path]:
    """The segment files of a queue, oldest first."""
    return sorted(folder.glob("*.wal"))


class Stock:
    """The queues in `folder`, opened once or more often; `dropped` are samples by reason since the start."""

    def __init__(self, folder: Path, keep: QueueKeep = KEEP) -> None:
        self.folder = folder
        self.now_ms = CLOCK_MS
        self.dropped: Counter[str] = Counter()
        self._keep = keep
        self._queues: Queues | None = None

    @property
    def queues(self) -> Queues:
        """The queues, which are open."""
        assert self._queues is not None
        return self._queues

    @property
    def queue(self) -> TenantQueue:
        """The queue of the one tenant."""
        return self.queues.queue(TENANT)

    @property
    def files(self) -> Path:
        """Where that queue's files are."""
        return self.folder / TENANT

    async def open(self) -> "Stock":
        """Open what is there."""
        self._queues = await Queues.open(self.folder, self._keep, lambda: self.now_ms, self._on_drop)
        return self

    async def close(self) -> None:
        """Close, in order."""
        if self._queues is not None:
            await self._queues.close()

    def crash(self) -> None:
        """Let the files be as they are; jobs in the threads are finished, those that wait are not."""
        for queue in self.queues.all().values():
            queue._jobs.clear()
        self.queues._pool.shutdown()
        for queue in self.queues.all().values():
            if queue._spool is not None:
                queue._spool._log.roll()  # the kernel closes the file
        self._queues = None

    def keep(self, keep: QueueKeep) -> None:
        """Other bounds, also for when it is opened again."""
        self._keep = keep
        self.queues.keep(keep)

    async def try_append(self, records: Sequence[QueueRecord], *, taken: bool = False) -> StorageError | None:
        """What an append ended with."""
        ended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        self.queue.append(records, ended.set_result, taken=taken)
        return await ended

    async def append(self, *records: QueueRecord, taken: bool = False) -> None:
        """Append, which must end well."""
        assert await self.try_append(records, taken=taken) is None

    async def take(self, max_samples: int = 1000, max_bytes: int = 1 << 20) -> list[int]:
        """The numbers of what is taken. Raises StorageError."""
        return [number_of(one) for one in await self.take_records(max_samples, max_bytes)]

    async def take_records(self, max_samples: int = 1000, max_bytes: int = 1 << 20) -> tuple[QueueRecord, ...]:
        """What is taken. Raises StorageError."""
        ended: asyncio.Future[tuple[QueueRecord, ...] | StorageError] = asyncio.get_running_loop().create_future()
        self.queue.take(max_samples, max_bytes, ended.set_result)
        taken = await ended
        if isinstance(taken, StorageError):
            raise taken
        return taken

    async def drain(self) -> list[int]:
        """Take all, one request after the other, until nothing is left."""
        found: list[int] = []
        while taken := await self.take():
            found += taken
            self.queue.done()
        return found

    async def at_rest(self) -> None:
        """Return when no job is left."""
        await self.queue.inspect(0)

    def _on_drop(self, tenant: str, reason: str, samples: int) -> None:
        assert tenant in self.queues.all()
        self.dropped[reason] += samples
