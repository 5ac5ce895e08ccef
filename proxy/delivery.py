"""The lanes of all tenants: made when a tenant gets its first part, kept as long as its endpoint stays as it is.

A tenant whose endpoint changed goes on in its lane, so that order is kept, with another upstream. One that is gone
loses its lane: what that had in hand is drained for a moment, and the rest is told to its senders as retryable.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from config.tenants import EndpointConfig
from proxy.batch import Batch
from proxy.configured import Configured
from proxy.core.books import Books
from proxy.core.outcome import Outcome, Refusal, Retryable
from proxy.core.wire import Part
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


class _Ways:
    """Where one configuration sends each tenant's parts."""

    def __init__(self, configured: Configured) -> None:
        self._settings = configured.settings
        self._targets = configured.targets
        self._declared = {tenant.id: tenant.endpoint for tenant in configured.settings.tenants}

    def endpoint(self, tenant_id: str) -> EndpointConfig | None:
        """A declared tenant's endpoint, else that of a tenant made from data; None where there is neither."""
        declared = self._declared.get(tenant_id)
        dynamic = self._settings.dynamic_tenants
        return dynamic.endpoint_of(tenant_id) if declared is None and dynamic is not None else declared

    def target(self, tenant_id: str, endpoint: EndpointConfig) -> Target:
        """The tenant's endpoint made ready."""
        declared = self._targets.declared.get(tenant_id)
        return declared or make_target(endpoint, self._targets.dynamic, self._settings.proxy.delivery.timeout / 1000)

    def identity(self, tenant_id: str) -> object:
        """Equal in two configurations where a lane may stay: endpoint, what was read from files for it, time limits."""
        read = self._targets.declared.get(tenant_id) or self._targets.dynamic
        return self.endpoint(tenant_id), read, self._settings.proxy.delivery


class Delivery:
    """Sends parts through the lanes of their tenants."""

    def __init__(self, configured: Configured, books: Books, observe: Callable[[str, str, float], None]) -> None:
        self._data_dir = Path(configured.settings.proxy.data_dir)
        self._ways = _Ways(configured)
        self._books = books
        self._loop = asyncio.get_running_loop()
        self._common = Common(Pacer(self._loop), observe)
        self._lanes: dict[str, Lane] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._open_books(configured)

    def send(self, parts: Sequence[Part], attempt: int) -> Batch | None:
        """Put each part into its tenant's lane; None where there is none. `attempt` is the sender's `Retry-Attempt`."""
        if not parts:
            return None
        batch = Batch(self._loop, len(parts), attempt)
        for part in parts:
            lane = self._lanes.get(part.tenant) or self._lane(part.tenant)
            part.batch = batch
            lane.put(part)
        return batch

    def reconfigure(self, configured: Configured) -> None:
        """Go on with another configuration; connections of endpoints that are the same stay."""
        before, self._ways = self._ways, _Ways(configured)
        self._open_books(configured)
        for tenant_id in list(self._lanes):
            if configured.tenancy.tenant(tenant_id) is None:
                self._retire(self._lanes.pop(tenant_id))
            elif before.identity(tenant_id) != self._ways.identity(tenant_id):
                self._lanes[tenant_id].replace(*self._way(tenant_id))

    async def close(self) -> None:
        """Finish what is in hand, for DRAIN_SECONDS at most, and close all lanes."""
        lanes, self._lanes = list(self._lanes.values()), {}
        for lane in lanes:
            self._retire(lane)
        if self._closing:
            await asyncio.wait(self._closing)

    def _open_books(self, configured: Configured) -> None:
        """Let every declared tenant be in the metrics, from 0 on."""
        for tenant in configured.settings.tenants:
            self._books.tenant(tenant.id)

    def _retire(self, lane: Lane) -> None:
        task = self._loop.create_task(_drain(lane))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _lane(self, tenant_id: str) -> Lane:
        lane = Lane(tenant_id, *self._way(tenant_id), self._books.tenant(tenant_id), self._common)
        self._lanes[tenant_id] = lane
        return lane

    def _way(self, tenant_id: str) -> tuple[Upstream, Refusal]:
        endpoint = self._ways.endpoint(tenant_id)
        if endpoint is None:
            raise KeyError(tenant_id)
        target = self._ways.target(tenant_id, endpoint)
        if isinstance(target, Embedded):
            return EmbeddedUpstream(store_path(self._data_dir, tenant_id), self._loop), endpoint.refusal
        return HttpUpstream(target, self._loop), endpoint.refusal


async def outcomes(batch: Batch | None) -> list[tuple[str, Outcome]]:
    """How the parts of a request ended that were not delivered, ANSWER_SECONDS after this is called at the latest.

    Parts still under way by then are told as retryable. What is in a request by then may be delivered later, and its
    sender sends it once more, which no store minds; what still waits is given up, or a store that hangs would gather in
    its lane whatever its senders send again and again.
    """
    if batch is None:
        return []
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await batch.wait()
    except TimeoutError:
        batch.given_up = True
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
