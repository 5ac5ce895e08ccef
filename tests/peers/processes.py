"""One process of a peer: started with a log file, awaited, and always stopped.

``running`` owns the process: it is ready inside the block and gone after it, however the block ends. When the block
fails, the end of the log is added to the error as a note, so that pytest prints it.
"""

import http.client
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.web import Call, fetch

READY_S = 60.0  # Cortex takes a few seconds, on a busy machine with two cores several times that
STOP_S = 20.0  # Prometheus flushes its remote-write queues for as long as its configuration says
POLL_S = 0.05
_LOG_LINES = 40
_NOTE_LINES = 12  # several peers run in one test, and each adds its note
_LOG_COLUMNS = 300


class PeerError(Exception):
    """A peer did not start, did not answer, or ended by itself; the text bears the end of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start and how to see that it is ready. ``env`` is the whole environment of the process."""

    command: Sequence[str]
    log: Path
    ready: Call
    env: Mapping[str, str] | None = None


class Process:
    """A program that can be started, stopped, killed, and started again."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The program's file name."""
        return Path(self.program.command[0]).name

    @property
    def log_head(self) -> str:
        """The line above its log in an error."""
        return f"--- {self.name}, {self.program.log}:"

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """The process id; raises PeerError before the first start."""
        if self._popen is None:
            raise PeerError(f"{self.name} was never started")
        return self._popen.pid

    def start(self, *, deadline_s: float = READY_S) -> None:
        """Starts it and waits until its ready URL answers 2xx; raises PeerError."""
        self.spawn()
        wait_until(self._is_ready, f"{self.name} to be ready", deadline_s=deadline_s, diagnosis=self.log_tail)

    def spawn(self) -> None:
        """Starts it without waiting; the log is appended to."""
        with self.program.log.open("ab") as log:
            self._popen = subprocess.Popen(
                list(self.program.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.program.env,
                cwd=self.program.log.parent,
            )

    def stop(self, *, deadline_s: float = STOP_S) -> int:
        """SIGTERM, and SIGKILL at the deadline; the exit status, negative for a signal."""
        return self._end(signal.SIGTERM, deadline_s)

    def kill9(self) -> int:
        """SIGKILL, as a crash; the exit status."""
        return self._end(signal.SIGKILL, STOP_S)

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """The last lines of its log."""
        text = self.program.log.read_text(encoding="utf-8", errors="replace") if self.program.log.exists() else ""
        return "\n".join([self.log_head, *(line[:_LOG_COLUMNS] for line in text.splitlines()[-lines:])])

    def _end(self, number: signal.Signals, deadline_s: float) -> int:
        if self._popen is None:
            return 0
        if self._popen.poll() is None:
            self._popen.send_signal(number)
        try:
            return self._popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()

    def _is_ready(self) -> bool:
        if not self.alive:
            raise PeerError(f"{self.name} ended by itself\n{self.log_tail()}")
        return answers(self.program.ready)


def answers(call: Call) -> bool:
    """Whether a request gets a 2xx now."""
    try:
        return fetch(call, timeout_s=2).status // 100 == 2
    except (ssl.SSLError, OSError, http.client.HTTPException):
        return False


@contextmanager
def running(program: Program, *, deadline_s: float = READY_S) -> Iterator[Process]:
    """The program, ready inside the block and gone after it."""
    process = Process(program)
    try:
        process.start(deadline_s=deadline_s)
        yield process
    except BaseException as error:
        if process.log_head not in str(error):
            error.add_note(process.log_tail(_NOTE_LINES))
        raise
    finally:
        process.stop()


def wait_until(
    holds: Callable[[], bool], what: str, *, deadline_s: float = 30, diagnosis: Callable[[], str] = lambda: ""
) -> None:
    """Polls until the condition holds; raises PeerError with the diagnosis at the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        if time.monotonic() > end:
            raise PeerError(f"waited {deadline_s:g} s for {what}\n{diagnosis()}".rstrip())
        time.sleep(POLL_S)


def free_ports(count: int) -> tuple[int, ...]:
    """Loopback ports that nothing listens on, for programs that cannot tell which one their port 0 became."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = tuple(int(each.getsockname()[1]) for each in sockets)
    for each in sockets:
        each.close()
    return ports
