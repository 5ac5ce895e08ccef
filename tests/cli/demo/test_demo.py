"""The whole demo as a person starts it: real processes, real sockets, real files."""

import json
import math
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.demo.hardware import PLATFORM, TEAMS, TENANTS
from store.reading import SampleReader
from store.schema import store_path
from tests.cli.command import MODULE, ROOT, environment
from tests.peers.processes import wait_until


@contextmanager
def demo(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A demo as a process; it and what it started are gone after the block."""
    process = subprocess.Popen(
        [*MODULE, "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    try:
        yield process
    finally:
        children = started_by(process) if process.poll() is None else []
        process.kill()
        for child in children:
            os.kill(child, signal.SIGKILL)
        process.communicate()


def started_by(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that it started and that still run."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(pid) for pid in found.split()]


def runs(pid: int) -> bool:
    """Whether a process of that number runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


def listening(process: "subprocess.Popen[str]") -> str:
    """The proxy's URL, once it is printed."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"page +(http://\S+)/", line):
            return found[1]
    raise AssertionError("the demo printed no address")


def test_it_ends_by_itself_with_balanced_books(tmp_path: Path) -> None:
    """`--for 5` exits 0: the books balance, each tenant got samples, and each sample is its owner's of that moment."""
    with demo("--for", "5", "--data-dir", str(tmp_path / "d")) as process:
        out, _ = process.communicate(timeout=100)
    assert process.returncode == 0, out
    assert "The books balance, and every tenant got its samples." in out
    assert "unknown_owner" in out
    for team in TEAMS:
        assert own_cards_only(tmp_path / "d", team) > 100
    assert stored(tmp_path / "d", PLATFORM) > sum(stored(tmp_path / "d", team) for team in TEAMS)


def stored(folder: Path, tenant: str) -> int:
    """How many samples a tenant has."""
    return SampleReader(store_path(folder / "data", tenant)).count()


def own_cards_only(folder: Path, team: str) -> int:
    """Check each sample of a team against the ownership documents; how many there were."""
    count = 0
    for labels, samples in SampleReader(store_path(folder / "data", team)).select({}, 0, 1 << 62):
        assert labels["namespace"] == team
        assert labels["controller_kind"]
        assert not {"Hostname", "exported_pod"} & labels.keys()
        held = intervals(folder, labels)
        for at_ms, value in samples:
            ended = math.isnan(value)  # a stale marker, which stands where the next owner begins
            assert any(start <= at_ms < end or (ended and at_ms == end) for start, end in held), (labels, at_ms)
            count += 1
    return count


def intervals(folder: Path, labels: dict[str, str]) -> list[tuple[int, float]]:
    """When the pod of a series owned its card."""
    document: dict[str, Any] = json.loads((folder / f"ownership/{labels['node']}.json").read_bytes())
    return [
        (interval["from"], interval["to"] or float("inf"))
        for device in document["devices"]
        if device["uuid"] == labels["UUID"]
        for interval in device["intervals"]
        if [owner["pod_uid"] for owner in interval["owners"]] == [labels["pod_uid"]]
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_books(number: signal.Signals) -> None:
    """Ctrl-C stops the sender, then shows the books, then stops the proxy; nothing stays behind, and it exits 0."""
    with demo() as process:
        url = listening(process)
        (proxy,) = started_by(process)
        command = Path(f"/proc/{proxy}/cmdline").read_text(encoding="utf-8").split("\0")
        folder = Path(command[command.index("--config") + 1]).parent
        files = [store_path(folder / "data", tenant) for tenant in TENANTS]
        wait_until(lambda: all(file.exists() for file in files), f"samples through {url}")
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert "The books balance" in out
    assert not Path(f"/proc/{proxy}").exists()
    assert not folder.exists()


def test_a_proxy_that_is_killed_is_told() -> None:
    """When the proxy ends by itself the demo says how, and exits 1 at once."""
    with demo("--for", "60") as process:
        listening(process)
        (proxy,) = started_by(process)
        os.kill(proxy, signal.SIGKILL)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "whosegpu: the proxy ended by itself with status -9" in out
    assert "Traceback" not in out


def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    """After SIGKILL the proxy ends by itself: nobody is left to stop it, and it would hold its port for ever."""
    with demo("--no-live", "--data-dir", str(tmp_path / "d")) as process:
        listening(process)
        (child,) = started_by(process)
        process.kill()
        process.wait()
        wait_until(lambda: not runs(child), "the proxy's end", deadline_s=20)


def test_storage_that_takes_nothing_is_no_success(tmp_path: Path) -> None:
    """Where no tenant's file can be made, nobody gets samples: the demo says what failed, and exits 1."""
    (tmp_path / "demo.yaml").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/tenants").touch()
    with demo("--for", "3", "--data-dir", str(tmp_path)) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "team-ml got no samples" in out
    assert "Traceback" not in out


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    """A proxy that cannot start is told with its own words."""
    with demo() as process:
        port = listening(process).rpartition(":")[2]
        with demo("--port", port) as second:
            out, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert out.startswith("whosegpu: the proxy did not start; it said: ")
    assert "in use" in out
