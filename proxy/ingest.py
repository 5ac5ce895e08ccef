"""The write path: a bare ASGI endpoint, because a framework's request costs more than ours.

Order: headers (415, 405) - sender (401) - room (503) - body (400, 408) - earlier attempts - intake - delivery and
quarantine side by side - one answer. From `Intake.take` on everything of a request is done, whether its sender is still
there or not: a sender that gave up sends the same bytes again, with `Retry-Attempt`, and what has been done of it by
then is left out (remote-write facts 3). Without that header the same bytes are another request; stores take the same
sample twice without harm.

Answers are plain text, one line, the reason first. Remote write 1.0 answers never bear Written headers: a sender that
finds any trusts their numbers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Protocol

import structlog

from proxy.attempts import Attempts, CarriedOut
from proxy.core import codec
from proxy.core.errors import (
    BusyError,
    CompressedSizeError,
    ProxyError,
    RequestError,
    SlowBodyError,
)
from proxy.core.gathering import Taken
from proxy.core.had import Complete, Ended, Had, Incomplete, had_after
from proxy.core.negotiate import check_request
from proxy.core.outcome import Outcome, Refused, Retryable, answer
from proxy.core.resends import key_of
from proxy.core.senders import CHALLENGE, Sender, Senders

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

RETRY_AFTER_SECONDS: Final = 5
"""What a sender is told to wait with a 503: its own longest backoff, so that one tenant stops no shard for longer."""

ANSWER_CHARACTERS: Final = 1000
"""Prometheus logs the first 1024 bytes of an answer."""

_ATTEMPT_DIGITS: Final = 7  # more attempts than a sender makes in its lifetime

_TEXT_HEADERS: Final = ((b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff"))
_STATUS_HEADERS: Final[Mapping[int, tuple[bytes, bytes]]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (b"www-authenticate", CHALLENGE.encode()),
        HTTPStatus.METHOD_NOT_ALLOWED: (b"allow", b"POST"),
        # What comes next on the connection is the rest of that body (RFC 9110 15.5.9).
        HTTPStatus.REQUEST_TIMEOUT: (b"connection", b"close"),
        HTTPStatus.SERVICE_UNAVAILABLE: (b"retry-after", str(RETRY_AFTER_SECONDS).encode()),
    }
)

_log: Final = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a request may take: see `proxy.limits`."""

    compressed_bytes: int
    decoded_bytes: int
    inflight_requests: int
    read_timeout_seconds: float


class Work(Protocol):
    """What the endpoint needs of the proxy behind it."""

    @property
    def senders(self) -> Senders:
        """Who may send."""
        ...

    @property
    def limits(self) -> RequestLimits:
        """What a request may take."""
        ...

    async def take(self, body: bytes, sender: Sender, had: Incomplete | None) -> Taken:
        """Decide on a decoded request, without what earlier attempts have done of it.

        Raises RequestError, and then has counted nothing of it.
        """
        ...

    async def carry_out(self, taken: Taken, sender: Sender, attempt: int) -> CarriedOut:
        """Deliver and hold back; `attempt` is the sender's `Retry-Attempt`."""
        ...

    def came_again(self, received: int, sender: Sender) -> None:
        """Count the samples of a request that is sent again though all of it has been done."""
        ...

    def refused(self, error: RequestError) -> None:
        """Count a request that was refused as a whole."""
        ...

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender gets: a status, and one line of text where there is something to say."""

    status: int
    text: str = ""


def combine(taken: Taken, ended: Iterable[tuple[str, Outcome]]) -> Answer:
    """The answer to a request: retryable over permanent over success, refusals of our own being permanent.

    Tenants are named with our own reason, never with the text of a store, which names other tenants' series.
    """
    outcomes = list(ended)
    status = max(answer(outcome for _, outcome in outcomes), 400 if taken.refusals else 204)
    if status == HTTPStatus.NO_CONTENT:
        return Answer(status)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        waiting = sorted({f"{tenant} ({o.reason})" for tenant, o in outcomes if isinstance(o, Retryable)})
        return Answer(status, f"retry: not delivered yet: {', '.join(waiting)}")
    sentences = list(taken.refusals)
    sentences += sorted({f"{o.reason}: tenant {tenant}" for tenant, o in outcomes if isinstance(o, Refused)})
    more = f" (first of {taken.refused})" if taken.refused > len(taken.refusals) else ""
    return Answer(status, "; ".join(sentences) + more)


class WriteEndpoint:
    """The ASGI application of the write path."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._attempts = Attempts()
        self._inflight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            answered = await self._handle(scope, receive)
        except RequestError as error:
            self._work.refused(error)
            answered = Answer(error.status, error.sentence)
        except asyncio.CancelledError:  # by the server, which stops and has waited long enough for this request
            answered = Answer(503, "stopping: not delivered yet; send it again")
        except ProxyError:
            _log.exception("request failed")
            answered = Answer(503, "internal: the request could not be worked on; it is in the log")
        self._work.answered(answered.status, clock() - begun)
        await _reply(send, answered)

    async def _handle(self, scope: Scope, receive: Receive) -> Answer:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        check_request(scope["method"], headers.get(b"content-type"), headers.get(b"content-encoding"))
        sender = self._work.senders.identify(headers.get(b"authorization"))
        limits = self._work.limits
        if self._inflight >= limits.inflight_requests:
            raise BusyError(
                f"{limits.inflight_requests} requests are in flight, limits.inflight_requests; send it later"
            )
        self._inflight += 1
        try:
            body = await _read_body(receive, headers.get(b"content-length"), limits)
            return await self._answer(body, sender, _attempt(headers.get(b"retry-attempt")))
        finally:
            self._inflight -= 1

    async def _answer(self, body: bytes, sender: Sender, number: int) -> Answer:
        """Work on an attempt of a request, `number` 0 being the first, and tell what its sender gets."""
        key = key_of(sender.name, body)
        had = await self._attempts.earlier(key) if number else None
        if isinstance(had, Complete):
            self._work.came_again(had.received, sender)
            return Answer(had.status, had.text)
        attempt = self._attempts.begin(key)
        try:
            taken = await self._work.take(codec.decode(body, self._work.limits.decoded_bytes), sender, had)
            carried = await self._work.carry_out(taken, sender, number)
        except BaseException:
            self._attempts.end(attempt, had)
            raise
        settling = carried.settling
        ended = _ended(taken, carried, had)
        if settling is None or not settling.open:
            self._attempts.end(attempt, had_after(taken, ended, had))
        else:
            settling.when_settled(lambda: self._attempts.end(attempt, _had_in_the_end(taken, carried, had)))
        return Answer(ended.status, ended.text)


