"""Orders to a data folder: to the proxy that has it, by its control socket, else carried out here, under its lock.

The socket is tried first, so that a proxy that is about to start does not find the lock taken by somebody who only
wanted to look. Where neither the socket nor the lock can be had, a proxy starts or stops, or another command is at
work: that is waited for a while.
"""

import asyncio
import os
import pwd
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from cli.errors import CommandError, unusable
from cli.fleet_by_files import fleet_by_files
from cli.terminal import busy
from config.load import Loaded, load
from config.problems import ConfigError
from ownership import Fleet
from proxy.control import SOCKET_NAME, socket_address
from proxy.core.assemble import compile_tenancy
from proxy.core.errors import ProxyError
from proxy.core.orders import (
    DropQueued,
    InspectQueue,
    ListQueues,
    Order,
    decode_answer,
    encode_order,
)
from proxy.disk.data_dir import LOCK_NAME, InUseError
from proxy.logs import set_up
from proxy.standalone import standalone

ANSWER_BYTES: Final = 256 << 20
"""A thousand records, each with a series as long as it may be, in escapes, are far less."""

CONNECT_SECONDS: Final = 5.0
QUEUE_SECONDS: Final = 60.0
"""For an answer about queues: a hundred records are read at most."""
QUARANTINE_SECONDS: Final = 1800.0
"""For one about the quarantine: a gigabyte of it may be read, decided on and delivered."""

TURN_SECONDS: Final = 5.0
"""How long is waited for somebody else who has the lock."""

_POLL_SECONDS: Final = 0.1
_CHUNK: Final = 1 << 16
_QUEUE_ORDERS: Final = (ListQueues, InspectQueue, DropQueued)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The data folder of a configuration."""

    loaded: Loaded
    path: Path

    @classmethod
    def of(cls, config: Path) -> "DataFolder":
        """The folder that the file names; raises CommandError where the file is not good, or there is none."""
        try:
            loaded = load(config)
        except ConfigError as error:
            raise unusable(error) from error
        path = Path(loaded.settings.proxy.data_dir)
        try:
            there = path.is_dir()
        except OSError as error:
            raise CommandError(
                f"the data folder {path} cannot be looked at: {error.strerror}; run this as the proxy's user"
            ) from error
        if not there:
            raise CommandError(
                f"there is no data folder {path.absolute()}; check proxy.data_dir, "
                "which goes by the folder that the proxy was started in"
            )
        return cls(loaded, path)

    def ask(self, order: Order, kind: type[T]) -> T:
        """The answer to an order. Raises CommandError where it is not carried out."""
        with busy(f"working on {self.path}"):
            answer = self._carried_out(order)
        try:
            return TypeAdapter(kind).validate_python(answer)
        except ValidationError as error:
            raise CommandError(
                f"{self.path / SOCKET_NAME} answers something else; is the proxy of this version?"
            ) from error

    def _carried_out(self, order: Order) -> Any:
        until = time.monotonic() + TURN_SECONDS
        patience_seconds = QUEUE_SECONDS if isinstance(order, _QUEUE_ORDERS) else QUARANTINE_SECONDS
        while True:
            try:
                line = ask(self.path, encode_order(order), patience_seconds)
                return decode_answer(line) if line is not None else self._carried_out_here(order)
            except InUseError as error:
                if time.monotonic() > until:
                    raise CommandError(
                        f"another process has {self.path} and takes no orders: a proxy that starts or stops, "
                        "or a command like this one; try again"
                    ) from error
            except ProxyError as error:
                raise CommandError(str(error)) from error
            time.sleep(_POLL_SECONDS)

    def _carried_out_here(self, order: Order) -> Any:
        self._check_owner()
        tenancy = compile_tenancy(self.loaded.settings)
        if isinstance(tenancy, tuple):
            raise unusable(ConfigError(self.loaded.problem(found.path, found.sentence) for found in tenancy))
        settings = self.loaded.settings
        fleet = Fleet(1, 1) if isinstance(order, _QUEUE_ORDERS) else fleet_by_files(settings)
        set_up(quiet=True)

        async def carry_out() -> Any:
            async with standalone(settings, tenancy, fleet) as storeroom:
                return await storeroom.carry_out(order)

        return asyncio.run(carry_out())

    def _check_owner(self) -> None:
        """Raise CommandError for a folder that no proxy has used, or one in which this user would make files."""
        lock = self.path / LOCK_NAME
        try:
            owner = lock.stat().st_uid
        except FileNotFoundError as error:
            raise CommandError(
                f"{self.path} is no data folder of a proxy that has ever run; check proxy.data_dir"
            ) from error
        except OSError as error:
            raise CommandError(f"{lock} cannot be looked at: {error.strerror}") from error
        if owner != os.geteuid():
            raise CommandError(
                f"{self.path} belongs to the proxy's user, {_user(owner)}; run this as that user, "
                "or the proxy could not use what this leaves there"
            )


def ask(folder: Path, order: bytes, patience_seconds: float) -> bytes | None:
    """The line that answers the order's; None where nobody takes orders. Raises CommandError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            with socket_address(folder) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except (TimeoutError, BlockingIOError) as error:
            raise _silent(folder) from error
        except OSError as error:
            raise CommandError(
                f"the proxy cannot be asked at {folder / SOCKET_NAME}: {error.strerror}; run this as the proxy's user"
            ) from error
        return _exchange(connection, folder, order, time.monotonic() + patience_seconds)


def _exchange(connection: socket.socket, folder: Path, order: bytes, until: float) -> bytes:
    answer = bytearray()
    try:
        connection.sendall(order)
        while not answer.endswith(b"\n"):
            connection.settimeout(max(_POLL_SECONDS, until - time.monotonic()))
            chunk = connection.recv(_CHUNK)
            answer += chunk
            if not chunk or len(answer) > ANSWER_BYTES:
                raise CommandError("the proxy ended before it had answered; look at its log, and try again")
            if time.monotonic() > until:
                raise _silent(folder)
    except TimeoutError as error:
        raise _silent(folder) from error
    except OSError as error:
        raise CommandError(f"the proxy went away before it had answered: {error.strerror}; try again") from error
    return bytes(answer)


def _silent(folder: Path) -> CommandError:
    return CommandError(f"the proxy that has {folder} does not answer; look at its log, or stop it and try again")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
