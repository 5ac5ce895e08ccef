"""The client of one tenant's endpoint: one POST at a time, replies by callback, one connection that is kept.

Nothing is created per POST but the request's bytes. A connection is made by a task when there is none, and closed when
nothing was sent for a while. One timer, set only while there is a request or a connection, watches both: it is set for
a `timeout` at most and looks when it fires, so that a POST sets none. The timeout counts from `post` to the end of the
reply, with resolving, connecting and the handshake, so that a peer that dribbles gains nothing.

A kept connection that the peer closes just when a request goes out is the one error that is mended here: if no byte of
a reply came, the same bytes go out once more on a fresh connection. Everything else is told to the lane, which decides.
Redirects are not followed, and nothing is taken from the environment.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from proxy.core import codec
from proxy.core.outcome import Reply
from proxy.upstreams.connection import Connection, failure
from proxy.upstreams.target import UpstreamTarget

IDLE_SECONDS: Final = 240.0
"""A connection that was unused for so long is closed; senders keep theirs for five minutes, stores for two or more."""

_CLOSED: Final = Reply(0, error="closed")
_TIMEOUT: Final = Reply(0, error="timeout")
_CONNECT_TIMEOUT: Final = Reply(0, error="connect_timeout")


class HttpUpstream:
    """Posts to one target until it is closed."""

    __slots__ = (
        "_alarm",
        "_closed",
        "_connecting",
        "_connection",
        "_deadline",
        "_loop",
        "_on_reply",
        "_request",
        "_target",
        "_used_at",
    )

    def __init__(self, target: UpstreamTarget, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop
        self._closed = False
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._on_reply: Callable[[Reply], None] | None = None
        self._request = b""
        self._deadline = 0.0
        self._used_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    @staticmethod
    def encode(message: bytes) -> bytes:
        """A WriteRequest as this upstream takes it: one snappy block."""
        return codec.encode(message)

    def post(self, body: bytes, attempt: int, on_reply: Callable[[Reply], None]) -> None:
        """Send `body` (snappy) and call `on_reply` once, not before this returns.

        `attempt` counts earlier attempts with the same bytes; above 0 it goes out as `Retry-Attempt`. Raises
        RuntimeError while a request is under way.
        """
        if self._on_reply is not None:
            raise RuntimeError("one request at a time")
        if self._closed:
            self._loop.call_soon(on_reply, _CLOSED)
            return
        self._on_reply = on_reply
        end = b"%d\r\nRetry-Attempt: %d\r\n\r\n" % (len(body), attempt) if attempt else b"%d\r\n\r\n" % len(body)
        self._request = b"".join((self._target.head, end, body))
        self._used_at = self._loop.time()
        self._deadline = self._used_at + self._target.timeout_seconds
        if self._alarm is None:
            self._alarm = self._loop.call_at(self._deadline, self._look)
        connection = self._connection
        if connection is not None and connection.open:
            connection.send(self._request)
        else:
            self._connect()

    def close(self) -> None:
        """Close the connection and refuse further posts; a request under way ends with the error `closed`."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._disconnect()
        self._finish(_CLOSED)

    def _connect(self) -> None:
        self._connecting = self._loop.create_task(self._open())

    async def _open(self) -> None:
        target = self._target
        try:
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._on_end),
                target.host,
                target.port,
                ssl=target.tls,
                server_hostname=target.host if target.tls is not None else None,
            )
        except (OSError, UnicodeError) as error:
            self._connecting = None
            self._finish(failure(error))
            return
        self._connecting = None
        self._connection = connection
        if connection.open:
            connection.send(self._request)
        else:
            self._finish(_CLOSED)

    def _on_end(self, connection: Connection, reply: Reply) -> None:
        if reply.error is not None and connection.exchanges and not connection.heard:
            self._connect()
        else:
            self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        on_reply, self._on_reply = self._on_reply, None
        self._request = b""
        if on_reply is not None:
            on_reply(reply)

    def _disconnect(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _look(self) -> None:
        """Give up a request that is over its time; close a connection that is idle; look again later otherwise."""
        self._alarm = None
        now = self._loop.time()
        if self._on_reply is not None:
            if now >= self._deadline:
                word = _TIMEOUT if self._connecting is None else _CONNECT_TIMEOUT
                self._disconnect()
                self._finish(word)
                return
            due = self._deadline
        elif self._connection is not None and self._connection.open and now < self._used_at + IDLE_SECONDS:
            due = min(self._used_at + IDLE_SECONDS, now + self._target.timeout_seconds)
        else:
            self._disconnect()
            return
        self._alarm = self._loop.call_at(due, self._look)
