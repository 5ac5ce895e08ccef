"""The real proxy as a process of the demo: started, found by its log, asked for its metrics, and always stopped."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cli.demo.books import Books, read_books
from cli.demo.workplace import Workplace
from cli.errors import CommandError

START_SECONDS: Final = 60.0  # a second on a quiet machine
STOP_SECONDS: Final = 30.0  # it finishes what is in flight
POLL_SECONDS: Final = 0.05
METRICS_SECONDS: Final = 10.0
LAST_WORDS: Final = 3

# PR_SET_PDEATHSIG of prctl(2): a demo that is killed cannot stop its proxy, so the kernel does.
_PROGRAM: Final = "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGTERM); from cli.main import main; main()"

_ROOT: Final = Path(__file__).parents[2]


class ProxyProcess:
    """A running proxy; `host` and `port` are where it listens."""

    def __init__(self, process: "subprocess.Popen[bytes]", place: Workplace, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        self.url = f"http://{address}"
        self._process = process
        self._place = place

    def books(self) -> Books:
        """Its books now; raises CommandError where it does not tell them."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=METRICS_SECONDS)
        try:
            connection.request("GET", "/metrics")
            return read_books(connection.getresponse().read().decode())
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise CommandError(self.how_it_ended() or f"the proxy's metrics cannot be read: {error!r}") from error
        finally:
            connection.close()

    def how_it_ended(self) -> str:
        """Why it is not running, with its last words; empty while it runs."""
        try:
            status = self._process.wait(1)  # a killed process may take a moment to be gone
        except subprocess.TimeoutExpired:
            return ""
        return f"the proxy ended by itself with status {status}{last_words(self._place.log)}"

    def stop(self) -> int:
        """Tell it to end, and wait; its exit status."""
        return _stop(self._process)


@contextmanager
def proxy_process(place: Workplace) -> Iterator[ProxyProcess]:
    """The proxy, listening inside the block and gone after it; raises CommandError where it does not start.

    It runs in a process group of its own: Ctrl-C on a terminal is for the demo, which stops it when the books are read.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM, "proxy", "--config", str(place.config), "--log-format", "json"]
    path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH")) if part)
    with place.log.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            env={**os.environ, "PYTHONPATH": path},
        )
    try:
        yield ProxyProcess(process, place, _address(process, place.log))
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> int:
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        ended = process.poll() is not None
        for event in events(log):
            if event.get("event") == "listening":
                return str(event["address"])
        if ended:
            raise CommandError(f"the proxy did not start{last_words(log)}")
        time.sleep(POLL_SECONDS)
    raise CommandError(f"the proxy did not start within {START_SECONDS:g} s{last_words(log)}")


def events(log: Path) -> Iterator[dict[str, Any]]:
    """What the proxy logged; other lines are events without a level."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        yield event if isinstance(event, dict) else {"event": line}


def last_words(log: Path) -> str:
    """The last things that a log complains of, to put behind a sentence."""
    said = [
        ", ".join(str(value) for key, value in event.items() if key not in {"level", "timestamp"})
        for event in events(log)
        if event.get("level") in {None, "error", "critical"}
    ]
    return f"; it said: {' | '.join(said[-LAST_WORDS:])}" if said else ""
