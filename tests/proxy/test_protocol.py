"""What a connection may bring before and beside a body, and how long it may take for it."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from proxy import protocol
from tests.peers.push import HEADERS, encode
from tests.proxy.client import chunked, connected, request
from tests.proxy.core.messages import NOW_MS
from tests.proxy.receiver import Receiver, listening
from tests.proxy.running import PUSH, Running, config_of, received, running, tenant

GOOD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)])])
PUSHED = request("POST", PUSH, HEADERS, GOOD)
HEAD = b"POST %b HTTP/1.1\r\nHost: a\r\n" % PUSH.encode()
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1 << 20
READ = 256 << 10  # what the event loop reads at once at most


@contextlib.asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[tuple[Running, Receiver]]:
    """A proxy with one tenant, and that tenant's store."""
    async with listening(Receiver()) as store, running(folder, config_of(folder, [tenant("all", store)])) as proxy:
        yield proxy, store


async def poured(proxy: Running, begin: bytes, pieces: Iterable[bytes]) -> tuple[int, bytes]:
    """Send pieces until the other side has enough of them: how many bytes that took, and what it said."""
    reader, writer = await asyncio.open_connection(*proxy.address)
    sent = 0
    try:
        with contextlib.suppress(ConnectionError):
            for piece in (begin, *pieces):
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
                await asyncio.sleep(0)
                if reader.at_eof() or writer.is_closing():
                    break
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(5):
                return sent, await reader.read(4096)
        return sent, b""
    finally:
        writer.close()


ENDLESS = {
    "a header": (HEAD + b"X: ", b"a" * 10_000),
    "headers": (HEAD, b"X-Header: a\r\n" * 1000),
    "an address": (b"GET /", b"a" * 10_000),
    "a method": (b"", b"A" * 10_000),
    "a chunk's extension": (CHUNKS + b"5;", b"a" * 10_000),
    "a trailer": (CHUNKS + b"0\r\nX: ", b"a" * 10_000),
    "trailers": (CHUNKS + b"0\r\n", b"X-Trailer: a\r\n" * 1000),
    "empty lines": (b"", b"\r\n" * 5000),
}


@pytest.mark.parametrize(("begin", "piece"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_nothing_beside_a_body_goes_on_for_ever(tmp_path: Path, begin: bytes, piece: bytes) -> None:
    """Whatever is no body ends its connection before it has taken memory, with a 400 where one can still be read."""
    async with scene(tmp_path) as (proxy, store):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent, said = await poured(proxy, begin, (piece for _ in range(20 * MIB // len(piece))))
        assert sent < 10 * MIB
        assert said == b"" or said.startswith(b"HTTP/1.1 400 ")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10
        assert (await proxy.push(GOOD)).status == 204
        assert len(received(store)) == 1


@pytest.mark.parametrize("size", [1, 100, 40_000])
async def test_a_large_head_and_many_chunks_are_taken(tmp_path: Path, size: int) -> None:
    """A head just below the limit, and a body whose framing is many times its size, are no trouble."""
    async with scene(tmp_path) as (proxy, store), connected(proxy.address) as client:
        wide = {**HEADERS, "X-Wide": "a" * (protocol.HEAD_BYTES - 1000), "Transfer-Encoding": "chunked"}
        body = encode([({"__name__": f"m{number}"}, [(NOW_MS, 1.0)]) for number in range(2000)])
        for _ in range(2):
            assert (await client.ask(request("POST", PUSH, wide, chunked(body, size)))).status == 204
        assert len(received(store)) == 4000


async def test_many_requests_in_one_write_are_taken(tmp_path: Path) -> None:
    """Requests that follow each other without a pause do not count as one."""
    count = 3 * (protocol.HEAD_BYTES + READ) // len(PUSHED)
    async with scene(tmp_path) as (proxy, store), connected(proxy.address) as client:
        sending = asyncio.create_task(client.send(PUSHED * count))
        assert {(await client.answer()).status for _ in range(count)} == {204}
        await sending
        assert len(received(store)) == count


@pytest.mark.parametrize("begun", [b"", b"POST /api", HEAD, b"\r\n"], ids=["nothing", "a line", "a head", "a break"])
async def test_a_head_that_does_not_come_ends_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    """A connection that says nothing, or half of it, is closed in time, also after a request that was answered."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    async with scene(tmp_path) as (proxy, _):
        async with connected(proxy.address) as client:
            await client.send(begun)
            assert await client.ended()
        async with connected(proxy.address) as client:
            assert (await client.ask(PUSHED)).status == 204
            await asyncio.sleep(0.3)
            if begun.strip():
                await client.send(begun)
                assert await client.ended()
            else:  # a kept connection may be silent for much longer
                assert (await client.ask(PUSHED)).status == 204


async def test_an_upgrade_is_not_made(tmp_path: Path) -> None:
    """A question that offers an upgrade is answered, and the connection ends; a push that offers one is refused."""
    async with scene(tmp_path) as (proxy, store):
        for offer in ("h2c", "websocket"):
            upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": offer, "HTTP2-Settings": "AAMAAABkAAQ"}
            async with connected(proxy.address) as client:
                answer = await client.ask(request("GET", "/-/ready", upgrade))
                assert (answer.status, answer.text, answer.headers["connection"]) == (200, "ready\n", "close")
                assert await client.ended()
            async with connected(proxy.address) as client:
                assert (await client.ask(request("POST", PUSH, {**HEADERS, **upgrade}, GOOD))).status == 400
                assert await client.ended()
        assert received(store) == []
        assert (await proxy.scrape()).by("requests_rejected_total", "reason") == {}
