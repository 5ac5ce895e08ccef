import sys
from pathlib import Path

import pytest

from tests.peers.exposition import serving
from tests.peers.processes import PeerError, Process, Program, free_ports, running, wait_until
from tests.peers.web import Call, fetch

SERVER = """
import http.server, signal, sys
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up on", sys.argv[1], flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def program(folder: Path, manner: str = "polite") -> Program:
    """A small HTTP server of its own process; a "stubborn" one ignores SIGTERM."""
    (port,) = free_ports(1)
    command = [sys.executable, "-c", SERVER, str(port), manner]
    return Program(command, folder / "log", Call(f"http://127.0.0.1:{port}/"))


def test_a_program_is_ready_inside_its_block_and_gone_after_it(tmp_path: Path) -> None:
    """The ready URL answers inside the block, and the process has ended after it."""
    started = program(tmp_path)
    with running(started) as process:
        assert fetch(started.ready).status == 200
    assert not process.alive


def test_a_failing_block_stops_the_program_and_shows_its_log(tmp_path: Path) -> None:
    """An error inside the block passes on with the end of the log as a note, and the process has ended."""
    caught: list[Process] = []

    def block() -> None:
        with running(program(tmp_path)) as process:
            caught.append(process)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as error:
        block()
    assert "up on" in error.value.__notes__[0]
    assert not caught[0].alive


def test_a_program_that_ends_by_itself_is_told_at_once(tmp_path: Path) -> None:
    """A program that dies at start is an error with its own last words, long before the deadline."""
    dying = Program(
        [sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path / "log", program(tmp_path).ready
    )
    with pytest.raises(PeerError, match="no such luck"), running(dying):
        pass


def test_a_program_that_never_answers_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    """At the deadline the error says what was waited for."""
    silent = Program([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "log", program(tmp_path).ready)
    with pytest.raises(PeerError, match="to be ready"), running(silent, deadline_s=0.2):
        pass


def test_a_stubborn_program_is_killed(tmp_path: Path) -> None:
    """A program that ignores SIGTERM ends by SIGKILL at the deadline of stop."""
    process = Process(program(tmp_path, "stubborn"))
    process.start()
    assert process.stop(deadline_s=0.2) == -9


def test_a_killed_program_can_be_started_again(tmp_path: Path) -> None:
    """kill9 ends it as a crash does; start brings it back on the same port, with another process id."""
    with running(program(tmp_path)) as process:
        first = process.pid
        assert process.kill9() == -9
        process.start()
        assert process.pid != first


def test_a_condition_that_never_holds_names_itself() -> None:
    """wait_until gives up at its deadline with the words it was given."""
    with pytest.raises(PeerError, match="waited 0 s for rain\nclear sky"):
        wait_until(lambda: False, "rain", deadline_s=0, diagnosis=lambda: "clear sky")


def test_free_ports_differ() -> None:
    """Ports handed out together are all different."""
    assert len(set(free_ports(20))) == 20


def test_an_exposition_can_change_and_go_away() -> None:
    """A served text can be replaced, and None makes the target answer 503."""
    with serving("a 1\n") as target:
        url = Call(f"http://{target.target}/metrics")
        assert fetch(url).body == b"a 1\n"
        target.text = "a 2\n"
        assert fetch(url).body == b"a 2\n"
        target.text = None
        assert fetch(url).status == 503
        assert target.scrapes == 3
