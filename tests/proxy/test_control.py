"""The control socket: who gets in, what it answers, and how it ends."""

import asyncio
import os
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy import control as control_module
from proxy.control import CONNECTIONS, SOCKET_NAME, CarryOut, Control, socket_address
from proxy.core.errors import StorageError
from proxy.core.orders import (
    LINE_BYTES,
    DropQueued,
    InspectQueue,
    ListQueues,
    Order,
    OrderError,
    decode_answer,
    encode_order,
)

LIST = encode_order(ListQueues())


class Keeper:
    """Carries orders out as a test says."""

    def __init__(self) -> None:
        self.given: list[Order] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None

    async def carry_out(self, order: Order) -> Mapping[str, Any]:
        self.given.append(order)
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return {"number": len(self.given)}


@pytest.fixture
async def keeper() -> Keeper:
    """Carries out whatever is ordered."""
    return Keeper()


@pytest.fixture
async def control(tmp_path: Path, keeper: Keeper) -> AsyncIterator[Control]:
    """The socket of a data folder."""
    opened = await opened_in(tmp_path, keeper.carry_out)
    yield opened
    await opened.close()


async def opened_in(folder: Path, carry_out: CarryOut) -> Control:
    """The socket of a folder, open."""
    control = Control(folder, carry_out)
    await control.open()
    return control


