"""The client against a real receiver on loopback that keeps to the protocol."""

import asyncio

import cramjam
import pytest

from proxy.core.outcome import Reply
from proxy.upstreams import upstream as upstream_module
from proxy.upstreams.upstream import HttpUpstream
from tests.proxy.posting import Client, post
from tests.proxy.receiver import Exchange, Receiver, listening, until


async def test_the_request(client: Client) -> None:
    """Path and query, body and length, own headers and credentials arrive as they were given, each once."""
    async with listening(Receiver()) as receiver:
        assert await post(client.at(receiver), b"\x00\xffbody") == Reply(204)
        (request,) = receiver.requests
        assert request.line == "POST /api/v1/push?a=b HTTP/1.1"
        assert request.body == b"\x00\xffbody"
        assert request.headers == {
            "host": f"127.0.0.1:{receiver.port}",
            "x-scope-orgid": "team-ml",
            "authorization": "Bearer token",
            "content-length": "6",
        }


async def test_retry_attempt(client: Client) -> None:
    """A repeated request says which attempt it is, a first one nothing."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)
        for attempt in (0, 1, 23):
            await post(upstream, b"same", attempt)
        assert [request.headers.get("retry-attempt") for request in receiver.requests] == [None, "1", "23"]
        assert {request.body for request in receiver.requests} == {b"same"}


async def test_one_connection_serves_many_requests(client: Client) -> None:
    """Keep-alive: requests in a row, of any size, share a connection."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)
        for size in (0, 1, 2000, 3 << 20):
            assert await post(upstream, bytes(size)) == Reply(204)
        assert [len(request.body) for request in receiver.requests] == [0, 1, 2000, 3 << 20]
        assert receiver.connections == 1


async def test_posting_again_from_the_reply(client: Client) -> None:
    """The next request may be posted while the reply to the one before is being told."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        upstream.post(b"1", 0, lambda _: upstream.post(b"2", 0, done.set_result))
        assert await done == Reply(204)
        assert ([request.body for request in receiver.requests], receiver.connections) == ([b"1", b"2"], 1)


_EMPTY = b"\r\nContent-Length: 0\r\n\r\n"
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\nLink: <x>\r\n\r\n"
_CHUNKED = b"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nRetry-After: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"HTTP/1.1 200 OK" + _EMPTY, Reply(200)),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok", Reply(202, body=b"ok")),
        (b"HTTP/1.1 204 No Content\r\nDate: today\r\nServer: x\r\n\r\n", Reply(204)),
        (b"HTTP/1.1 299 Odd" + _EMPTY, Reply(299)),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nbad\n", Reply(400, body=b"bad\n")),
        (b"HTTP/1.1 503 Service Unavailable\r\nRETRY-AFTER: 7" + _EMPTY, Reply(503, retry_after="7")),
        (b"HTTP/1.1 200 OK" + _CHUNKED, Reply(200, body=b"abcde")),
        (_INTERIM + b"HTTP/1.1 200 OK" + _EMPTY, Reply(200)),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", Reply(304)),
        (b"HTTP/1.1 429 " + _EMPTY, Reply(429)),
    ],
    ids=["200", "202", "204", "299", "400", "retry-after", "chunked", "interim", "304", "no reason"],
)
@pytest.mark.parametrize("split", [False, True], ids=["whole", "bytewise"])
async def test_replies(client: Client, raw: bytes, expected: Reply, *, split: bool) -> None:
    """Each kind of reply is understood, whole or byte by byte, and the connection is used again."""

    async def answer(exchange: Exchange) -> None:
        for piece in [raw[at : at + 1] for at in range(len(raw))] if split else [raw]:
            await exchange.write(piece)
            await asyncio.sleep(0)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert [await post(upstream) for _ in range(3)] == [expected] * 3
        assert receiver.connections == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
    ],
    ids=["close", "until the end", "HTTP/1.0", "HTTP/1.0 until the end"],
)
async def test_replies_that_end_the_connection(client: Client, head: bytes) -> None:
    """A reply that ends with the connection is whole, and the next request goes over a new one."""

    async def answer(exchange: Exchange) -> None:
        await exchange.write(head + b"body")
        exchange.close()

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert [await post(upstream) for _ in range(2)] == [Reply(200, body=b"body")] * 2
        assert receiver.connections == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(client: Client, status: int) -> None:
    """A redirect is a reply like another: nothing is sent to where it points."""
    async with listening(Receiver()) as elsewhere:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{elsewhere.port}/\r\nContent-Length: 0\r\n\r\n"

        async def answer(exchange: Exchange) -> None:
            await exchange.write(moved.encode())

        async with listening(Receiver(answer)) as receiver:
            assert await post(client.at(receiver)) == Reply(status)
            assert (len(receiver.requests), elsewhere.connections) == (1, 0)


async def test_one_request_at_a_time(client: Client) -> None:
    """A second request before the first reply is a mistake of the caller's, and disturbs nothing."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)
        first = asyncio.ensure_future(post(upstream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError):
            upstream.post(b"", 0, lambda _: None)
        assert await first == Reply(204)
        assert len(receiver.requests) == 1


async def test_idle_connection_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was not used for the idle time is closed, and the next request makes another."""
    monkeypatch.setattr(upstream_module, "IDLE_SECONDS", 0.1)
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver, timeout_seconds=0.03)
        await post(upstream)
        await until(lambda: receiver.closed == 1)
        assert await post(upstream) == Reply(204)
        assert receiver.connections == 2


async def test_a_used_connection_is_not_idle(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The idle time counts from the last request, not from the first."""
    monkeypatch.setattr(upstream_module, "IDLE_SECONDS", 0.2)
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver, timeout_seconds=0.03)
        until = asyncio.get_running_loop().time() + 0.5
        while asyncio.get_running_loop().time() < until:
            await post(upstream)
            await asyncio.sleep(0.02)
        assert receiver.connections == 1


def test_encode_is_one_snappy_block() -> None:
    """A message is encoded as remote write wants it: the block format, without a stream's frame."""
    message = b"some message " * 50
    assert bytes(cramjam.snappy.decompress_raw(HttpUpstream.encode(message))) == message
