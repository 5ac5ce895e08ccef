"""A quarantine on disk that replays into a ledger of what each tenant got, with a fleet and tenants to change."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Self

from ownership import Fleet
from proxy.core.books import Books
from proxy.core.errors import StorageError
from proxy.core.record import QuarantineRecord
from proxy.core.retention import Keep
from proxy.core.tenancy import Tenancy
from proxy.core.wire import Part
from proxy.disk.quarantine import Quarantine
from proxy.replay import Replayer
from tests.proxy.core.held import Got, got_of, held_back
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import HISTORY, MAX_AGE, T0, Document, Series, load, util

KEEP = Keep(bytes=1 << 20, age_ms=3_600_000)
DEADLINE_SECONDS = 10.0


class Tenants:
    """Takes parts for all tenants. Those of `refusing` take none, `broken` fails them all."""

    def __init__(self, books: Books) -> None:
        self.got: list[Got] = []
        self.lots: list[list[Got]] = []
        self.refusing: set[str] = set()
        self.broken = False
        self.pace: Callable[[], Any] | None = None
        self._books = books

    async def deliver(self, parts: Sequence[Part]) -> Collection[str]:
        """Settle parts; the tenants that could not take theirs."""
        if self.pace is not None:
            await self.pace()
        if self.broken:
            raise StorageError("storage: no disk")
        lot: list[Got] = []
        for part in parts:
            assert part.replay
            if part.tenant not in self.refusing:
                lot += got_of([part])
                self._books.tenant(part.tenant).parts += part.samples
                self._books.tenant(part.tenant).delivered += part.samples
        self.got += lot
        self.lots.append(lot)
        return {part.tenant for part in parts if part.tenant in self.refusing}


class Site:
    """One data folder with its quarantine and replayer; `open` again for a restart."""

    def __init__(self, folder: Path, quarantine: Quarantine, tenancy: Tenancy) -> None:
        self.folder = folder
        self.quarantine = quarantine
        self.tenancy = tenancy
        self.fleet = Fleet(MAX_AGE * 1000, HISTORY * 1000)
        self.books = Books()
        self.tenants = Tenants(self.books)
        self.replayer = Replayer(quarantine, lambda: (self.tenancy, self.fleet), self.tenants.deliver, self.books)
        self.quarantined = 0
        self._revision = 0

    @classmethod
    async def open(cls, folder: Path, tenancy: Tenancy | None = None, keep: Keep = KEEP) -> Self:
        """A site whose clock stands at T0."""
        return cls(folder, await Quarantine.open(folder, keep, lambda: T0), tenancy or tenancy_of())

    async def hold(self, *series: Series) -> list[QuarantineRecord]:
        """Put series into quarantine that nobody knew the owners of when they came."""
        records = held_back(tenancy_of(), *series)
        await self.quarantine.append(records)
        self.quarantined += sum(record.samples for record in records)
        return records

    def own(self, *devices: Document, until: float = 100, node: str = "node-a") -> None:
        """A new document of a node."""
        self._revision += 1
        self.replayer.ownership_changed(load(self.fleet, devices, until, node, self._revision))

    def configure(self, tenancy: Tenancy) -> None:
        """Another configuration."""
        self.tenancy = tenancy
        self.replayer.reconfigured()

    def balance(self) -> None:
        """Check that each sample is in one place."""
        quarantine = self.quarantine
        there = self.quarantined + quarantine.recovered.total()
        assert there == quarantine.released + quarantine.dropped.total() + quarantine.waiting.total()
        assert min(quarantine.waiting.values(), default=0) >= 0
        assert self.books.imbalances() == ()

    def values(self, tenant: str) -> Counter[float]:
        """The values that a tenant got."""
        return Counter(float(got.value) for got in self.tenants.got if got.tenant == tenant)


@contextlib.asynccontextmanager
async def running(site: Site) -> AsyncIterator[asyncio.Task[None]]:
    """The site's replayer at work; closes the quarantine at the end, and checks the books."""
    task = asyncio.create_task(site.replayer.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await site.quarantine.close()
    site.balance()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something to hold."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():  # noqa: ASYNC110 - what is awaited has no event
            await asyncio.sleep(0.01)


def samples(*times: float, first: int = 1, **labels: str) -> list[Series]:
    """One entry for each time, with values that count up from `first`."""
    return [Series(util(**labels), (at, float(first + number))) for number, at in enumerate(times)]
