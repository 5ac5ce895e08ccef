"""HTTP/1.1 towards senders: uvicorn's protocol, with an end to what a request may take beside its body.

uvicorn and the parser below it keep a head, however long and slow it comes, before anybody knows who sends it. Here a
connection may bring HEAD_BYTES (and one read more) that are no body, as head, chunk extensions or trailers, before its
request moves on, and a head must be whole after HEAD_SECONDS. Bodies have their own limits (`proxy.ingest`).

A request that asks to upgrade the connection is answered as if it did not (RFC 9110 7.8), and is the last on it: the
parser stops there. With a body it is refused, since the parser has lost that.
"""

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 << 10
"""Senders' heads have some hundred bytes; Go's server takes 1 MiB, nginx 32 KiB."""

HEAD_SECONDS: Final = 30.0
"""As long as a body may take by default."""


class HttpProtocol(HttpToolsProtocol):
    """One connection of a sender."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._beside_body = 0
        self._moved_on = False
        self._in_head = True
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first head."""
        super().connection_made(transport)
        self._alarm = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless too much came that is no body."""
        self._moved_on = False
        super().data_received(data)
        if self._moved_on:
            self._beside_body = 0
        else:
            self._beside_body += len(data)
            if self._beside_body > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("head: too many bytes that are no body; send fewer headers")
        if self._in_head and self._alarm is None and not self.transport.is_closing():
            self._alarm = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._moved_on = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._in_head = False
        self._cancel()
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers):
            raise httptools.HttpParserError("an upgrade with a body")
        super().on_headers_complete()
        if upgrade:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._moved_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._moved_on = True
        super().on_message_complete()

    def _give_up(self) -> None:
        self._alarm = None
        self.transport.close()

    def _cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
