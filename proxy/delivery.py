"""The lanes of all tenants: made when a tenant gets its first part, kept as long as its endpoint stays as it is.

A tenant whose endpoint changed goes on in its lane, so that order is kept, with another upstream. One that is gone
loses its lane: what that had in hand is drained for a moment, and the rest is told to its senders as retryable.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from config.settings import Settings
from config.tenants import EndpointConfig
from proxy.batch import Batch, Part
from proxy.configured import Configured
from proxy.core.books import Books
from proxy.core.gathering import TenantPart
from proxy.core.outcome import Outcome, Refusal, Retryable
from proxy.embedded import EmbeddedUpstream
from proxy.endpoints import Embedded, Target, make_target
from proxy.lane import Common, Lane, Upstream
from proxy.pacer import Pacer
from proxy.upstream import HttpUpstream
from store import store_path

ANSWER_SECONDS: Final = 20.0
"""A sender gives up at 30 s and sends again; it is answered before that (remote-write facts R5)."""

DRAIN_SECONDS: Final = 5.0
"""How long a lane may finish what it has in hand when it is closed."""

_UNANSWERED: Final = Retryable("unanswered")


class Delivery:
    """Sends parts through the lanes of their tenants."""

    def __init__(self, configured: Configured, books: Books, observe: Callable[[str, str, float], None]) -> None:
        self._configured = configured
        self._books = books
        self._loop = asyncio.get_running_loop()
        self._common = Common(Pacer(self._loop), observe)
        self._lanes: dict[str, Lane] = {}
        self._closing: set[asyncio.Task[None]] = set()
        for tenant in configured.settings.tenants:
            books.tenant(tenant.id)

    def send(self, parts: Sequence[TenantPart], attempt: int) -> Batch | None:
        """Put each part into its tenant's lane; None where there is none. `attempt` is the sender's `Retry-Attempt`."""
        if not parts:
            return None
        batch = Batch(self._loop, len(parts), attempt)
        for part in parts:
            lane = self._lanes.get(part.tenant) or self._lane(part.tenant)
            lane.put(Part(part.pair, part.chunks, part.size, part.samples, batch, part.made, part.exemplars))
        return batch

    def reconfigure(self, configured: Configured) -> None:
        """Go on with another configuration; connections of endpoints that are the same stay."""
        before, self._configured = self._configured, configured
        for tenant in configured.settings.tenants:
            self._books.tenant(tenant.id)
        for tenant_id in list(self._lanes):
            if configured.tenancy.tenant(tenant_id) is None:
                self._retire(self._lanes.pop(tenant_id))
            elif not _same(before, configured, tenant_id):
                self._lanes[tenant_id].replace(*self._way(tenant_id))

    async def close(self) -> None:
        """Finish what is in hand, for DRAIN_SECONDS at most, and close all lanes."""
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            self._retire(lane)
        if self._closing:
            await asyncio.wait(self._closing)

    def _retire(self, lane: Lane) -> None:
        task = self._loop.create_task(_drain(lane))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _lane(self, tenant_id: str) -> Lane:
        lane = Lane(tenant_id, *self._way(tenant_id), self._books.tenant(tenant_id), self._common)
        self._lanes[tenant_id] = lane
        return lane

    def _way(self, tenant_id: str) -> tuple[Upstream, Refusal]:
        endpoint = _endpoint(self._configured.settings, tenant_id)
        timeout_seconds = self._configured.settings.proxy.delivery.timeout / 1000
        targets = self._configured.targets
        target = targets.declared.get(tenant_id) or make_target(endpoint, targets.dynamic, timeout_seconds)
        return self._upstream(tenant_id, target), endpoint.refusal

    def _upstream(self, tenant_id: str, target: Target) -> Upstream:
        if isinstance(target, Embedded):
            data_dir = Path(self._configured.settings.proxy.data_dir)
            return EmbeddedUpstream(store_path(data_dir, tenant_id), self._loop)
        return HttpUpstream(target, self._loop)


async def outcomes(batch: Batch | None) -> list[tuple[str, Outcome]]:
    """How the parts of a request ended that were not delivered, ANSWER_SECONDS after this is called at the latest.

    Parts still under way by then are told as retryable. They may be delivered later, and their sender sends them once
    more, which no store minds.
    """
    if batch is None:
        return []
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await batch.wait()
    except TimeoutError:
        return [*((trouble.tenant, trouble.outcome) for trouble in batch.troubles), ("some", _UNANSWERED)]
    return [(trouble.tenant, trouble.outcome) for trouble in batch.troubles]


async def _drain(lane: Lane) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await lane.drain()
    except TimeoutError:
        pass
    finally:
        lane.close()


def _endpoint(settings: Settings, tenant_id: str) -> EndpointConfig:
    for tenant in settings.tenants:
        if tenant.id == tenant_id:
            return tenant.endpoint
    if settings.dynamic_tenants is None:
        raise KeyError(tenant_id)
    return settings.dynamic_tenants.endpoint_of(tenant_id)


def _same(before: Configured, after: Configured, tenant_id: str) -> bool:
    """Whether a tenant's lane may stay: its endpoint and the timeouts are as they were, secrets read from files too."""
    try:
        unchanged = _endpoint(before.settings, tenant_id) == _endpoint(after.settings, tenant_id)
    except KeyError:
        return False
    old, new = before.targets, after.targets
    if tenant_id in new.declared:
        unchanged = unchanged and old.declared.get(tenant_id) == new.declared[tenant_id]
    else:
        unchanged = unchanged and old.dynamic == new.dynamic
    return unchanged and before.settings.proxy.delivery == after.settings.proxy.delivery
