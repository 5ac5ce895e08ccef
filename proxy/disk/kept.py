"""What a proxy keeps on its disk: the lock of the data folder, the quarantine, the queues; and the books of that."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from config.settings import Settings
from proxy.clock import now_ms
from proxy.core.books import Books
from proxy.core.errors import StorageError
from proxy.core.retention import Keep, QueueKeep
from proxy.disk.data_dir import DataDir
from proxy.disk.made_tenants import MadeTenants
from proxy.disk.quarantine import Quarantine
from proxy.disk.queues import Queues


@dataclass(frozen=True, slots=True)
class Kept:
    """All of it, open. Made by `open`; who is done with it calls `close`."""

    data_dir: DataDir
    quarantine: Quarantine
    queues: Queues
    made_tenants: MadeTenants
    books: Books

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Lock the data folder, read what it holds and enter it into new books. Raises StorageError."""
        books = Books()
        folder = Path(settings.proxy.data_dir)
        data_dir = DataDir.take(folder)
        try:
            quarantine = await Quarantine.open(folder / "quarantine", _quarantine_keep(settings), now_ms)
            queues = await Queues.open(folder / "queue", _queue_keep(settings), now_ms, _counting(books))
            made_tenants = _made_tenants(folder)
        except StorageError:
            data_dir.release()
            raise
        for tenant_id, samples in queues.recovered().items():
            books.tenant(tenant_id).recover(samples)
        return cls(data_dir, quarantine, queues, made_tenants, books)

    def keep(self, settings: Settings) -> None:
        """Other bounds from now on."""
        self.quarantine.keep(_quarantine_keep(settings))
        self.queues.keep(_queue_keep(settings))

    async def trim(self) -> None:
        """Drop what has become too old. Raises StorageError."""
        await self.queues.trim()
        await self.quarantine.trim()

    async def close(self) -> None:
        """Wait for what is being written, and let another process have the folder."""
        await self.queues.close()
        await self.quarantine.close()
        self.data_dir.release()


def _made_tenants(folder: Path) -> MadeTenants:
    try:
        return MadeTenants(folder)
    except OSError as error:
        raise StorageError(f"the tenants made from data cannot be read: {error}") from error


def _counting(books: Books) -> Callable[[str, str, int], None]:
    def dropped(tenant_id: str, reason: str, samples: int) -> None:
        books.tenant(tenant_id).drop_queued(reason, samples)

    return dropped


def _quarantine_keep(settings: Settings) -> Keep:
    quarantine = settings.proxy.quarantine
    return Keep(quarantine.bytes, quarantine.age)


def _queue_keep(settings: Settings) -> QueueKeep:
    delivery = settings.proxy.delivery
    return QueueKeep(delivery.queue_bytes, delivery.queue_age, delivery.queue_full)
