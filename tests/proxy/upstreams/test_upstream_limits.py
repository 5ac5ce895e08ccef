"""The client against receivers that are slow, endless or in a hurry, and its own end."""

import asyncio
import os

import pytest

from proxy.core.outcome import REPLY_BODY_BYTES, Reply
from tests.proxy.posting import Client, post
from tests.proxy.receiver import NO_CONTENT, Exchange, Receiver, listening, no_content, until


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"], ids=["head", "body"])
async def test_dribbling(client: Client, head: bytes) -> None:
    """A peer that sends a byte now and then does not move the timeout, which counts for the whole exchange."""

    async def answer(exchange: Exchange) -> None:
        await exchange.write(head)
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            await exchange.write(bytes([byte]))
            await asyncio.sleep(0.01)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver, timeout_seconds=0.2)
        begun = asyncio.get_running_loop().time()
        assert await post(upstream) == Reply(0, error="timeout")
        assert 0.19 <= asyncio.get_running_loop().time() - begun < 2
        await until(lambda: receiver.closed == 1)


async def test_silence(client: Client) -> None:
    """A receiver that takes the request and says nothing ends in a timeout, and is no hindrance to the next try."""
    silent = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if exchange.request.connection == 1:
            await silent.wait()
        await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver, timeout_seconds=0.2)
        assert await post(upstream) == Reply(0, error="timeout")
        assert await post(upstream) == Reply(204)
        silent.set()


async def test_timeout_counts_from_each_post(client: Client) -> None:
    """A request is given its whole time, however shortly before the last timer of another one it was sent."""

    async def answer(exchange: Exchange) -> None:
        if exchange.request.body == b"slow":
            await asyncio.sleep(0.2)
        await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver, timeout_seconds=0.3)
        await post(upstream)
        await asyncio.sleep(0.2)
        assert await post(upstream, b"slow") == Reply(204)


async def test_huge_reply_body(client: Client) -> None:
    """Of a body without end the beginning is kept, the status counts, and the connection is not read any further."""

    async def answer(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            await exchange.write(b"x" * 100_000)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert [await post(upstream) for _ in range(2)] == [Reply(400, body=b"x" * REPLY_BODY_BYTES)] * 2
        await until(lambda: receiver.closed == 2)


async def test_body_beyond_the_kept_part(client: Client) -> None:
    """A body of some kilobytes is read to its end, so that the connection can be used again."""

    async def answer(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 500 X\r\nContent-Length: 20000\r\n\r\n" + b"y" * 20_000)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        assert [await post(upstream) for _ in range(2)] == [Reply(500, body=b"y" * REPLY_BODY_BYTES)] * 2
        assert receiver.connections == 1


async def test_full_window(client: Client) -> None:
    """A large body to a receiver that does not read for a while arrives whole once it does."""
    go = asyncio.Event()

    class Late(Receiver):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            await super().serve(reader, writer)

    body = os.urandom(8 << 20)
    async with listening(Late()) as receiver:
        reply = asyncio.ensure_future(post(client.at(receiver), body))
        await asyncio.sleep(0.05)
        assert not reply.done()
        go.set()
        assert await reply == Reply(204)
        assert receiver.requests[0].body == body


async def test_a_receiver_that_never_reads(client: Client) -> None:
    """A body that is never taken is a timeout, and the connection is gone."""
    go = asyncio.Event()

    async def answer(_: Exchange) -> None:
        await go.wait()

    async with listening(Receiver(answer, reads_body=False)) as receiver:
        assert await post(client.at(receiver, timeout_seconds=0.2), bytes(16 << 20)) == Reply(0, error="timeout")
        go.set()


async def test_answered_before_the_body_was_read(client: Client) -> None:
    """A refusal that comes before the body was taken is the reply, and the half-sent request is in nobody's way."""
    go = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await go.wait()

    async with listening(Receiver(answer, reads_body=False)) as receiver:
        upstream = client.at(receiver)
        assert await post(upstream, bytes(16 << 20)) == Reply(413)
        receiver.reads_body, receiver.answer = True, no_content
        assert await post(upstream) == Reply(204)
        assert receiver.connections == 2
        go.set()


async def test_closing_under_way(client: Client) -> None:
    """Closing ends a request that is under way, and later ones, with an error; closing twice does nothing more."""
    go = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await go.wait()
        await exchange.write(NO_CONTENT)

    async with listening(Receiver(answer)) as receiver:
        upstream = client.at(receiver)
        reply = asyncio.ensure_future(post(upstream))
        await until(lambda: len(receiver.requests) == 1)
        upstream.close()
        upstream.close()
        assert await reply == Reply(0, error="closed")
        assert await post(upstream) == Reply(0, error="closed")
        go.set()
        await until(lambda: receiver.closed == 1)


async def test_closing_while_connecting(client: Client) -> None:
    """Closing before the connection stands ends the request, and leaves no task behind."""
    async with listening(Receiver()) as receiver:
        upstream = client.at(receiver)
        reply = asyncio.ensure_future(post(upstream))
        await asyncio.sleep(0)
        upstream.close()
        assert await reply == Reply(0, error="closed")
        await asyncio.sleep(0)
        assert [task for task in asyncio.all_tasks() if "HttpUpstream" in repr(task)] == []