def _ended(taken: Taken, carried: CarriedOut, had: Incomplete | None) -> Ended:
    """How an attempt ended as far as its answer goes, which tells of what earlier ones could not store, too."""
    troubles = () if carried.settling is None else carried.settling.troubles
    if carried.failed is not None:
        return Ended(troubles, held=False, status=carried.failed.status, text=carried.failed.sentence)
    answered = combine(taken, carried.outcomes if had is None else [*carried.outcomes, *had.refused])
    return Ended(troubles, held=True, status=answered.status, text=answered.text[:ANSWER_CHARACTERS])


def _had_in_the_end(taken: Taken, carried: CarriedOut, had: Incomplete | None) -> Had | None:
    """What is known of an attempt whose parts ended after its answer, which is another one by then."""
    troubles = () if carried.settling is None else carried.settling.troubles
    outcomes = [(tenant, outcome) for tenant, _, outcome in troubles]
    return had_after(taken, _ended(taken, replace(carried, outcomes=outcomes), had), had)


def _attempt(text: str | None) -> int:
    """The number in a `Retry-Attempt` header; 0 where there is none that can be read."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < _ATTEMPT_DIGITS else 0


async def _read_body(receive: Receive, content_length: str | None, limits: RequestLimits) -> bytes:
    """The whole body; raises CompressedSizeError and SlowBodyError, for a sender that went away too."""
    too_long = CompressedSizeError(
        f"the body is longer than limits.compressed_bytes, {limits.compressed_bytes}; send smaller batches"
    )
    if content_length is not None and content_length.isdigit() and int(content_length[:18]) > limits.compressed_bytes:
        raise too_long
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.read_timeout_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise SlowBodyError("the sender went away before the body was complete")
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > limits.compressed_bytes:
                    raise too_long
                chunks.append(chunk)
                if not message.get("more_body"):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except TimeoutError:
        raise SlowBodyError(
            f"the body did not arrive within limits.read_timeout, {limits.read_timeout_seconds:g} s; send it again"
        ) from None


async def _reply(send: Send, answered: Answer) -> None:
    line = "".join(each if each.isprintable() else " " for each in answered.text[:ANSWER_CHARACTERS])
    body = f"{line}\n".encode() if line else b""
    headers: list[tuple[bytes, bytes]] = []
    if body:
        headers.append((b"content-length", str(len(body)).encode()))
        headers += _TEXT_HEADERS
    if answered.status in _STATUS_HEADERS:
        headers.append(_STATUS_HEADERS[answered.status])
    await send({"type": "http.response.start", "status": answered.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
