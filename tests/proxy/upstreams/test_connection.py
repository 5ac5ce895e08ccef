"""Any bytes are a reply or an error word, told once; and how they are cut into pieces changes nothing."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.outcome import REPLY_BODY_BYTES, Reply
from proxy.upstreams.connection import Connection

FRAGMENTS = [
    b"HTTP/1.1 ",
    b"HTTP/1.0 ",
    b"200 OK\r\n",
    b"204 No Content\r\n",
    b"100 Continue\r\n\r\n",
    b"101 Switching Protocols\r\n",
    b"400 Bad Request\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: x\r\n",
    b"Retry-After: 5\r\n",
    b"\r\n",
    b"abc",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\x00",
    b"\xff",
]
STREAMS = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=4)), max_size=14).map(b"".join)


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0


def _exchange(pieces: list[bytes]) -> tuple[list[Reply], bool]:
    """What one request got that was answered with these pieces and then the end, and whether the peer is kept."""
    replies: list[Reply] = []
    transport = _Transport()
    connection = Connection(lambda _, reply: replies.append(reply))
    connection.connection_made(transport)
    connection.send(b"request")
    for piece in pieces:
        if not transport.aborted:
            connection.data_received(piece)
    kept = connection.open
    connection.eof_received()
    connection.connection_lost(None)
    return replies, kept


@pytest.mark.fuzz
@given(STREAMS, st.data())
@example(b"HTTP/1.1 200 OK\r\n\r\nabc", None)
@example(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc", None)
@example(b"HTTP/1.1 204 X\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", None)
def test_any_bytes(stream: bytes, data: st.DataObject | None) -> None:
    """One outcome per request, within its bounds, the same however the bytes arrive."""
    replies, kept = _exchange([stream])
    (reply,) = replies
    assert (reply.error is None) == (reply.status > 0)
    assert len(reply.body) <= REPLY_BODY_BYTES
    assert _exchange([stream[at : at + 1] for at in range(len(stream))]) == (replies, kept)
    if data is not None:
        cut = data.draw(st.integers(0, len(stream)))
        assert _exchange([stream[:cut], stream[cut:]]) == (replies, kept)
