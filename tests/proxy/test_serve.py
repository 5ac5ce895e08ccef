"""The process: how it starts, what signals do, and what its log looks like."""

import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from store.reading import SampleReader
from store.schema import store_path
from tests.e2e.proxy import Proxy, proxy
from tests.peers.processes import PeerError, wait_until
from tests.proxy.core.messages import NOW_MS

EMBEDDED = {"tenants": [{"id": "all", "endpoint": {"embedded": True}}]}
GOOD = [({"__name__": "good"}, [(NOW_MS, 1.5)])]


class Slow:
    """A store that answers when it may."""

    def __init__(self) -> None:
        self.asked = Event()
        self.may_answer = Event()
        self.port = 0


@contextmanager
def slow() -> Iterator[Slow]:
    """The store, on a port of its own."""
    store = Slow()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            store.asked.set()
            store.may_answer.wait(20)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield store
    finally:
        store.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Told to stop it closes its files, says so last, and its status is 0."""
    with proxy(tmp_path, EMBEDDED) as through:
        assert through.push(GOOD).status == 204
        os.kill(through.process.pid, number)
        wait_until(lambda: not through.process.alive, "the end")
        through.stop()
        files = {path.name for path in (through.data_dir / "tenants").iterdir()}
        assert files == {"all.db"}, "the database was not closed: its write-ahead log is still there"
        assert SampleReader(store_path(through.data_dir, "all")).count() == 1


def test_what_is_in_flight_is_finished(tmp_path: Path) -> None:
    """A request that waits for its store when the signal comes gets its answer; by then new ones are not taken."""
    with slow() as store, ThreadPoolExecutor(1) as pool:
        config = {"tenants": [{"id": "t", "endpoint": {"url": f"http://127.0.0.1:{store.port}/"}}]}
        with proxy(tmp_path, config) as through:
            waiting = pool.submit(through.push, GOOD)
            assert store.asked.wait(10)
            os.kill(through.process.pid, signal.SIGTERM)
            wait_until(lambda: refused(through), "the port to close")
            assert through.process.alive
            store.may_answer.set()
            assert waiting.result().status == 204
            wait_until(lambda: not through.process.alive, "the end")
            through.stop()


def refused(through: Proxy) -> bool:
    """Whether nobody listens any more."""
    host, _, port = through.url.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_second_signal_waits_for_nobody(tmp_path: Path) -> None:
    """Told twice it ends though a store does not answer; the request that waited is cut off, unless it is queued."""
    with slow() as store, ThreadPoolExecutor(1) as pool:
        config = {"tenants": [{"id": "t", "endpoint": {"url": f"http://127.0.0.1:{store.port}/"}}]}
        with proxy(tmp_path, config) as through:
            waiting = pool.submit(through.push, GOOD)
            assert store.asked.wait(10)
            os.kill(through.process.pid, signal.SIGTERM)
            wait_until(lambda: refused(through), "the port to close")
            os.kill(through.process.pid, signal.SIGTERM)
            wait_until(lambda: not through.process.alive, "the end", deadline_s=8)
            through.stop()
            error = waiting.exception()
            if error is None and waiting.result().status == 204:
                through.start()
                assert through.scrape().total("parts_recovered_total", tenant="t") == 1
            else:
                assert isinstance(error, OSError) or waiting.result().status == 503


STARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a port in use": ({"listen": "127.0.0.1:{port}"}, "cannot listen"),
    "an address of another machine": ({"listen": "192.0.2.1:0"}, ""),
    "a data folder that is a file": ({"data_dir": "{file}"}, "cannot start"),
    "a data folder in nowhere": ({"data_dir": "/proc/whosegpu"}, "cannot start"),
}


@pytest.mark.parametrize(("of_the_proxy", "event"), STARTS.values(), ids=STARTS.keys())
def test_what_it_cannot_use_ends_it(tmp_path: Path, of_the_proxy: dict[str, str], event: str) -> None:
    """A start that fails ends with status 1 and one sentence, never with a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "file").write_text("")
        values = {"port": taken.getsockname()[1], "file": tmp_path / "file"}
        config = {"proxy": {name: text.format(**values) for name, text in of_the_proxy.items()}, **EMBEDDED}
        failing = Proxy(tmp_path / "proxy", config)
        with pytest.raises(PeerError, match="ended by itself"):
            failing.start()
    log = (tmp_path / "proxy" / "proxy.log").read_text()
    assert "Traceback" not in log
    assert not event or json.loads(log.splitlines()[0])["event"] == event
    assert failing.process.stop() == 1


def test_it_takes_as_many_open_files_as_it_may(tmp_path: Path) -> None:
    """Many shells allow 1024 unless a program asks for more; a thousand tenants need more than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        with proxy(tmp_path, EMBEDDED) as through:
            assert resource.prlimit(through.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_every_line_of_its_log_is_json(tmp_path: Path) -> None:
    """What libraries have to say comes in the same form: nonsense on the port is a line like all others."""
    with proxy(tmp_path, EMBEDDED) as through:
        host, _, port = through.url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.sendall(b"nonsense\r\n\r\n")
            while client.recv(4096):
                pass
        wait_until(lambda: through.events("Invalid HTTP request received.") != [], "its line")
        lines = [json.loads(line) for line in (tmp_path / "proxy.log").read_text().splitlines()]
        assert {line["level"] for line in lines} == {"info", "warning"}
        assert all("timestamp" in line for line in lines)
