"""What holds for every test: nothing leaves the machine, no thread stays behind, no stale build hides its source."""

import ipaddress
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

pytest_plugins = ["tests.peers.plugin"]

_ROOT = Path(__file__).parent.parent
_COMPILED = ("fields", "wire")
_CORE = _ROOT / "proxy/core"
_THREAD_GRACE_SECONDS = 5

_outside: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the number of examples, refuses a stale build, and puts the guard over the sockets."""
    del config
    hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
    hypothesis.settings.register_profile("ci", deadline=None, max_examples=200, print_blob=True)
    hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=5000, print_blob=True)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "dev")
    _refuse_stale_build()
    sys.addaudithook(_watch_sockets)


def _refuse_stale_build() -> None:
    stale = [
        built.name
        for name in _COMPILED
        for built in _CORE.glob(f"{name}.*.so")
        if any(built.stat().st_mtime < source.stat().st_mtime for source in _CORE.glob(f"{name}.p*"))
    ]
    if stale:
        pytest.exit(
            f"{stale[0]} is older than its source and hides it: run `make compiled`, or delete it", returncode=4
        )


def _watch_sockets(event: str, arguments: tuple[object, ...]) -> None:
    if event not in {"socket.connect", "socket.sendto"}:
        return
    address = arguments[1]
    if isinstance(address, tuple) and not _is_loopback(str(address[0])):
        _outside.append(f"{event} {address[0]}")
        message = f"a test may reach loopback only, not {address[0]}"
        raise PermissionError(message)


def _is_loopback(host: str) -> bool:
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def _loopback_only() -> Iterator[None]:
    """Fails a test that tried to reach another machine, also when the code under test swallowed the error."""
    _outside.clear()
    yield
    assert not _outside, f"reached for another machine: {_outside}"


@pytest.fixture(autouse=True)
def _logs_as_ever() -> Iterator[None]:
    """Undoes what a test did to where logs go."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    """Fails a test that leaves a thread of its own running."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + _THREAD_GRACE_SECONDS
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, until - time.monotonic()))
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    assert not left, f"threads left behind: {left}"
