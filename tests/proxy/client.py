"""HTTP/1.1 by hand: requests as bytes, so that a test can send what no client library would."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; header names are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def reason(self) -> str:
        """What stands first in a plain-text answer."""
        return self.text.partition(":")[0].strip()

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def request(method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> bytes:
    """One request; a body gets its Content-Length unless the headers say how it comes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: test"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None and not any(name.lower() in {"content-length", "transfer-encoding"} for name in headers or {}):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunked(body: bytes, size: int) -> bytes:
    """A body in chunks of that size, with the last chunk."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes now."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, *, head: bool = False) -> Answer:
        """The next answer, within ten seconds; to a HEAD request none has a body."""
        async with asyncio.timeout(10):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = [line.partition(":") for line in lines[1:] if line]
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            status = int(lines[0].split(" ")[1])
            length = 0 if head or status == 204 else int(headers["content-length"])
            return Answer(status, headers, await self._reader.readexactly(length))

    async def ask(self, data: bytes) -> Answer:
        """Send a request and read its answer."""
        await self.send(data)
        return await self.answer()

    async def ended(self) -> bool:
        """Whether the other side ends the connection, within ten seconds, without another byte."""
        async with asyncio.timeout(10):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True


@contextlib.asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Client]:
    """A connection, closed at the end of the block."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def ask(address: Address, data: bytes, *, head: bool = False) -> Answer:
    """One request on a connection of its own; `head` for a HEAD request, whose answer has no body."""
    async with connected(address) as client:
        await client.send(data)
        return await client.answer(head=head)
