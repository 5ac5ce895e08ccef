"""A loopback HTTP receiver that does what a test says, byte by byte; the test's own loop runs it."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

NO_CONTENT: Final = b"HTTP/1.1 204 No Content\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """A request as it came: `connection` counts the receiver's connections from 1."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Exchange:
    """One request and the connection that it came on."""

    request: Request
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, data: bytes) -> None:
        """Send bytes now."""
        if self.writer.is_closing():
            raise ConnectionResetError
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        """End the connection in order."""
        self.writer.close()

    def reset(self) -> None:
        """End the connection with RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


Answer = Callable[[Exchange], Awaitable[None]]


async def no_content(exchange: Exchange) -> None:
    """The usual answer."""
    await exchange.write(NO_CONTENT)


@dataclass
class Receiver:
    """`answer` is called with each request; `port` is where it listens; what came is in `requests`."""

    answer: Answer = no_content
    port: int = 0
    connections: int = 0
    closed: int = 0
    reads_body: bool = True
    requests: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        self.connections += 1
        number = self.connections
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while not writer.is_closing():
                request = await self._read(number, reader)
                self.requests.append(request)
                await self.answer(Exchange(request, reader, writer))
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        self.closed += 1

    async def _read(self, number: int, reader: asyncio.StreamReader) -> Request:
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [header.split(": ", 1) for header in rest if header]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), f"a header came twice: {pairs}"
        body = await reader.readexactly(int(headers["content-length"])) if self.reads_body else b""
        return Request(number, line, headers, body)


@contextlib.asynccontextmanager
async def listening(receiver: Receiver, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """The receiver on a port of its own, until the block ends."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await receiver.serve(reader, writer)
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another task brings about; fail after five seconds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("what was waited for did not come")
