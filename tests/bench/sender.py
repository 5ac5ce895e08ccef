"""Sends requests that are ready, as Prometheus' shards do: each connection its own shard, one request at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import httptools

_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n"
    "X-Prometheus-Remote-Write-Version: 0.1.0\r\nUser-Agent: bench\r\nContent-Length: {length}\r\n\r\n"
)


@dataclass(slots=True)
class Sent:
    """How a run went: seconds of each request, and answers that were not 2xx."""

    seconds: list[float]
    failed: int


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Sequence[bytes], sent: Sent, until: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._requests = requests
        self._sent = sent
        self._until = until
        self._next = 0
        self._began = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the receiver closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        now = self._loop.time()
        self._sent.seconds.append(now - self._began)
        self._sent.failed += self._parser.get_status_code() >= 300
        self._parser = httptools.HttpResponseParser(self)
        if now >= self._until:
            self.done.set_result(None)
        else:
            self._send()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send(self) -> None:
        assert self._transport is not None
        self._began = self._loop.time()
        self._transport.write(self._requests[self._next])
        self._next = (self._next + 1) % len(self._requests)


def requests_to(path: str, bodies: Sequence[bytes]) -> list[bytes]:
    """Whole HTTP requests."""
    return [_HEAD.format(path=path, length=len(body)).encode() + body for body in bodies]


async def send(address: tuple[str, int], shards: Sequence[Sequence[bytes]], seconds: float) -> Sent:
    """Send each shard's requests in turn over a connection of its own for some seconds."""
    loop = asyncio.get_running_loop()
    sent = Sent([], 0)
    until = loop.time() + seconds
    connections = []
    for requests in shards:
        _, connection = await loop.create_connection(partial(_Connection, requests, sent, until), *address)
        connections.append(connection)
    await asyncio.gather(*(connection.done for connection in connections))
    for connection in connections:
        connection.close()
    return sent