@asynccontextmanager
async def connected(
    folder: Path, data: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the socket in a folder, over which these bytes were sent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(folder) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    connection.settimeout(0)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    writer.write(data)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def given(folder: Path, data: bytes) -> bytes:
    """All that is answered to these bytes."""
    async with connected(folder, data) as (reader, writer):
        writer.write_eof()
        return await rest(reader)


def refusal(line: bytes) -> str:
    """The sentence of an error."""
    with pytest.raises(OrderError) as raised:
        decode_answer(line)
    return str(raised.value)


async def poll(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


async def test_only_its_owner_may_connect(control: Control, tmp_path: Path) -> None:
    """The socket has the mode 0600, whatever the process' umask is."""
    assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o600
    await control.close()
    before = os.umask(0)
    try:
        again = await opened_in(tmp_path, Keeper().carry_out)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o600
    await again.close()


@pytest.mark.usefixtures("control")
async def test_a_connection_gives_several_orders(tmp_path: Path, keeper: Keeper) -> None:
    """Orders of one connection are carried out one after the other, each answered with one line."""
    orders: list[Order] = [ListQueues(), InspectQueue("t", 3), DropQueued("t", None)]
    answered = await given(tmp_path, b"".join(map(encode_order, orders)))
    assert keeper.given == orders
    assert [decode_answer(line) for line in answered.splitlines()] == [{"number": 1}, {"number": 2}, {"number": 3}]


@pytest.mark.usefixtures("control")
async def test_two_at_once_do_not_wait_for_each_other(tmp_path: Path, keeper: Keeper) -> None:
    """While one order takes its time another connection gets its answer."""
    keeper.may_end.clear()
    slow = asyncio.create_task(given(tmp_path, LIST))
    await poll(lambda: len(keeper.given) == 1)
    quick = asyncio.create_task(given(tmp_path, LIST))
    assert refusal(await given(tmp_path, b"nonsense\n")) == "an order is one line of JSON; this is none"
    keeper.may_end.set()
    assert decode_answer(await slow) == decode_answer(await quick) == {"number": 2}


HOSTILE = [
    pytest.param(b"\x00\xff\n", id="no-text"),
    pytest.param(b"[" * 60_000 + b"\n", id="deep"),
    pytest.param(b"\n", id="empty-line"),
    pytest.param(b"GET / HTTP/1.1\r\n", id="http"),
    pytest.param(b'{"order":"queue drop","tenant":"../x","records":-1}\n', id="bad-value"),
    pytest.param(b"x" * (LINE_BYTES * 3) + b"\n", id="long"),
    pytest.param(b"x" * (LINE_BYTES * 3), id="long-without-end"),
]


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.usefixtures("control")
async def test_hostile_bytes_get_one_sentence(tmp_path: Path, keeper: Keeper, data: bytes) -> None:
    """Whatever comes over the socket is answered with an error at most; nothing is carried out, and others get in."""
    with capture_logs() as logs:
        lines = (await given(tmp_path, data)).splitlines()
    assert all(refusal(line).isprintable() for line in lines)
    assert len(lines) == 1
    assert (keeper.given, logs) == ([], [])
    assert decode_answer(await given(tmp_path, LIST)) == {"number": 1}


@pytest.mark.usefixtures("control")
async def test_an_order_that_is_cut_is_not_carried_out(tmp_path: Path, keeper: Keeper) -> None:
    """Who goes away within an order gave none."""
    assert await given(tmp_path, LIST[:-1]) == b""
    assert keeper.given == []


ERRORS = [
    pytest.param(OrderError("nothing is queued for 't'"), "nothing is queued for 't'", id="order"),
    pytest.param(StorageError("storage: no space"), "storage: no space", id="disk"),
    pytest.param(
        ValueError("secret"), "the proxy failed to carry it out; its log says why", id="a-mistake-of-the-proxy"
    ),
]


@pytest.mark.parametrize(("error", "sentence"), ERRORS)
@pytest.mark.usefixtures("control")
async def test_what_fails_is_told(tmp_path: Path, keeper: Keeper, error: Exception, sentence: str) -> None:
    """An order that fails is answered with a sentence, and the next one is carried out."""
    keeper.error = error
    with capture_logs():
        assert refusal(await given(tmp_path, LIST)) == sentence
    keeper.error = None
    assert decode_answer(await given(tmp_path, LIST)) == {"number": 2}


@pytest.mark.usefixtures("control")
async def test_an_order_is_carried_out_though_nobody_waits(tmp_path: Path, keeper: Keeper) -> None:
    """Who goes away after an order has changed nothing: it is carried out to its end."""
    keeper.may_end.clear()
    async with connected(tmp_path, encode_order(DropQueued("t", 1))):
        await poll(lambda: keeper.given)
    with capture_logs() as logs:
        keeper.may_end.set()
        await poll(lambda: logs)
    assert logs == [{"event": "order carried out", "order": "queue drop", "log_level": "info"}]


async def test_too_many_connections(tmp_path: Path, control: Control) -> None:
    """Beyond a number of connections one is told to come again, and gets in when another has gone."""
    async with AsyncExitStack() as stack:
        async with AsyncExitStack() as first:
            await first.enter_async_context(connected(tmp_path))
            for _ in range(CONNECTIONS - 1):
                await stack.enter_async_context(connected(tmp_path))
            await poll(lambda: len(control._connections) == CONNECTIONS)
            assert refusal(await given(tmp_path, b"")) == f"{CONNECTIONS} others give orders already; try again"
        await poll(lambda: len(control._connections) == CONNECTIONS - 1)
        assert decode_answer(await given(tmp_path, LIST)) == {"number": 1}


@pytest.mark.usefixtures("control")
async def test_who_says_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without an order does not hold its place for ever."""
    monkeypatch.setattr(control_module, "IDLE_SECONDS", 0.05)
    assert await cut_off(tmp_path, b"")
    assert await cut_off(tmp_path, LIST[:5])


async def test_who_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that nobody takes does not hold a place, or memory, for ever."""
    monkeypatch.setattr(control_module, "IDLE_SECONDS", 0.05)

    async def at_length(_: Order) -> Mapping[str, Any]:
        return {"text": "x" * (4 << 20)}

    control = await opened_in(tmp_path, at_length)
    with socket.socket(socket.AF_UNIX) as deaf, socket_address(tmp_path) as address:
        deaf.connect(address)
        deaf.sendall(LIST)
        await poll(lambda: len(control._connections) == 1)
        await poll(lambda: not control._connections)
        deaf.settimeout(10)
        assert await asyncio.to_thread(lambda: sum(map(len, iter(partial(deaf.recv, 1 << 16), b"")))) < 4 << 20
    await control.close()


async def cut_off(folder: Path, data: bytes) -> bool:
    """Whether who sends these bytes, and no more, is cut off without an answer."""
    async with connected(folder, data) as (reader, _):
        return await rest(reader) == b""


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end, in order or not."""
    found = b""
    async with asyncio.timeout(10):
        try:
            while chunk := await reader.read(1 << 16):
                found += chunk
        except ConnectionError:
            pass
    return found


async def test_the_end(tmp_path: Path, control: Control, keeper: Keeper) -> None:
    """At the end an order under way is carried out and answered, idle connections end, and the socket is gone."""
    keeper.may_end.clear()
    async with connected(tmp_path) as (idle, _), connected(tmp_path, LIST) as (busy, _):
        await poll(lambda: len(keeper.given) == 1 and len(control._connections) == 2)
        closing = asyncio.create_task(control.close())
        assert await rest(idle) == b""
        with pytest.raises(FileNotFoundError):
            await given(tmp_path, LIST)
        keeper.may_end.set()
        await closing
        assert decode_answer(await rest(busy)) == {"number": 1}
    await control.close()
    assert not (tmp_path / SOCKET_NAME).exists()


async def test_the_end_does_not_wait_for_ever(
    tmp_path: Path, control: Control, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order that takes longer than the end may take is given up."""
    monkeypatch.setattr(control_module, "CLOSE_SECONDS", 0.05)
    keeper.may_end.clear()
    async with connected(tmp_path, LIST) as (reader, _):
        await poll(lambda: len(keeper.given) == 1)
        async with asyncio.timeout(5):
            await control.close()
        assert await rest(reader) == b""


async def test_a_stale_socket_is_replaced(tmp_path: Path, keeper: Keeper) -> None:
    """What a killed proxy left behind is not in the way of the next one."""
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / SOCKET_NAME))
    with pytest.raises(ConnectionRefusedError):
        await given(tmp_path, LIST)
    control = await opened_in(tmp_path, keeper.carry_out)
    assert decode_answer(await given(tmp_path, LIST)) == {"number": 1}
    await control.close()


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_something_else_of_that_name(tmp_path: Path, keeper: Keeper, kind: str) -> None:
    """What is no socket is left alone, and said; the proxy goes on without."""
    path = tmp_path / SOCKET_NAME
    path.mkdir() if kind == "folder" else path.touch()
    with capture_logs() as logs:
        control = await opened_in(tmp_path, keeper.carry_out)
    assert logs == [
        {"event": "no control socket", "path": str(path), "error": "Address already in use", "log_level": "warning"}
    ]
    await control.close()
    assert path.exists()


@pytest.mark.parametrize("length", [93, 94, 95, 96, 97, 300])
async def test_a_folder_deep_down(tmp_path: Path, keeper: Keeper, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address has 107 bytes at most; folders with longer paths have their socket all the same."""
    monkeypatch.chdir(tmp_path)
    folder = Path("x")
    while len(str(folder)) < length:
        folder /= "x" * max(1, min(200, length - len(str(folder)) - 1))
    folder.mkdir(parents=True)
    control = await opened_in(folder, keeper.carry_out)
    assert stat.S_IMODE((folder / SOCKET_NAME).stat().st_mode) == 0o600
    assert decode_answer(await given(folder, LIST)) == {"number": 1}
    await control.close()
    assert not (folder / SOCKET_NAME).exists()
