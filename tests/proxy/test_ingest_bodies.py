import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.push import HEADERS, encode
from tests.proxy.client import Answer, ask, chunked, connected, request
from tests.proxy.core.messages import NOW_MS, varint
from tests.proxy.receiver import Exchange, Receiver, listening, no_content
from tests.proxy.running import PUSH, Running, check_form, config_of, received, running, snappy, tenant

GOOD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)])])
IN_CHUNKS = {**HEADERS, "Transfer-Encoding": "chunked"}


@contextlib.asynccontextmanager
async def scene(folder: Path, store: Receiver | None = None, **limits: Any) -> AsyncIterator[tuple[Running, Receiver]]:
    """A proxy with these limits and one tenant, and that tenant's store."""
    async with (
        listening(store or Receiver()) as listener,
        running(folder, config_of(folder, [tenant("all", listener)], proxy={"limits": limits})) as proxy,
    ):
        yield proxy, listener


def head(length: int, **more: str) -> bytes:
    """The head of a push whose body is to follow."""
    return request("POST", PUSH, {**HEADERS, "Content-Length": str(length), **more})


async def told(proxy: Running, answer: Answer, status: int, reason: str) -> None:
    """The answer is this refusal, in good form, and so is the only count of refused requests."""
    assert (answer.status, answer.reason) == (status, reason)
    check_form(answer)
    found = await proxy.balanced()
    assert found.by("requests_rejected_total", "reason") == {reason: 1}
    assert found.total("samples_received_total") == 0


@pytest.mark.parametrize("size", [1, 7, 4096], ids=lambda size: f"chunks of {size}")
async def test_a_chunked_body_is_taken(tmp_path: Path, size: int) -> None:
    """A body without Content-Length, in chunks of any size, is a body."""
    async with scene(tmp_path) as (proxy, store):
        answer = await ask(proxy.address, request("POST", PUSH, IN_CHUNKS, chunked(GOOD, size)))
        assert answer.status == 204
        assert received(store) == [({"__name__": "good"}, [(NOW_MS, 1.5)])]


async def test_a_body_that_comes_byte_by_byte_is_taken(tmp_path: Path) -> None:
    """Pieces on the wire mean nothing, as long as they come in time."""
    async with scene(tmp_path) as (proxy, store), connected(proxy.address) as client:
        for byte in head(len(GOOD)) + GOOD:
            await client.send(bytes([byte]))
        assert (await client.answer()).status == 204
        assert len(received(store)) == 1


async def test_a_body_at_the_limit_is_taken(tmp_path: Path) -> None:
    """`compressed_bytes` and `decoded_bytes` are the largest that pass, not the smallest that do not."""
    body = snappy(b"")
    async with scene(tmp_path, compressed_bytes=len(GOOD), decoded_bytes=GOOD[0]) as (proxy, _):
        assert (await proxy.push(GOOD)).status == 204
        assert (await proxy.push(body)).status == 204


async def test_a_long_body_is_refused_by_its_content_length(tmp_path: Path) -> None:
    """A Content-Length over the limit is answered before any of the body is read."""
    async with scene(tmp_path, compressed_bytes=1000) as (proxy, _), connected(proxy.address) as client:
        answer = await client.ask(head(1001))
        await told(proxy, answer, 400, "compressed_size")


async def test_a_content_length_of_any_size_is_a_number(tmp_path: Path) -> None:
    """Twenty digits are too much, and nothing else goes wrong."""
    async with scene(tmp_path, compressed_bytes=1000) as (proxy, _):
        async with connected(proxy.address) as client:
            answer = await client.ask(head(10**19 - 1))
        await told(proxy, answer, 400, "compressed_size")


async def test_a_long_body_is_refused_without_a_content_length(tmp_path: Path) -> None:
    """A chunked body is refused as soon as it is over the limit, however long it goes on."""
    async with scene(tmp_path, compressed_bytes=1000) as (proxy, _), connected(proxy.address) as client:
        await client.send(request("POST", PUSH, IN_CHUNKS) + b"800\r\n" + b"x" * 2048 + b"\r\n")
        await told(proxy, await client.answer(), 400, "compressed_size")


