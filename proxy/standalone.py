"""The storeroom of a data folder while no proxy runs: opened under its lock, which others find taken meanwhile.

Nothing is sent. What a replay releases goes to its tenants' queues, durable, and out when the proxy starts. Only
`ownership.files` are asked for owners: where there are other sources, a sample whose owner these do not name waits on,
whatever `proxy.unowned` says.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace

from config.settings import Settings
from ownership import Fleet
from proxy.clock import now_ms
from proxy.core.errors import StorageError
from proxy.core.pieces import fitting
from proxy.core.record import QueueRecord
from proxy.core.tenancy import Tenancy, Unowned
from proxy.core.wire import Part
from proxy.disk.kept import Kept
from proxy.disk.queues import Queues
from proxy.lanes.group import GROUP_BYTES, GROUP_SAMPLES, item_of, record_of
from proxy.replay import Replayer
from proxy.storeroom import Storeroom


@contextlib.asynccontextmanager
async def standalone(settings: Settings, tenancy: Tenancy, fleet: Fleet) -> AsyncIterator[Storeroom]:
    """The storeroom within the block. Raises StorageError, as `InUseError` where another process has the folder."""
    kept = await Kept.open(settings)
    try:
        known = _cautious(settings, tenancy)

        async def deliver(parts: Sequence[Part]) -> Collection[str]:
            return await _queue(kept.queues, parts)

        replayer = Replayer(kept.quarantine, lambda: (known, fleet), deliver, kept.books)
        yield Storeroom(kept, replayer, lambda: tenancy, None)
    finally:
        await kept.close()


def _cautious(settings: Settings, tenancy: Tenancy) -> Tenancy:
    ownership = settings.ownership
    elsewhere = bool(ownership.labelers or ownership.kubernetes.service)
    return replace(tenancy, unowned=Unowned("quarantine")) if elsewhere else tenancy


async def _queue(queues: Queues, parts: Sequence[Part]) -> set[str]:
    """Put the parts into their tenants' queues, as a lane would; the tenants whose queues did not take theirs."""
    records: dict[str, list[QueueRecord]] = {}
    now = now_ms()
    for part in parts:
        for each in fitting(part, GROUP_BYTES, GROUP_SAMPLES):
            record = record_of(each, [item_of(each)], now, attempted=False)
            records.setdefault(each.tenant, []).append(record)
    ended = {tenant_id: _appended(queues, tenant_id, some) for tenant_id, some in records.items()}
    return {tenant_id for tenant_id, error in ended.items() if await error is not None}


def _appended(queues: Queues, tenant_id: str, records: Sequence[QueueRecord]) -> asyncio.Future[StorageError | None]:
    ended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()

    def done(error: StorageError | None) -> None:
        if not ended.done():
            ended.set_result(error)

    queues.queue(tenant_id).append(records, done)
    return ended
