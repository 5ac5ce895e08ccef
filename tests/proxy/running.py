"""A proxy in the test's own loop, behind a real port, and what the tests of its shell say to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import TimeSeries
from proxy.serve import Server, listen, make_server
from proxy.service import Proxy
from tests.peers.push import HEADERS
from tests.proxy.client import Address, Answer, ask, request
from tests.proxy.receiver import Exchange, Receiver, Request
from tests.scrape import Scrape

PUSH = "/api/v1/push"
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Running:
    """A running proxy with its server, its address, and the file of its configuration."""

    proxy: Proxy
    server: Server
    address: Address
    config_file: Path

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        return await ask(self.address, request(method, path, headers, body))

    async def push(self, body: bytes, **headers: str) -> Answer:
        """A remote write with the usual headers; `headers` come over them, `_` standing for `-`."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("POST", PUSH, {**HEADERS, **more}, body)

    async def scrape(self) -> Scrape:
        """What /metrics says now."""
        return Scrape((await self.ask("GET", "/metrics")).text)

    async def balanced(self) -> Scrape:
        """What /metrics says; fails where the books do not balance."""
        found = await self.scrape()
        assert found.imbalances() == []
        return found

    async def reaches(self, holds: Callable[[Scrape], bool]) -> Scrape:
        """What /metrics says as soon as it says so and the books balance."""
        async with asyncio.timeout(20):
            while True:
                found = await self.scrape()
                if holds(found) and not found.imbalances():
                    return found
                await asyncio.sleep(0.02)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write another configuration into the file."""
        self.config_file.write_text(json.dumps(config, indent=1), encoding="utf-8")


@contextlib.asynccontextmanager
async def running(folder: Path, config: Mapping[str, Any]) -> AsyncIterator[Running]:
    """A proxy by a configuration, on a port of its own, until the block ends; `data_dir` is in the folder."""
    path = folder / "whosegpu.yaml"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    proxy = await Proxy.start(path)
    listener = listen("127.0.0.1", 0)
    server = make_server(proxy)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield Running(proxy, server, listener.getsockname(), path)
    finally:
        server.should_exit = True
        await serving
        await proxy.stop()


def config_of(folder: Path, tenants: Sequence[Mapping[str, Any]], **sections: Any) -> dict[str, Any]:
    """A configuration; `proxy=` is put over what every test needs."""
    given = dict(sections.pop("proxy", {}))
    return {
        "proxy": {"listen": "127.0.0.1:0", "data_dir": str(folder / "data"), **given},
        "tenants": list(tenants),
        **sections,
    }


def tenant(tenant_id: str, receiver: Receiver, **over: Any) -> dict[str, Any]:
    """A tenant whose series go to a receiver of the test."""
    endpoint = {"url": f"http://127.0.0.1:{receiver.port}/api/v1/push", **over.pop("endpoint", {})}
    return {"id": tenant_id, "endpoint": endpoint, **over}


def answering(status: int, headers: str = "", body: str = "") -> Receiver:
    """A receiver that gives the same answer each time."""
    length = "" if status == 204 else f"Content-Length: {len(body)}\r\n"

    async def answer(exchange: Exchange) -> None:
        await exchange.write(f"HTTP/1.1 {status} Said\r\n{length}{headers}\r\n{body}".encode())

    return Receiver(answer)


def decoded(request_: Request) -> list[TimeSeries]:
    """The entries of a request that a receiver got."""
    raw = bytes(cramjam.snappy.decompress_raw(request_.body))
    return list(WriteRequest.FromString(raw).timeseries)


def received(receiver: Receiver) -> list[tuple[Labels, list[tuple[int, float]]]]:
    """Everything that a receiver got, entry by entry: labels, and (time, value) of each sample."""
    return [
        (
            {label.name.decode(): label.value.decode("utf-8", "replace") for label in entry.labels},
            [(sample.timestamp, sample.value) for sample in entry.samples],
        )
        for each in receiver.requests
        for entry in decoded(each)
    ]


def snappy(body: bytes) -> bytes:
    """A snappy block."""
    return bytes(cramjam.snappy.compress_raw(body))


def check_form(answer: Answer) -> None:
    """An answer of the write path: no Written header ever, and one line of plain text unless all is well."""
    assert not [name for name in answer.headers if name.startswith("x-prometheus-remote-write")]
    assert not [name for name in answer.headers if name in {"server", "x-powered-by"}]
    if answer.status == 204:
        assert answer.body == b""
        assert "content-length" not in answer.headers
        return
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    line, end = answer.text[:-1], answer.text[-1:]
    assert line.isprintable()
    assert len(line) <= 1000
    assert end == ("\n" if line else "")
    assert ("retry-after" in answer.headers) == (answer.status == 503)
    assert ("allow" in answer.headers) == (answer.status == 405)
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)
