"""Addresses of stores that do what a test says, per request and per connection, in a thread of their own.

The test's thread sets what an upstream does and reads what came; the network's thread serves. An upstream's port stays
its own while it refuses connections: a socket that never listens holds it.
"""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tests.faults.store import Store

_T = TypeVar("_T")

PATH: Final = "/api/v1/push"
_EARLY_S: Final = 0.05  # two clocks' worth of rounding


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came; `came_s` is on the clock of `time.monotonic`."""

    came_s: float
    headers: dict[str, str]
    body: bytes

    @property
    def attempt(self) -> int:
        """How often the proxy says that it has sent these bytes before."""
        return int(self.headers.get("retry-attempt", "0"))


class Exchange:
    """One request and the connection it came on."""

    def __init__(self, upstream: "Upstream", arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        self.upstream = upstream
        self.arrival = arrival
        self._writer = writer

    def keep(self) -> bytes:
        """Let the store take it; the reply of a store that is well."""
        refused = self.upstream.store.write(self.arrival.body)
        return reply(400, text=refused) if refused else reply(204)

    async def send(self, data: bytes) -> None:
        """Send bytes now."""
        if self._writer.is_closing():
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """End the connection in order."""
        self._writer.close()

    def reset(self) -> None:
        """End the connection with RST."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Exchange], Awaitable[None]]


def reply(status: int, *headers: str, text: str = "") -> bytes:
    """A whole reply."""
    body = text.encode()
    length = () if status == 204 else (f"Content-Length: {len(body)}",)
    return "\r\n".join((f"HTTP/1.1 {status} Said", *headers, *length, "", "")).encode() + body


async def well(exchange: Exchange) -> None:
    """A store that is well."""
    await exchange.send(exchange.keep())


class Upstream:
    """One address of a tenant's store. `behaviour` is asked for each request, and may be set at any time.

    `deaf` accepts connections and reads nothing from them. `not_before_s` is when the next request may come at the
    earliest, by what the replies said; one before that is a fault of the proxy's, and noted in the store's `faults`.
    """

    def __init__(self, network: "Network", store: Store, org_id: str, authorization: str | None) -> None:
        self.store = store
        self.behaviour: Behaviour = well
        self.deaf = False
        self.connections = 0
        self.arrivals: list[Arrival] = []
        self.not_before_s = 0.0
        self._unheard = 0
        self._network = network
        self._expected = {"x-scope-orgid": org_id, "authorization": authorization, "content-encoding": "snappy"}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port = int(self._held.getsockname()[1])
        self.open()

    @property
    def url(self) -> str:
        """What stands in the configuration."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    @property
    def attempts(self) -> int:
        """How often the proxy has come: with a request, or to deaf ears."""
        return len(self.arrivals) + self._unheard

    def open(self) -> None:
        """Take connections."""
        self._network.call(self._open())

    def shut(self) -> None:
        """Refuse connections, and end those that there are."""
        self._network.call(self.end())

    def release(self) -> None:
        """Let the port go as well."""
        self.shut()
        self._held.close()

    async def end(self) -> None:
        """As `shut`, from the network's own thread; the caller's own connection ends as soon as it awaits."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._serving):
            task.cancel()

    async def _open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 20)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._exchanges(reader, writer)
        except asyncio.CancelledError:
            pass  # `end` did that; a cancelled handler is none of asyncio's business
        finally:
            self._serving.discard(task)
            if not writer.is_closing():
                writer.transport.abort()

    async def _exchanges(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            if self.deaf:
                self._unheard += 1
                await asyncio.Event().wait()
            arrival = await self._read(reader)
            self.arrivals.append(arrival)
            await self.behaviour(Exchange(self, arrival, writer))

    async def _read(self, reader: asyncio.StreamReader) -> Arrival:
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = [header.split(": ", 1) for header in rest if header]
        headers = {name.lower(): value for name, value in pairs}
        came_s = time.monotonic()
        if came_s < self.not_before_s - _EARLY_S:
            self.store.faults.append(f"came {self.not_before_s - came_s:.3f} s too early")
        wrong = {name: headers.get(name) for name, value in self._expected.items() if headers.get(name) != value}
        if line != f"POST {PATH} HTTP/1.1" or wrong or len(headers) != len(pairs):
            self.store.faults.append(f"{line} with {wrong}, or a header twice")
        return Arrival(came_s, headers, await reader.readexactly(int(headers["content-length"])))


class Network:
    """The thread that serves, and all its upstreams; made by `network`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.upstreams: list[Upstream] = []

    def upstream(self, store: Store, org_id: str, authorization: str | None = None) -> Upstream:
        """One more address; the tenant's name and the credential are checked with each request."""
        self.upstreams.append(Upstream(self, store, org_id, authorization))
        return self.upstreams[-1]

    def call(self, what: Coroutine[Any, Any, _T]) -> _T:
        """Have the thread do something, and wait for it."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)


@contextmanager
def network() -> Iterator[Network]:
    """A network whose upstreams serve until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="upstreams")
    thread.start()
    made = Network(loop)
    try:
        yield made
    finally:
        for upstream in made.upstreams:
            upstream.release()
        made.call(_settled())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _settled() -> None:
    """Return when no other task is left; they are all cancelled by now."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