async def test_a_long_body_does_not_cost_its_connection(tmp_path: Path) -> None:
    """The rest of a refused body is passed over, and the next request on the connection is served."""
    async with scene(tmp_path, compressed_bytes=1000) as (proxy, _), connected(proxy.address) as client:
        assert (await client.ask(head(300_000) + b"x" * 300_000)).status == 400
        assert (await client.ask(head(len(GOOD)) + GOOD)).status == 204


async def test_a_slow_body_is_408(tmp_path: Path) -> None:
    """A body that is not there in time frees its place and ends its connection, since what follows is no request."""
    async with scene(tmp_path, read_timeout="200ms") as (proxy, store), connected(proxy.address) as client:
        answer = await client.ask(head(len(GOOD)) + GOOD[:-1])
        assert answer.headers["connection"] == "close"
        assert await client.ended()
        await told(proxy, answer, 408, "read_timeout")
        assert store.requests == []


async def test_a_sender_that_goes_away_frees_its_place(tmp_path: Path) -> None:
    """A connection that ends in the middle of a body ends its request, and no more is received of it."""
    async with scene(tmp_path, inflight_requests=1) as (proxy, _):
        async with connected(proxy.address) as client:
            await client.send(head(len(GOOD)) + GOOD[:-1])
            await refused_for(proxy, "inflight")
        await answered(proxy, 204)
        assert (await proxy.balanced()).total("samples_received_total") == 1


async def test_a_request_over_the_inflight_limit_is_503(tmp_path: Path) -> None:
    """While as many as allowed wait for their store, one more is told to come again; then there is room."""
    store, gate = gated()
    async with scene(tmp_path, store, inflight_requests=2) as (proxy, _):
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(proxy.push(GOOD)) for _ in range(2)]
            await refused_for(proxy, "inflight")
            answer = await proxy.push(GOOD)
            assert (answer.status, answer.reason) == (503, "inflight")
            check_form(answer)
            gate.set()
        assert [task.result().status for task in waiting] == [204, 204]
        assert (await proxy.push(GOOD)).status == 204
        assert (await proxy.balanced()).total("samples_received_total") == 3


async def test_bodies_that_are_still_coming_count_as_in_flight(tmp_path: Path) -> None:
    """Who sends slowly takes a place, so that memory is bounded by the limit."""
    async with scene(tmp_path, inflight_requests=1) as (proxy, _), connected(proxy.address) as client:
        await client.send(head(len(GOOD)))
        await refused_for(proxy, "inflight")
        await client.send(GOOD)
        assert (await client.answer()).status == 204


