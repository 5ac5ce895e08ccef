"""The client against everything that a receiver or the network may do wrong."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from proxy.core.outcome import Reply
from tests.proxy.posting import Client, post
from tests.proxy.receiver import NO_CONTENT, Exchange, Receiver, listening, until


def _sending(*pieces: bytes, end: Callable[[Exchange], None] | None = None) -> Callable[[Exchange], Awaitable[None]]:
    async def answer(exchange: Exchange) -> None:
        for piece in pieces:
            await exchange.write(piece)
        if end is not None:
            end(exchange)

    return answer


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_refused(client: Client) -> None:
    """Nobody listens: an error, at once, as often as one tries."""
    upstream = client.to(f"http://127.0.0.1:{_unused_port()}/")
    assert [await post(upstream) for _ in range(3)] == [Reply(0, error="refused")] * 3


async def test_name_does_not_resolve(client: Client) -> None:
    """A host without an address is an error like another."""
    assert await post(client.to("http://nowhere.invalid/")) == Reply(0, error="dns")


async def test_name_that_is_none(client: Client) -> None:
    """A host that cannot even be looked up is the same error."""
    assert await post(client.to(f"http://{'a' * 64}.invalid/")) == Reply(0, error="dns")


_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"

_CUT = {
    "nothing": [],
    "half a head": [_OK + b"Content-Le"],
    "half a body": [_OK + b"Content-Length: 5\r\n\r\nab"],
    "half a chunk": [_OK + _CHUNKED + b"\r\n3\r\nab"],
    "no last chunk": [_OK + _CHUNKED + b"\r\n3\r\nabc\r\n"],
    "interim only": [b"HTTP/1.1 100 Continue\r\n\r\n"],
}

_GARBAGE = {
    "ssh": [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "tls alert": [b"\x15\x03\x01\x00\x02\x02\x46"],
    "version": [b"HTTP/4.2 200 OK\r\n\r\n"],
    "status of five digits": [b"HTTP/1.1 99999 OK\r\n\r\n"],
    "no status": [b"HTTP/1.1 OK\r\n\r\n"],
    "negative length": [_OK + b"Content-Length: -1\r\n\r\n"],
    "length beyond 64 bits": [_OK + b"Content-Length: 99999999999999999999999\r\n\r\n"],
    "two lengths": [_OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n"],
    "length and chunked": [_OK + b"Content-Length: 3\r\n" + _CHUNKED + b"\r\n0\r\n\r\n"],
    "no chunk length": [_OK + _CHUNKED + b"\r\nxyz\r\n"],
    "blank in a name": [_OK + b"X: a\r\nb c: d\r\n\r\n"],
    "zeros": [_OK + b"X: " + bytes(100) + b"\r\n\r\n"],
    "head without end": [_OK + b"X: ", *[b"a" * 8192] * 9],
    "interim without end": [b"HTTP/1.1 100 Continue\r\n\r\n" * 4000],
}


@pytest.mark.parametrize(
    ("end", "error"), [(Exchange.close, "closed"), (Exchange.reset, "reset")], ids=["close", "reset"]
)
@pytest.mark.parametrize("pieces", _CUT.values(), ids=_CUT)
async def test_cut_reply(client: Client, pieces: list[bytes], end: Callable[[Exchange], None], error: str) -> None:
    """A connection that ends within a reply is an error; what was sent on a fresh connection is not sent again."""
    async with listening(Receiver(_sending(*pieces, end=end))) as receiver:
        assert await post(client.at(receiver)) == Reply(0, error=error)
        assert len(receiver.requests) == 1


async def test_reset_in_a_reply_without_length(client: Client) -> None:
    """A body that ends with the connection is whole only where the connection ends in order."""
    async with listening(Receiver(_sending(_OK + b"\r\nab", end=Exchange.reset))) as receiver:
        assert await post(client.at(receiver)) == Reply(0, error="reset")


@pytest.mark.parametrize("pieces", _GARBAGE.values(), ids=_GARBAGE)
async def test_garbage(client: Client, pieces: list[bytes]) -> None:
    """What is no reply is an error and no exception, and ends the connection."""
    async with listening(Receiver(_sending(*pieces))) as receiver:
        assert await post(client.at(receiver)) == Reply(0, error="bad_reply")
        assert len(receiver.requests) == 1
        await until(lambda: receiver.closed == 1)


@pytest.mark.parametrize("end", [Exchange.close, Exchange.reset], ids=["close", "reset"])
async def test_a_lost_kept_connection_is_mended_once(client: Client, end: Callable[[Exchange], None]) -> None:
    """A kept connection that ends without a byte of a reply: the same bytes go out on a fresh one, and succeed."""

    async def answer(exchange: Exchange) -> None:
        if exchange.request.body == b"2" and exchange.request.connection == 1:
            end(exchange)
        else:
            await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert [await post(upstream, b"%d" % number) for number in (1, 2, 3)] == [Reply(204)] * 3
        assert [(request.connection, request.body) for request in receiver.requests] == [
            (1, b"1"),
            (1, b"2"),
            (2, b"2"),
            (2, b"3"),
        ]


async def test_mended_only_once(client: Client) -> None:
    """When the fresh connection ends in the same way, that is an error."""

    async def answer(exchange: Exchange) -> None:
        if exchange.request.body == b"2":
            exchange.close()
        else:
            await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert await post(upstream, b"1") == Reply(204)
        assert await post(upstream, b"2") == Reply(0, error="closed")
        assert [request.body for request in receiver.requests] == [b"1", b"2", b"2"]


async def test_not_mended_after_a_byte_of_a_reply(client: Client) -> None:
    """Once any byte came the receiver has answered something, and the request is not sent again by itself."""

    async def answer(exchange: Exchange) -> None:
        if exchange.request.body == b"2":
            await exchange.write(b"H")
            exchange.close()
        else:
            await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        await post(upstream, b"1")
        assert await post(upstream, b"2") == Reply(0, error="closed")
        assert [request.body for request in receiver.requests] == [b"1", b"2"]


async def test_closed_while_idle(client: Client) -> None:
    """A connection that the receiver closed between requests costs nothing: the next one is sent once, on a new one."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)

        async def answer_and_close(exchange: Exchange) -> None:
            await exchange.write(NO_CONTENT)
            exchange.close()

        receiver.answer = answer_and_close
        await post(upstream)
        await until(lambda: receiver.closed == 1)
        assert await post(upstream) == Reply(204)
        assert (len(receiver.requests), receiver.connections) == (2, 2)


@pytest.mark.parametrize(
    "behind", [b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", b"garbage"], ids=["408", "garbage"]
)
@pytest.mark.parametrize("later", [False, True], ids=["with the reply", "later"])
async def test_bytes_behind_a_reply(client: Client, behind: bytes, *, later: bool) -> None:
    """What comes behind a reply is never taken for the next one: it ends the connection."""

    async def answer(exchange: Exchange) -> None:
        if later:
            await exchange.write(NO_CONTENT)
            await asyncio.sleep(0.02)
            await exchange.write(behind)
        else:
            await exchange.write(NO_CONTENT + behind)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert await post(upstream) == Reply(204)
        await until(lambda: receiver.closed == 1)
        assert await post(upstream) == Reply(204)
        assert [request.connection for request in receiver.requests] == [1, 2]
