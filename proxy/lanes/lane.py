"""Lanes: the way of each tenant's parts to its upstream, one request in flight, in the order in which they came.

A lane takes parts (`put`), never waits and makes no task. While a request is in flight the next parts gather in groups;
a group is one request, of parts that follow each other and are of one lot (`group.lot_of`). When the reply comes, each
part of the request is settled with its batch, once, and the next group goes out. This is the way of an upstream that
takes what it is sent, in time; everything else is `trouble`.

All lanes share a pacer and a watch. A quiet lane sends in the loop's next round, so that what is put in this round goes
together. A crowded one (its last request, a moment ago, bore several parts) is held for some milliseconds, so that more
gathers. What is not answered in time is parked by the watch.

To stop: `drain` settles what is in hand by waiting, `park_all` makes it durable, `close` ends it.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from proxy.core.books import BY_HAND
from proxy.core.outcome import DELIVERED, Outcome, Refusal, Refused, Retryable, is_too_old
from proxy.core.wire import Part
from proxy.lanes.group import Group, lot_of
from proxy.lanes.outlet import Means, Outlet
from proxy.lanes.pacer import Pacer
from proxy.lanes.road import Observer, Upstream
from proxy.lanes.trouble import Trouble
from proxy.lanes.watch import Watch

BUSY_SECONDS: Final = 0.100
"""A crowded lane is held only if its last request ended so recently."""

HAND_BYTES: Final = 16 << 20
"""What a lane may have in hand before it is parked, however short it has waited: four requests."""

_SPLITTABLE: Final = frozenset({"upstream_400", "upstream_413"})
_STOPPED: Final = Retryable("stopping")
_TOO_OLD: Final = Refused("too_old", 400)


@dataclass(frozen=True, slots=True)
class Common:
    """What all lanes of a proxy share."""

    pacer: Pacer
    watch: Watch
    observer: Observer
    means: Means


class Lane:
    """The lane of one tenant to its outlet; begins with what the queue holds."""

    __slots__ = (
        "_books",
        "_closed",
        "_common",
        "_crowded",
        "_drained",
        "_flying",
        "_groups",
        "_outlet",
        "_road",
        "_scheduled",
        "_tail",
        "_trouble",
        "_watched",
        "tenant",
    )

    def __init__(self, outlet: Outlet, common: Common) -> None:
        self.tenant = outlet.road.tenant
        self._outlet = outlet
        self._road = outlet.road
        self._books = outlet.books
        self._common = common
        self._groups: deque[Group] = deque()
        self._tail: Group | None = None  # the last group, while parts may join it
        self._flying: Group | None = None
        self._trouble: Trouble | None = None
        self._scheduled = False  # the pacer will call `send`
        self._watched = False  # the watch will call `look`
        self._crowded = False
        self._closed = False
        self._drained: asyncio.Future[None] | None = None
        if outlet.queue.records:
            self._in_trouble().go_on()

    @property
    def halted(self) -> bool:
        """Whether it takes and sends nothing, until `resume`."""
        return self._closed

    @property
    def waits_for(self) -> str:
        """Why what is new goes to the queue: how the last request failed; empty where it does not."""
        trouble = self._trouble
        return (self._road.reason or "backlog") if trouble is not None and trouble.open else ""

    def put(self, part: Part) -> None:
        """Take a part; its batch is told what became of it."""
        if self._closed:
            part.batch.settle(self.tenant, part, _STOPPED)
            return
        trouble = self._trouble
        if trouble is not None and trouble.open:
            trouble.put(part)
            return
        lot = lot_of(part)
        group = self._tail
        if group is None or group.lot != lot or not group.has_room(part):
            group = self._tail = Group(lot, part.batch.attempt, self._common.observer.clock())
            self._groups.append(group)
        group.add(part)
        if self._flying is None and not self._scheduled and trouble is None:
            self._schedule()

    def send(self) -> None:
        """Send the next group; the pacer calls this, once for each time that the lane asked for it."""
        self._scheduled = False
        if self._trouble is not None or not self._groups:  # parked or closed meanwhile
            self._wake()
            return
        group = self._flying = self._groups.popleft()
        if group is self._tail:
            self._tail = None
        self._road.post(group.message(), group.attempt, self._on_outcome)

    def look(self, patience_seconds: float) -> bool:
        """Park what has not been answered for so long; whether there is anything left to look after."""
        since = self._waiting_since()
        if since is None:
            self._watched = False
            return False
        in_hand = sum(group.size for group in self._groups)
        if in_hand > HAND_BYTES or self._common.observer.clock() - since >= patience_seconds:
            self.park_all()
        return True

    def _waiting_since(self) -> float | None:
        """When the oldest part came that a sender waits for."""
        if self._flying is not None:
            return self._flying.since
        since = self._trouble.waiting_since if self._trouble is not None else None
        return self._groups[0].since if since is None and self._groups else since

    def replace(self, upstream: Upstream, refusal: Refusal) -> None:
        """Send to another upstream from the next request on, in order; the old one is closed when it is done."""
        self._road.replace(upstream, refusal)
        if self._trouble is not None:
            self._trouble.hurry()

    def give_up(self) -> tuple[int, int]:
        """Drop by hand what is in hand of the queue, unless it is in flight just now: records and samples."""
        return (0, 0) if self._trouble is None else self._trouble.give_up(BY_HAND)

    def expire(self) -> None:
        """Drop what is in hand of the queue and has become too old."""
        if self._trouble is not None:
            self._trouble.expire()

    # -- the end -------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Take no more parts, and return when all in hand are settled; the caller bounds the wait."""
        self._closed = True
        if self._trouble is not None:
            self._trouble.close()
        if not self._at_rest:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def park_all(self) -> None:
        """Make durable what is in hand, whatever becomes of it meanwhile."""
        flying = self._flying if self._flying is not None and not self._flying.metadata else None
        if flying is not None:
            self._flying = None
        trouble = self._in_trouble()
        trouble.park(flying)
        if self._closed:
            trouble.close()

    def halt(self) -> None:
        """Its tenant is configured no more: park what is in hand, send nothing, until `resume`."""
        self._closed = True
        if self._flying is not None or self._groups or self._trouble is not None:
            self.park_all()
        self._road.close()

    def resume(self, upstream: Upstream, refusal: Refusal) -> None:
        """Its tenant is configured again."""
        self._closed = False
        if self._outlet.queue.records:
            self._in_trouble()
        self.replace(upstream, refusal)

    def close(self) -> None:
        """Take no more parts, settle what waits in memory as retryable, and close the upstream."""
        self._closed = True
        for group in self.let_go():
            for part in group.parts:
                part.batch.settle(self.tenant, part, _STOPPED)
        self._road.close()
        self._wake()

    # -- the lane as its trouble sees it -------------------------------------------------------------------------------

    def let_go(self) -> list[Group]:
        """The groups that wait in memory, which are not the lane's any more."""
        groups = list(self._groups)
        self._groups.clear()
        self._tail = None
        return groups

    def recovered(self) -> None:
        """The trouble is over: go on with what came meanwhile."""
        self._trouble = None
        self._next()
        self._wake()

    def rested(self) -> None:
        """Something ended that `drain` may have waited for."""
        self._wake()

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._groups and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        common = self._common
        self._scheduled = True
        if self._crowded and common.observer.clock() - self._road.ended_at < BUSY_SECONDS:
            common.pacer.hold(self)
        else:
            common.pacer.soon(self)
        if not self._watched:
            self._watched = True
            common.watch.over(self)

    def _on_outcome(self, outcome: Outcome, said: bytes) -> None:
        group, self._flying = self._flying, None
        if group is None:  # parked in flight
            if self._trouble is not None:
                self._trouble.answered(outcome, said)
            self._wake()
            return
        self._crowded = len(group.parts) > 1
        if outcome is DELIVERED:
            self._delivered(group)
        elif group.metadata:
            self._common.means.books.metadata["dropped"] += group.metadata
            for part in group.parts:
                part.batch.delivered()
        elif isinstance(outcome, Refused) and outcome.reason not in _SPLITTABLE:
            self._refused(group, _TOO_OLD if group.replay and is_too_old(said) else outcome)
        else:
            self._in_trouble().begin(group, outcome, said)
        if self._trouble is not None:
            self._trouble.go_on()
        else:
            self._next()
        self._wake()

    def _delivered(self, group: Group) -> None:
        self._books.deliver(group.samples)
        self._books.made += group.made
        counts = self._common.means.books
        if group.exemplars:
            counts.exemplars["delivered"] += group.exemplars
        if group.metadata:
            counts.metadata["delivered"] += group.metadata
        for part in group.parts:
            part.batch.delivered()

    def _refused(self, group: Group, outcome: Refused) -> None:
        self._books.made += group.made
        self._books.drop(outcome.reason, group.samples)
        self._common.means.books.exemplars["dropped"] += group.exemplars
        for part in group.parts:
            part.batch.settle(self.tenant, part, outcome)

    def _in_trouble(self) -> Trouble:
        if self._trouble is None:
            self._trouble = Trouble(self._outlet, self._common.means, self)
        return self._trouble

    @property
    def _at_rest(self) -> bool:
        trouble = self._trouble
        return (
            self._flying is None and not self._groups and not self._road.busy and (trouble is None or trouble.at_rest)
        )

    def _wake(self) -> None:
        drained = self._drained
        if drained is not None and not drained.done() and self._at_rest:
            drained.set_result(None)
