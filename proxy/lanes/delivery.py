"""The lanes of all tenants: made when a tenant gets its first part or has something queued, and kept from then on.

A tenant whose endpoint changed goes on in its lane, so that order is kept, with another upstream. One that is gone
keeps its lane too, but nothing is sent: what that had in hand is parked, and waits in the queue for the tenant to be
configured again, or for somebody to drop it.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from config.tenants import EndpointConfig
from proxy.configured import Configured
from proxy.core.outcome import Outcome, Refusal, Retryable
from proxy.core.pieces import fitting
from proxy.core.wire import Part
from proxy.disk.kept import Kept
from proxy.endpoints import Embedded, Target, make_target
from proxy.lanes.batch import Batch
from proxy.lanes.group import GROUP_BYTES, GROUP_SAMPLES
from proxy.lanes.lane import Common, Lane
from proxy.lanes.outlet import Means, Outlet
from proxy.lanes.pacer import Pacer
from proxy.lanes.road import Observer, Road, Upstream
from proxy.lanes.watch import Watch
from proxy.upstreams.embedded import EmbeddedUpstream
from proxy.upstreams.upstream import HttpUpstream
from store import store_path

ANSWER_SECONDS: Final = 20.0
"""A sender gives up at 30 s and sends again; it is answered before that (remote-write facts R5)."""

DRAIN_SECONDS: Final = 5.0
"""How long lanes may finish what they have in hand when all is closed; then it is parked."""

_UNANSWERED: Final = Retryable("unanswered")
_GONE: Final = Retryable("reconfigured")


class _Ways:
    """Where one configuration sends each tenant's parts."""

    def __init__(self, configured: Configured) -> None:
        self._settings = configured.settings
        self._targets = configured.targets
        self._declared = {tenant.id: tenant.endpoint for tenant in configured.settings.tenants}

    def declares(self, tenant_id: str) -> bool:
        """Whether the configuration names the tenant."""
        return tenant_id in self._declared

    @property
    def makes_tenants(self) -> bool:
        """Whether tenants are made from data."""
        return self._settings.dynamic_tenants is not None

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
    """Sends parts through the lanes of their tenants; `start` begins with what their queues hold."""

    def __init__(self, configured: Configured, kept: Kept, observe: Callable[[str, str, float], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._data_dir = Path(configured.settings.proxy.data_dir)
        self._ways = _Ways(configured)
        self._books = books = kept.books
        self._kept = kept
        observer = Observer(observe)
        means = Means(loop, books, random.random, observer.clock, observer.now_ms)
        self._watch = Watch(loop, _patience(configured))
        self._common = Common(Pacer(loop), self._watch, observer, means)
        self._lanes: dict[str, Lane] = {}
        self._hurried = asyncio.Event()
        self._open_books(configured)

    def start(self) -> None:
        """Work off what the queues hold of tenants that have an endpoint, though no series of theirs came yet."""
        for tenant_id, queue in self._kept.queues.all().items():
            if queue.records and tenant_id not in self._lanes and self._goes_on(tenant_id):
                self._lane(tenant_id)

    def send(self, parts: Sequence[Part], attempt: int) -> Batch | None:
        """Put each part into its tenant's lane; None where there is none. `attempt` is the sender's `Retry-Attempt`."""
        if not parts:
            return None
        fit = [each for part in parts for each in fitting(part, GROUP_BYTES, GROUP_SAMPLES)]
        batch = Batch(self._loop, len(fit), attempt)
        for part in fit:
            part.batch = batch
            lane = self._lanes.get(part.tenant) or self._lane(part.tenant)
            if lane is not None:
                lane.put(part)
            else:
                batch.settle(part.tenant, part, _GONE)
        return batch

    async def deliver(self, parts: Sequence[Part]) -> Collection[str]:
        """Send parts, and wait until each has ended or is durable; the tenants of which one is neither."""
        batch = self.send(parts, 0)
        if batch is None:
            return ()
        await batch.wait()
        return {trouble.tenant for trouble in batch.troubles if isinstance(trouble.outcome, Retryable)}

    def waiting(self) -> Mapping[str, str]:
        """The tenants whose new parts go to their queues, and why."""
        return {tenant_id: lane.waits_for for tenant_id, lane in self._lanes.items() if lane.waits_for}

    def give_up(self, tenant_id: str) -> tuple[int, int]:
        """Drop by hand what a tenant's lane has in hand of its queue, unless in flight: records and samples."""
        lane = self._lanes.get(tenant_id)
        return (0, 0) if lane is None else lane.give_up()

    def expire(self) -> None:
        """Drop what lanes that send nothing have in hand of their queues and has become too old."""
        for lane in self._lanes.values():
            lane.expire()

    def reconfigure(self, configured: Configured) -> None:
        """Go on with another configuration; connections of endpoints that are the same stay."""
        before, self._ways = self._ways, _Ways(configured)
        self._watch.patience_seconds = _patience(configured)
        self._open_books(configured)
        for tenant_id, lane in self._lanes.items():
            if not self._goes_on(tenant_id):
                lane.halt()
            elif lane.halted:
                lane.resume(*self._way(tenant_id))
            elif before.identity(tenant_id) != self._ways.identity(tenant_id):
                lane.replace(*self._way(tenant_id))
        self.start()

    def hurry(self) -> None:
        """Let `close` wait for nothing."""
        self._hurried.set()

    async def close(self) -> None:
        """Finish what is in hand, for DRAIN_SECONDS at most, park the rest, and close all lanes."""
        lanes = self._lanes.values()
        finished = self._loop.create_task(_finish_all(lanes))
        hurried = self._loop.create_task(self._hurried.wait())
        _, pending = await asyncio.wait({finished, hurried}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait({finished, hurried})
        for lane in lanes:
            lane.close()

    def _goes_on(self, tenant_id: str) -> bool:
        """Whether what is queued for a tenant is to be sent: not that of one that was declared, and is no more."""
        declared = self._ways.declares(tenant_id)
        return declared or (self._ways.makes_tenants and tenant_id in self._kept.made_tenants)

    def _open_books(self, configured: Configured) -> None:
        """Let every declared tenant be in the metrics, from 0 on."""
        for tenant in configured.settings.tenants:
            self._books.tenant(tenant.id)

    def _lane(self, tenant_id: str) -> Lane | None:
        """A lane for a tenant that has none; None where a reload has just taken the tenant away."""
        if self._ways.endpoint(tenant_id) is None:
            return None
        road = Road(tenant_id, *self._way(tenant_id), self._common.observer)
        if not self._ways.declares(tenant_id):
            self._kept.made_tenants.note(tenant_id)
        outlet = Outlet(road, self._kept.queues.queue(tenant_id), self._books.tenant(tenant_id))
        lane = self._lanes[tenant_id] = Lane(outlet, self._common)
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
    """How the parts of a request ended that were neither delivered nor parked, after ANSWER_SECONDS at the latest.

    Parts wait longer than `park_after` only where the disk does not answer: they are told as retryable.
    """
    if batch is None:
        return []
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await batch.wait()
    except TimeoutError:
        return [*((trouble.tenant, trouble.outcome) for trouble in batch.troubles), ("the disk", _UNANSWERED)]
    return [(trouble.tenant, trouble.outcome) for trouble in batch.troubles]


def _patience(configured: Configured) -> float:
    return configured.settings.proxy.delivery.park_after / 1000


async def _finish_all(lanes: Iterable[Lane]) -> None:
    async with asyncio.TaskGroup() as group:
        for lane in lanes:
            group.create_task(_finish(lane))


async def _finish(lane: Lane) -> None:
    for last in (False, True):
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await lane.drain()
        except TimeoutError:
            if not last:
                lane.park_all()
        else:
            break