async def test_a_declared_size_allocates_nothing(tmp_path: Path) -> None:
    """Bodies of some bytes that declare the whole limit, and more than it, leave the memory of the process as it is."""
    async with scene(tmp_path, decoded_bytes="1GiB") as (proxy, _):
        await proxy.push(varint(1 << 30) + b"\x00" * 20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for size in (1 << 30, (1 << 32) - 1):
            for _ in range(3):
                assert (await proxy.push(varint(size) + b"\x00" * 20)).status == 400
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


async def test_a_connection_is_kept(tmp_path: Path) -> None:
    """Good and bad requests share a connection, in any order, also when they are sent before the answers come."""
    async with scene(tmp_path) as (proxy, store), connected(proxy.address) as client:
        good, bad = head(len(GOOD)) + GOOD, head(5) + b"hello"
        wrong = request("POST", PUSH, {**HEADERS, "Content-Encoding": "gzip"}, GOOD)
        for data, status in ((good, 204), (bad, 400), (wrong, 415), (good, 204)):
            answer = await client.ask(data)
            assert (answer.status, answer.headers.get("connection")) == (status, None)
        await client.send(good + bad + wrong + good)
        assert [(await client.answer()).status for _ in range(4)] == [204, 400, 415, 204]
        assert len(received(store)) == 4


async def test_a_sender_that_asks_first_is_told_to_go_on(tmp_path: Path) -> None:
    """`Expect: 100-continue` gets its 100 before the body, and a refusal by headers instead of it."""
    async with scene(tmp_path) as (proxy, _), connected(proxy.address) as client:
        await client.send(head(len(GOOD), Expect="100-continue"))
        assert (await client.answer(head=True)).status == 100
        assert (await client.ask(GOOD)).status == 204
        answer = await client.ask(head(len(GOOD), Expect="100-continue", **{"Content-Type": "text/plain"}))
        assert answer.status == 415


async def test_a_body_that_is_still_coming_at_the_end_is_503(tmp_path: Path) -> None:
    """A server that stops waits a while for bodies, then tells their senders to come again."""
    async with listening(Receiver()) as store:
        config = config_of(tmp_path, [tenant("all", store)])
        async with running(tmp_path, config) as proxy, connected(proxy.address) as client:
            proxy.server.config.timeout_graceful_shutdown = 0  # less than the 25 s of the process
            await client.send(head(len(GOOD)) + GOOD[:-1])
            assert (await proxy.push(b"hello")).status == 400  # by then the head before it has been read
            proxy.server.should_exit = True
            answer = await client.answer()
            assert (answer.status, answer.reason) == (503, "stopping")
            check_form(answer)


BROKEN = {
    "no HTTP": b"hello\r\n\r\n",
    "a letter as length": b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "a superscript as length": "POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: ²\r\n\r\n".encode("latin-1"),
    "a negative length": b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": (
        b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "a bad chunk": b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a line break in a header": b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: a\rb\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_no_http_is_no_trouble(tmp_path: Path, broken: bytes) -> None:
    """Bytes that are no HTTP get a 4xx or the end of the connection, nothing is received, and others are served."""
    async with scene(tmp_path) as (proxy, store):
        data = broken.replace(b"%b", PUSH.encode())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = await raw(proxy, data)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
        assert store.requests == []
        await answered(proxy, 204)


async def test_headers_of_any_bytes_are_no_trouble(tmp_path: Path) -> None:
    """Header values beyond ASCII, long ones and repeated ones are a 4xx at most."""
    async with scene(tmp_path) as (proxy, _):
        for name, value in (
            ("Content-Type", "application/x-protobuf; proto=\xff\xfe"),
            ("Content-Type", "application/x-protobuf;" + "a=b;" * 5000),
            ("Content-Type", '"' * 3000),
            ("Content-Encoding", "\x80" * 100),
            ("Authorization", "Bearer \xff\xff"),
            ("Retry-Attempt", "9" * 4000),
            ("Retry-Attempt", "\xb2"),
        ):
            answer = await proxy.push(GOOD, **{name.replace("-", "_"): value})
            assert answer.status in {204, 415}, (name, answer.text)
            check_form(answer)


def gated() -> tuple[Receiver, asyncio.Event]:
    """A store that answers when the event is set."""
    gate = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await gate.wait()
        await no_content(exchange)

    return Receiver(answer), gate


async def raw(proxy: Running, data: bytes) -> bytes:
    """What comes back on a connection until it ends, or for a tenth of a second."""
    reader, writer = await asyncio.open_connection(*proxy.address)
    try:
        writer.write(data)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                return await reader.read(4096)
        return b""
    finally:
        writer.close()


async def refused_for(proxy: Running, reason: str) -> None:
    """Wait until a request with an empty message is refused for that reason."""
    for _ in range(500):
        if (await proxy.push(b"\x00")).reason == reason:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"nothing was refused for {reason}")


async def answered(proxy: Running, status: int) -> None:
    """Wait until a good request gets that status."""
    for _ in range(500):
        if (await proxy.push(GOOD)).status == status:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"no request was answered {status}")
