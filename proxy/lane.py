"""Lanes: the way of each tenant's parts to its upstream, one request in flight, in the order in which they came.

A lane takes parts (`put`), never waits and never makes a task, a future or a timer of its own. While a request is in
flight the next parts gather in groups; a group is one request, and holds parts that follow each other and have one
(cluster, replica) pair, because a store that removes the duplicates of a highly available sender looks at a request's
first series only. When the reply comes, each part of the request is settled with its batch, once, and the next group
goes out. The parts of an upstream whose 400 refuses a whole request travel alone.

All lanes share a pacer. A quiet lane sends in the loop's next round, so that what is put in this round goes together.
A crowded one (its last request, a moment ago, bore several parts) is held for some milliseconds, so that more gathers.

To stop: `drain` settles what is in hand by waiting, `close` at once, as retryable. A closed lane takes no parts.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from proxy.clock import now_ms
from proxy.core.books import TenantBooks
from proxy.core.outcome import DELIVERED, Delivered, Outcome, Refusal, Refused, Reply, Retryable, judge
from proxy.core.wire import Part
from proxy.pacer import Pacer

_log: Final = structlog.get_logger()

GROUP_BYTES: Final = 4 << 20
"""Uncompressed bytes of a request after which no further part joins: an eighth of what Prometheus takes (32 MiB)."""
GROUP_SAMPLES: Final = 10_000
"""Samples likewise: what vmagent sends at once, below the burst that Cortex and Mimir allow a tenant (50,000)."""
BUSY_SECONDS: Final = 0.100
"""A crowded lane is held only if its last request ended so recently."""

_STOPPED: Final = Retryable("stopping")
_GIVEN_UP: Final = Retryable("unanswered")
_INTERNAL: Final = Reply(0, error="internal")


class Upstream(Protocol):
    """Where a lane sends."""

    def encode(self, message: bytes) -> bytes:
        """A WriteRequest 1.0 in the form that `post` takes."""

    def post(self, body: bytes, attempt: int, on_reply: Callable[[Reply], None]) -> None:
        """Send, and call `on_reply` once, not before this returns; one request at a time."""

    def close(self) -> None:
        """Let go of everything; a request in flight is still told, as an error or as it ends."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all lanes of a proxy share.

    `observe` is told each reply: tenant, code, seconds. `clock` counts seconds and never steps back, `now_ms` is the
    time since the epoch.
    """

    pacer: Pacer
    observe: Callable[[str, str, float], None]
    clock: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = now_ms


class _Group:
    """The parts of one request; `attempt` is that of the first."""

    __slots__ = ("attempt", "made", "pair", "parts", "samples", "size")

    def __init__(self, pair: Hashable, attempt: int) -> None:
        self.pair = pair
        self.attempt = attempt
        self.parts: list[Part] = []
        self.samples = 0
        self.made = 0
        self.size = 0

    def let_go(self) -> list[Part]:
        """Be without the parts that were given up; these."""
        gone = [part for part in self.parts if part.batch.given_up]
        if gone:
            self.parts = [part for part in self.parts if not part.batch.given_up]
            self.samples -= sum(part.samples for part in gone)
            self.made -= sum(part.made for part in gone)
        return gone


class Lane:
    """The lane of one tenant to one upstream. `refusal` is what that upstream's 400 means."""

    __slots__ = (
        "_alone",
        "_books",
        "_closed",
        "_common",
        "_crowded",
        "_drained",
        "_ended_at",
        "_flying",
        "_groups",
        "_reason",
        "_refusal",
        "_retired",
        "_scheduled",
        "_sent_at",
        "_sent_refusal",
        "_tail",
        "_upstream",
        "tenant",
    )

    def __init__(self, tenant: str, upstream: Upstream, refusal: Refusal, books: TenantBooks, common: Common) -> None:
        self.tenant = tenant
        self._upstream = upstream
        self._refusal: Refusal = refusal
        self._books = books
        self._common = common
        self._alone = refusal == "whole"
        self._groups: deque[_Group] = deque()
        self._tail: _Group | None = None  # the last group, while parts may join it
        self._flying: _Group | None = None
        self._scheduled = False  # the pacer will call `send`
        self._crowded = False
        self._closed = False
        self._sent_at = 0.0
        self._sent_refusal: Refusal = refusal
        self._ended_at = 0.0
        self._retired: Upstream | None = None  # bears the request in flight, and is closed with its reply
        self._reason = ""  # of the trouble that was logged last, so that each kind is logged once
        self._drained: asyncio.Future[None] | None = None

    def put(self, part: Part) -> None:
        """Take a part; its batch is told what became of it."""
        if self._closed:
            part.batch.settle(self.tenant, part, _STOPPED)
            return
        group = self._tail
        samples = part.samples
        size = part.size
        if (
            group is None
            or group.pair != part.pair
            or group.samples + samples > GROUP_SAMPLES
            or group.size + size > GROUP_BYTES
        ):
            group = _Group(part.pair, part.batch.attempt)
            self._groups.append(group)
            self._tail = None if self._alone else group
        group.parts.append(part)
        group.samples += samples
        group.size += size
        if part.made:
            group.made += part.made
        if self._flying is None and not self._scheduled:
            self._schedule()

    def replace(self, upstream: Upstream, refusal: Refusal) -> None:
        """Send to another upstream from the next request on, in order; the old one is closed when it is done."""
        if self._flying is None:
            self._upstream.close()
        elif self._retired is None:
            self._retired = self._upstream
        else:  # replaced twice under one request: the one between has sent nothing
            self._upstream.close()
        self._upstream = upstream
        self._refusal = refusal
        self._alone = refusal == "whole"
        self._tail = None

    def send(self) -> None:
        """Send the next group; the pacer calls this, once for each time that the lane asked for it."""
        self._scheduled = False
        group = self._next()
        if group is None:  # closed meanwhile, or all given up
            self._wake()
            return
        self._flying = group
        self._sent_at = self._common.clock()
        self._sent_refusal = self._refusal
        try:
            pieces: list[bytes] = []
            for part in group.parts:
                pieces += part.chunks
            message = b"".join(pieces)
            self._upstream.post(self._upstream.encode(message), group.attempt, self._on_reply)
        except Exception:  # noqa: BLE001 - the outermost frame of a callback that serves all lanes: a defect stays here
            _log.exception("lane failed", tenant=self.tenant)
            self._on_reply(_INTERNAL)

    def _next(self) -> _Group | None:
        """The next group, without the parts that were given up: these are settled, and so memory is bounded."""
        while self._groups:
            group = self._groups.popleft()
            if group is self._tail:
                self._tail = None
            for part in group.let_go():
                part.batch.settle(self.tenant, part, _GIVEN_UP)
            if group.parts:
                return group
        return None

    async def drain(self) -> None:
        """Take no more parts, and return when all in hand are settled; the caller bounds the wait, then closes."""
        self._closed = True
        if self._flying is not None or self._groups:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def close(self) -> None:
        """Take no more parts, settle all in hand as retryable, and close the upstream."""
        self._closed = True
        self._tail = None
        while self._groups:
            self._settle(self._groups.popleft(), _STOPPED)
        self._upstream.close()
        if self._retired is not None:
            self._retired.close()
        self._wake()

    def _schedule(self) -> None:
        self._scheduled = True
        if self._crowded and self._common.clock() - self._ended_at < BUSY_SECONDS:
            self._common.pacer.hold(self)
        else:
            self._common.pacer.soon(self)

    def _on_reply(self, reply: Reply) -> None:
        group, self._flying = self._flying, None
        if group is None:
            return
        common = self._common
        self._ended_at = common.clock()
        self._crowded = len(group.parts) > 1
        common.observe(self.tenant, reply.code, self._ended_at - self._sent_at)
        outcome = judge(reply, self._sent_refusal, common.now_ms())
        self._tell(reply, outcome)
        self._settle(group, outcome)
        if self._retired is not None:
            self._retired.close()
            self._retired = None
        if self._groups:
            self._schedule()
        self._wake()

    def _settle(self, group: _Group, outcome: Outcome) -> None:
        """Count a group and tell its batches; what is retryable goes back to its senders, uncounted (design 6)."""
        if outcome is DELIVERED:
            self._books.parts += group.samples
            self._books.made += group.made
            self._books.delivered += group.samples
            for part in group.parts:
                part.batch.delivered()
            return
        if isinstance(outcome, Refused):
            self._books.made += group.made
            self._books.drop(outcome.reason, group.samples)
        for part in group.parts:
            part.batch.settle(self.tenant, part, outcome)

    def _tell(self, reply: Reply, outcome: Outcome) -> None:
        """Log each kind of trouble when it begins, with what the upstream said; that text goes nowhere else."""
        reason = "" if isinstance(outcome, Delivered) else outcome.reason
        if reason and reason != self._reason:
            said = reply.body.decode("utf-8", "replace")
            _log.warning("upstream in trouble", tenant=self.tenant, reason=reason, said=said)
        elif not reason and self._reason:
            _log.info("upstream recovered", tenant=self.tenant)
        self._reason = reason

    def _wake(self) -> None:
        drained = self._drained
        if drained is not None and not drained.done() and self._flying is None and not self._groups:
            drained.set_result(None)
