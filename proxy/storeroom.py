"""Carries out orders on what a data folder holds: the same for the running proxy and for a command under its lock."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from proxy.clock import now_ms
from proxy.core.orders import (
    DropQuarantined,
    DropQueued,
    InspectQueue,
    ListQuarantine,
    ListQueues,
    Order,
    OrderError,
    ReplayQuarantine,
)
from proxy.core.record import QueueRecord
from proxy.core.stock import (
    Answer,
    QuarantineDropped,
    QuarantineListed,
    QuarantineReplayed,
    QueuedRecord,
    QueueDropped,
    QueueInspected,
    QueuesListed,
    QueueStock,
    State,
    age_seconds,
    held_record,
    queued_record,
)
from proxy.core.tenancy import Tenancy
from proxy.core.times import format_time
from proxy.disk.kept import Kept
from proxy.disk.queue import TenantQueue
from proxy.replay import Replayer

_STEP: Final = 4
"""Records of a queue that are told in one go: some megabytes of entries are walked through for each."""


class Lanes(Protocol):
    """Who sends what is queued, as far as a storeroom has to do with it."""

    def waiting(self) -> Mapping[str, str]:
        """The tenants whose new parts go to their queues, and why."""
        ...

    def give_up(self, tenant_id: str) -> tuple[int, int]:
        """Drop what of a tenant's queue is in hand, unless in flight: records and samples."""
        ...


@dataclass(frozen=True, slots=True)
class Storeroom:
    """What is kept, who replays the quarantine, the tenants of the moment, and their lanes, if a proxy runs."""

    kept: Kept
    replayer: Replayer
    tenancy: Callable[[], Tenancy]
    lanes: Lanes | None

    async def carry_out(self, order: Order) -> dict[str, Any]:
        """Do what is ordered; the answer, one of `core.stock`, in plain values. Raises OrderError, StorageError."""
        return asdict(await self._answer(order))

    async def _answer(self, order: Order) -> Answer:
        match order:
            case ListQueues():
                return self._list_queues()
            case InspectQueue():
                return await self._inspect_queue(order)
            case DropQueued():
                return await self._drop_queued(order)
            case ListQuarantine():
                return await self._list_quarantine(order)
            case ReplayQuarantine():
                return await self._replay()
            case DropQuarantined():
                return await self._drop_quarantined(order)

    # -- queues --------------------------------------------------------------------------------------------------------

    def _list_queues(self) -> QueuesListed:
        circuits = {} if self.lanes is None else self.lanes.waiting()
        stocks = [
            self._stock(queue, circuits.get(tenant_id, ""))
            for tenant_id, queue in sorted(self.kept.queues.all().items())
        ]
        return QueuesListed(tuple(each for each in stocks if each.records or each.torn_bytes or each.why))

    def _stock(self, queue: TenantQueue, why: str) -> QueueStock:
        state = self._state(queue.tenant, why)
        oldest_ms = queue.oldest_ms
        return QueueStock(
            tenant=queue.tenant,
            samples=queue.samples,
            records=queue.records,
            bytes=queue.bytes,
            torn_bytes=queue.torn_bytes,
            oldest=None if oldest_ms is None else format_time(oldest_ms),
            age_seconds=None if oldest_ms is None else age_seconds(oldest_ms, now_ms()),
            state=state,
            why=why if state == "waiting" else "",
        )

    def _state(self, tenant_id: str, why: str) -> State:
        tenancy = self.tenancy()
        if tenancy.tenant(tenant_id) is None:
            return "not_configured" if tenancy.dynamic is None else "not_seen"
        if self.lanes is None:
            return "stopped"
        return "waiting" if why else "delivering"

    async def _inspect_queue(self, order: InspectQueue) -> QueueInspected:
        queue = self._queue(order.tenant)
        records = await queue.inspect(order.limit)
        shown: list[QueuedRecord] = []
        for at in range(0, len(records), _STEP):
            shown += await asyncio.to_thread(_told, records[at : at + _STEP], now_ms())
        return QueueInspected(order.tenant, queue.samples, queue.records, tuple(shown))

    async def _drop_queued(self, order: DropQueued) -> QueueDropped:
        queue = self._queue(order.tenant)
        wanted = order.records
        if wanted is not None and wanted < queue.taken:
            raise OrderError(
                f"the oldest {queue.taken} records are one request, tried again and again; drop all of them"
            )
        records, samples = (0, 0) if self.lanes is None else self.lanes.give_up(order.tenant)
        if wanted is None or wanted > records:
            more = await queue.drop(None if wanted is None else wanted - records)
            records, samples = records + more[0], samples + more[1]
        return QueueDropped(order.tenant, records, samples, queue.records, queue.samples)

    def _queue(self, tenant_id: str) -> TenantQueue:
        queue = self.kept.queues.all().get(tenant_id)
        if queue is None or not (queue.records or queue.torn_bytes):
            raise OrderError(f"nothing is queued for {tenant_id!r}; `whosegpu queue list` shows for whom there is")
        return queue

    # -- quarantine ----------------------------------------------------------------------------------------------------

    async def _list_quarantine(self, order: ListQuarantine) -> QuarantineListed:
        found = await self.replayer.records(order.limit + 1, order.reason or "", order.match or "")
        now = now_ms()
        return QuarantineListed(
            samples=self._waiting(),
            torn_bytes=self.kept.quarantine.torn_bytes,
            shown=tuple(held_record(record, now) for record in found[: order.limit]),
            more=len(found) > order.limit,
        )

    async def _replay(self) -> QuarantineReplayed:
        totals = await self.replayer.replay_now()
        return QuarantineReplayed(
            released=totals.released,
            dropped=_positive(totals.dropped),
            waiting=self._waiting(),
            unsettled=tuple(sorted(totals.unsettled)),
            running=self.lanes is not None,
        )

    async def _drop_quarantined(self, order: DropQuarantined) -> QuarantineDropped:
        records, samples = await self.replayer.drop(order.reason, order.older_than_ms)
        return QuarantineDropped(records, samples, self._waiting())

    def _waiting(self) -> dict[str, int]:
        return _positive(self.kept.quarantine.waiting)


def _told(records: Sequence[QueueRecord], now: int) -> list[QueuedRecord]:
    return [queued_record(record, now) for record in records]


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in sorted(counts.items()) if count > 0}
