"""One HTTP/1.1 connection to an upstream: writes a request, reads its reply, one exchange at a time.

Callbacks only; nothing here knows tenants, retries or time. `on_end` is called once per `send`, with a reply or with
an error word, never from within `send`. A reply is final whatever its head says next to nothing else: informational
ones (1xx) are passed over, and a connection is kept only after a whole reply that allows it, with nothing behind it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

import httptools

from proxy.core.outcome import REPLY_BODY_BYTES, Reply

REPLY_BYTES: Final = 64 << 10
"""A longer reply, interim ones included, is not read on: stores answer in a few hundred bytes."""

_RETRY_AFTER_BYTES: Final = 64  # the longest date of RFC 9110 has 34 characters
_SWITCHING_PROTOCOLS: Final = 101
_FINAL_STATUS: Final = 200
_PLAIN: Final[Mapping[int, Reply]] = MappingProxyType({status: Reply(status) for status in (200, 202, 204)})
_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (socket.gaierror, "dns"),
    (UnicodeError, "dns"),  # a host name that IDNA does not know
    (ssl.SSLError, "tls"),
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "reset"),
    (TimeoutError, "timeout"),
    (OSError, "unreachable"),
)


def failure(error: Exception | None) -> Reply:
    """The reply that stands for a transport error; without one, the peer closed in order but too early."""
    if error is None:
        return Reply(0, error="closed")
    return Reply(0, error=next((word for kind, word in _WORDS if isinstance(error, kind)), "unreachable"))


class Connection(asyncio.Protocol):
    """`open` says whether another request may be sent; `exchanges` counts those that ended with a reply."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_busy",
        "_complete",
        "_framed",
        "_headed",
        "_keep",
        "_on_end",
        "_parser",
        "_received",
        "_retry_after",
        "_status",
        "_transport",
        "exchanges",
        "open",
    )

    _transport: asyncio.Transport
    _retry_after: str | None
    _body: list[bytes]

    def __init__(self, on_end: "Callable[[Connection, Reply], None]") -> None:
        self.open = False
        self.exchanges = 0
        self._on_end = on_end
        self._busy = False
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def send(self, request: bytes) -> None:
        """Write one request; only when `open`, and not before the end of the one before."""
        self._busy = True
        self._reset()
        self._transport.write(request)

    @property
    def heard(self) -> bool:
        """Whether any byte came since the last `send`."""
        return self._received > 0

    def abort(self) -> None:
        """Close at once, and say nothing more to `on_end`."""
        self.open = self._busy = False
        self._transport.abort()

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast("asyncio.Transport", transport)  # streams get nothing else; uvloop's is no subclass
        self.open = True

    def data_received(self, data: bytes) -> None:
        """Read on; bytes that nobody asked for end the connection."""
        if not self._busy:
            self.abort()
            return
        self._received += len(data)
        broken = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            broken = True
        if self._complete:
            self._end(keep=self._keep and not broken)
        elif broken:
            self._fail(Reply(0, error="bad_reply"))
        elif self._received > REPLY_BYTES:
            if self._headed:
                self._end(keep=False)
            else:
                self._fail(Reply(0, error="bad_reply"))

    def eof_received(self) -> None:
        """Ends a reply that has no length; the transport closes itself."""
        self.open = False
        if self._busy and self._headed and not self._framed:
            self._end(keep=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what was under way."""
        self.open = False
        if self._busy:
            self._fail(failure(exc))

    # ------------------------------------------------------------------ httptools

    def on_message_begin(self) -> None:
        """A second reply to one request is no reply."""
        if self._complete:
            raise httptools.HttpParserError("bytes behind the reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what says how the reply ends, and when to come again; trailers say nothing."""
        if self._headed:
            return
        name = name.lower()
        if name in {b"content-length", b"transfer-encoding"}:
            self._framed = True
        elif name == b"retry-after":
            self._retry_after = value[:_RETRY_AFTER_BYTES].decode("latin-1")

    def on_headers_complete(self) -> None:
        """From here on the status is known, whatever becomes of the body."""
        self._status = self._parser.get_status_code()
        self._headed = self._status >= _FINAL_STATUS or self._status == _SWITCHING_PROTOCOLS

    def on_body(self, body: bytes) -> None:
        """Keep the beginning for the log."""
        if self._body_bytes < REPLY_BODY_BYTES:
            self._body.append(body[: REPLY_BODY_BYTES - self._body_bytes])
            self._body_bytes += len(self._body[-1])

    def on_message_complete(self) -> None:
        """The end of a reply, or of an interim one."""
        if self._headed:
            self._complete = True
            self._keep = self._parser.should_keep_alive()
        else:
            self._framed = False
            self._retry_after = None

    # ------------------------------------------------------------------

    def _reset(self) -> None:
        self._complete = self._framed = self._headed = self._keep = False
        self._received = self._status = self._body_bytes = 0
        self._retry_after = None
        self._body = []

    def _end(self, *, keep: bool) -> None:
        self._busy = False
        self.exchanges += 1
        # A reply that came before the whole request was written leaves the rest of it in the way of the next one.
        if not keep or self._transport.get_write_buffer_size():
            self.abort()
        plain = None if self._body or self._retry_after is not None else _PLAIN.get(self._status)
        self._on_end(self, plain or Reply(self._status, self._retry_after, b"".join(self._body)))

    def _fail(self, reply: Reply) -> None:
        self.abort()
        self._on_end(self, reply)
