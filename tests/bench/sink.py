"""A store that only counts: answers every POST 204 and reports, on GET, requests and samples so far.

Run as a process: `python -m tests.bench.sink`; prints the port that it listens on.
"""

import asyncio
import json
from typing import cast

import cramjam
import httptools
import uvloop

from proxy.core.fields import frames

_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Counts:
    """What came in."""

    def __init__(self) -> None:
        self.requests = 0
        self.samples = 0


class _Connection(asyncio.Protocol):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._transport is not None
        body, self._body = b"".join(self._body), []
        if self._parser.get_method() == b"POST":
            self._counts.requests += 1
            decoded = bytes(cramjam.snappy.decompress_raw(body))
            self._counts.samples += len(frames(decoded).bounds) // 2
            self._transport.write(_NO_CONTENT)
            return
        text = json.dumps({"requests": self._counts.requests, "samples": self._counts.samples}).encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))


async def _serve() -> None:
    counts = Counts()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(counts), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
