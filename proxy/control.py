"""The control socket: a Unix socket in the data folder, by which its owner gives orders to the running proxy.

Who may connect is told by the socket's mode, 0600, which it has from its first moment. Each connection may give
several orders, one at a time; each is answered with one line (`core.orders`). An order that was begun is carried out to
its end, also if who gave it goes away: half a drop would leave the books wrong.

To stop: `close` takes no more orders, waits for those under way for CLOSE_SECONDS, and removes the socket. A socket
that a killed proxy left behind is replaced: whoever opens one has the lock of the data folder.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from proxy.core.errors import ProxyError
from proxy.core.orders import LINE_BYTES, Order, decode_order, encode_answer, encode_error, name_of

SOCKET_NAME: Final = "control.sock"

CONNECTIONS: Final = 16
"""At once; there are more people than that at hardly any data folder."""

IDLE_SECONDS: Final = 30.0
"""How long a connection may be without an order, or leave its answer unread."""

CLOSE_SECONDS: Final = 2.0
"""How long orders under way are waited for when the proxy ends; only a replay takes longer, which can be given up."""

_BACKLOG: Final = 16
_MODE: Final = 0o600
_LONGEST_ADDRESS: Final = 107
"""Bytes of `sun_path` without the zero that ends it (unix(7))."""

_FULL: Final = f"{CONNECTIONS} others give orders already; try again"
_TOO_LONG: Final = f"an order has at most {LINE_BYTES} bytes; this has more"
_FAILED: Final = "the proxy failed to carry it out; its log says why"

_log: Final = structlog.get_logger()

CarryOut = Callable[[Order], Awaitable[Mapping[str, Any]]]
"""Does what is ordered; the answer in plain values. Raises ProxyError."""


class Control:
    """The control socket of one data folder, from `open` to `close`."""

    def __init__(self, data_dir: Path, carry_out: CarryOut) -> None:
        self._data_dir = data_dir
        self._carry_out = carry_out
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take orders from now on. Where the folder can hold no socket, that is said, and no orders are taken."""
        try:
            listener = _listen(self._data_dir)
        except OSError as error:
            _log.warning(
                "no control socket", path=str(self._data_dir / SOCKET_NAME), error=error.strerror or str(error)
            )
            return
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=LINE_BYTES)

    async def close(self) -> None:
        """Take no more orders, and end. May be called again."""
        if self._server is None:
            return
        server, self._server = self._server, None
        with contextlib.suppress(OSError):
            (self._data_dir / SOCKET_NAME).unlink(missing_ok=True)
        server.close()
        for idle in self._connections - self._busy:
            idle.cancel()
        if self._connections:
            _, left = await asyncio.wait(self._connections, timeout=CLOSE_SECONDS)
            for late in left:
                late.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or self._server is None:
            writer.close()
            return
        self._connections.add(task)
        writer.transport.set_write_buffer_limits(0)  # so that `drain` waits until all is read
        try:
            if len(self._connections) > CONNECTIONS:
                await _write(writer, encode_error(_FULL))
            else:
                await self._answer_all(task, reader, writer)
            writer.close()
            async with asyncio.timeout(IDLE_SECONDS):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()  # who asked went away or says nothing, or the proxy ends
        finally:
            self._connections.discard(task)
            self._busy.discard(task)

    async def _answer_all(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while self._server is not None:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                await _write(writer, encode_error(_TOO_LONG))
                return
            self._busy.add(task)
            await _write(writer, await self._answer(line))
            self._busy.discard(task)

    async def _answer(self, line: bytes) -> bytes:
        try:
            order = decode_order(line)
            answer = encode_answer(await self._carry_out(order))
        except ProxyError as error:
            return encode_error(str(error))
        except Exception:  # noqa: BLE001 - the outermost frame of an order: who gave it is told, the proxy goes on
            _log.exception("order failed")
            return encode_error(_FAILED)
        _log.info("order carried out", order=name_of(order))
        return answer


@contextlib.contextmanager
def socket_address(data_dir: Path) -> Iterator[str]:
    """What to bind or connect to for the socket in a folder, within the block. Raises OSError.

    An address has room for 107 bytes; a longer path is named by way of the folder, held open.
    """
    path = data_dir / SOCKET_NAME
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    fd = os.open(data_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET_NAME}"
    finally:
        os.close(fd)


def _listen(data_dir: Path) -> socket.socket:
    path = data_dir / SOCKET_NAME
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), _MODE)  # before it has a name: Linux gives it this mode, less the umask
        with socket_address(data_dir) as address:
            listener.bind(address)
        if stat.S_IMODE(path.lstat().st_mode) & ~_MODE:
            path.unlink()
            raise PermissionError(errno.EPERM, "others could connect to a socket there")
        listener.listen(_BACKLOG)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener


async def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line)
    async with asyncio.timeout(IDLE_SECONDS):
        await writer.drain()
