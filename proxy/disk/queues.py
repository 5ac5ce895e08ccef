"""The durable queues of all tenants: `<data_dir>/queue/<tenant id>/`, by the tenant's id and by nothing else.

A folder without a tenant in the configuration is recovered too, and waits: a tenant that was removed may come back.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import structlog

from config.tenant_id import tenant_id_fault
from proxy.core.errors import StorageError
from proxy.core.retention import QueueKeep
from proxy.disk.queue import OnDrop, TenantQueue
from proxy.disk.terms import Terms

_log: Final = structlog.get_logger()

_WRITERS: Final = 4
"""Threads that write: so many queues sync at once, which is what one disk has a use for."""


class Queues:
    """The queues of one data folder. Made by `open`; used by one event loop."""

    def __init__(self, folder: Path, terms: Terms, on_drop: OnDrop) -> None:
        self._folder = folder
        self._terms = terms
        self._on_drop = on_drop
        self._pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="queue")
        self._queues: dict[str, TenantQueue] = {}
        self._recovered: dict[str, int] = {}
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, folder: Path, keep: QueueKeep, clock: Callable[[], int], on_drop: OnDrop) -> Self:
        """All queues in `folder`; `clock` tells milliseconds since the epoch, from any thread. Raises StorageError."""
        queues = cls(folder, Terms(keep, clock), on_drop)
        try:
            await queues._start_writers()
            await queues._recover()
        except BaseException:
            queues._pool.shutdown()
            raise
        return queues

    def queue(self, tenant_id: str) -> TenantQueue:
        """The queue of a tenant; the first append makes its folder. Raises StorageError for what can be no folder."""
        queue = self._queues.get(tenant_id)
        if queue is None:
            fault = tenant_id_fault(tenant_id)
            if fault is not None:
                raise StorageError(f"no queue has this name: {fault}")
            queue = TenantQueue(tenant_id, self._folder / tenant_id, self._terms, self._pool, self._on_drop)
            self._queues[tenant_id] = queue
            if self._closing is not None:
                queue.shut()
        return queue

    def recovered(self) -> Mapping[str, int]:
        """Samples per tenant that waited when the queues were opened."""
        return MappingProxyType(self._recovered)

    def all(self) -> Mapping[str, TenantQueue]:
        """All queues that were recovered or asked for, by tenant."""
        return MappingProxyType(self._queues)

    def keep(self, keep: QueueKeep) -> None:
        """Other bounds from now on; what exceeds them goes with a queue's next append or trim."""
        self._terms.keep = keep

    async def trim(self) -> None:
        """Drop what has become too old. A queue whose disk fails says so, and stays as it is."""
        for queue in list(self._queues.values()):
            try:
                await queue.trim()
            except StorageError:
                continue  # logged by the queue

    async def close(self) -> None:
        """Return when what was appended is on the disk, or could not be written, and let go of the files.

        Nothing is taken any more from now on. May be called again.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        closing = (queue.close() for queue in self._queues.values())
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None and not isinstance(error, StorageError):  # which the queue has logged
                raise error
        self._pool.shutdown()

    async def _start_writers(self) -> None:
        """Have all threads now: one that could not be started later would leave a job with nobody to do it."""
        loop, all_there = asyncio.get_running_loop(), threading.Barrier(_WRITERS)
        try:
            await asyncio.gather(*(loop.run_in_executor(self._pool, all_there.wait) for _ in range(_WRITERS)))
        except RuntimeError as error:
            all_there.abort()
            raise StorageError(f"the queues cannot be written: {error}") from error

    async def _recover(self) -> None:
        found = await asyncio.get_running_loop().run_in_executor(self._pool, _tenants, self._folder)
        opened = [self.queue(tenant_id) for tenant_id in found]
        errors = await asyncio.gather(*(queue.open() for queue in opened), return_exceptions=True)
        for error in errors:
            if error is not None:
                raise error
        self._recovered = {queue.tenant: queue.samples for queue in opened if queue.records}


def _tenants(folder: Path) -> list[str]:
    """The tenants that have a folder. Raises StorageError."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"the queues cannot be opened: {error}") from error
    found: list[str] = []
    for path in paths:
        if path.is_dir() and tenant_id_fault(path.name) is None:
            found.append(path.name)
        else:
            _log.warning("not a queue, left alone", path=str(path))
    return found
