"""The way to one tenant's upstream: one request at a time, judged when it ends, to another upstream from then on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from proxy.clock import now_ms
from proxy.core.outcome import DELIVERED, Delivered, Outcome, Refusal, Reply, judge

_log: Final = structlog.get_logger()

_INTERNAL: Final = Reply(0, error="internal")

_MISCONFIGURED: Final = frozenset({301, 302, 303, 307, 308, 401, 403, 404})
"""Replies that do not pass by themselves: somebody has to mend the endpoint's url or credentials."""
_MEND: Final = "check the url and the credentials of the tenant's endpoint"

QUIET_SECONDS: Final = 60.0
"""A kind of trouble that comes and goes, as a bad series in every other request, is logged once in so long."""


class Upstream(Protocol):
    """Where a lane sends."""

    def encode(self, message: bytes) -> bytes:
        """A WriteRequest 1.0 in the form that `post` takes."""

    def post(self, body: bytes, attempt: int, on_reply: Callable[[Reply], None]) -> None:
        """Send, and call `on_reply` once, not before this returns; one request at a time."""

    def close(self) -> None:
        """Let go of everything; a request in flight is still told, as an error or as it ends."""


@dataclass(frozen=True, slots=True)
class Observer:
    """What a road is told the time by, and whom it tells of each reply: tenant, code, seconds.

    `clock` counts seconds and never steps back, `now_ms` is the time since the epoch.
    """

    observe: Callable[[str, str, float], None]
    clock: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = now_ms


OnOutcome = Callable[[Outcome, bytes], None]
"""Gets how a request ended, and what the upstream said; that text goes into the log and nowhere else."""


class Road:
    """The road of a tenant. `refusal` is what the present upstream's 400 means, `reason` why the last request failed.

    An upstream that is replaced under a request bears it to its end, by its own meaning of a 400.
    """

    __slots__ = (
        "_clock",
        "_observer",
        "_on_outcome",
        "_retired",
        "_sent_at",
        "_sent_refusal",
        "_told",
        "_told_at",
        "_upstream",
        "ended_at",
        "reason",
        "refusal",
        "tenant",
    )

    def __init__(self, tenant: str, upstream: Upstream, refusal: Refusal, observer: Observer) -> None:
        self.tenant = tenant
        self.refusal: Refusal = refusal
        self.reason = ""
        self.ended_at = 0.0
        self._upstream = upstream
        self._observer = observer
        self._clock = observer.clock
        self._on_outcome: OnOutcome | None = None
        self._sent_at = 0.0
        self._sent_refusal: Refusal = refusal
        self._retired: Upstream | None = None  # bears the request in flight, and is closed with its reply
        self._told: str | None = None  # the trouble that the log was last told of, until it is over
        self._told_at: dict[str, float] = {}

    @property
    def busy(self) -> bool:
        """Whether a request is in flight."""
        return self._on_outcome is not None

    def post(self, message: bytes, attempt: int, on_outcome: OnOutcome) -> None:
        """Send a request and tell how it ended, not before this returns unless it could not be sent at all."""
        self._on_outcome = on_outcome
        self._sent_at = self._clock()
        self._sent_refusal = self.refusal
        try:
            self._upstream.post(self._upstream.encode(message), attempt, self._on_reply)
        except Exception:  # noqa: BLE001 - the outermost frame of a callback that serves all lanes: a defect stays here
            _log.exception("request not sent", tenant=self.tenant)
            self._on_reply(_INTERNAL)

    def replace(self, upstream: Upstream, refusal: Refusal) -> None:
        """Send to another upstream from the next request on."""
        if self._on_outcome is not None and self._retired is None:
            self._retired = self._upstream
        else:  # idle, or replaced twice under one request: the one between has sent nothing
            self._upstream.close()
        self._upstream = upstream
        self.refusal = refusal

    def close(self) -> None:
        """Close the upstream; a request in flight ends as it can."""
        self._upstream.close()
        if self._retired is not None:
            self._retired.close()

    def _on_reply(self, reply: Reply) -> None:
        on_outcome, self._on_outcome = self._on_outcome, None
        if on_outcome is None:
            return
        self.ended_at = self._clock()
        self._observer.observe(self.tenant, reply.code, self.ended_at - self._sent_at)
        if self._retired is not None:
            self._retired.close()
            self._retired = None
        outcome = judge(reply, self._sent_refusal, self._observer.now_ms())
        if outcome is not DELIVERED or self.reason:
            self._tell(reply, outcome)
        on_outcome(outcome, reply.body)

    def _tell(self, reply: Reply, outcome: Outcome) -> None:
        """Log each kind of trouble when it begins, once in QUIET_SECONDS at most, and its end if it was logged."""
        if isinstance(outcome, Delivered):
            if self._told is not None:
                _log.info("upstream recovered", tenant=self.tenant)
            self.reason, self._told = "", None
            return
        now = self.ended_at
        if outcome.reason != self.reason and now - self._told_at.get(outcome.reason, -QUIET_SECONDS) >= QUIET_SECONDS:
            said = reply.body.decode("utf-8", "replace")
            trouble = {"tenant": self.tenant, "reason": outcome.reason, "said": said}
            if reply.status in _MISCONFIGURED:
                _log.error("upstream in trouble", **trouble, mend=_MEND)
            else:
                _log.warning("upstream in trouble", **trouble)
            self._told = outcome.reason
            self._told_at[outcome.reason] = now
        self.reason = outcome.reason
