"""SIGTERM under load while a store hangs: out of service first, then everything in flight is ended and durable."""

import http.client
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.behaviour import hangs, lift
from tests.faults.scene import DELIVERY, Scene, scene, sending
from tests.faults.sender import Sender
from tests.peers.processes import wait_until

HUNG, WELL = "hung", "well"
END_S = 25.0
"""Within Kubernetes' 30 s of grace."""
AT_ONCE_S = 5.0
PATIENT = {"park_after": "8s", "timeout": "10s"}
"""With these a store that hangs keeps requests in flight."""


@contextmanager
def loaded(folder: Path, delivery: Mapping[str, str]) -> Iterator[tuple[Scene, list[Sender]]]:
    """A proxy under load, one of whose two stores takes requests and never replies."""
    with scene(folder, [HUNG, WELL], delivery) as on:
        on[HUNG].upstream.behaviour = hangs
        senders = [on.sender(f"shard-{number}", [HUNG, WELL]) for number in range(3)]
        senders += [on.sender("alone", [WELL])]
        with sending(*senders):
            wait_until(lambda: senders[-1].acknowledgements > 5, "load")
            wait_until(lambda: on[HUNG].upstream.attempts > 0, "a request that hangs")
            yield on, senders


def ends(on: Scene, within_s: float) -> int:
    """The exit status of a process that has been told to stop."""
    wait_until(lambda: not on.proxy.process.alive, "the proxy to end", deadline_s=within_s)
    return on.proxy.process.stop()


def readiness(url: str) -> int:
    """What the probe answers now; 0 where nobody does."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=2)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def goes_on(on: Scene) -> None:
    """After a new start, with the store well again, nothing acknowledged is missing."""
    lift(on[HUNG].upstream)
    on.proxy.start()
    on.arrives()
    wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "the queue to be empty")
    on.check()


@pytest.mark.parametrize("delivery", [DELIVERY, PATIENT], ids=["parked", "in flight"])
def test_an_orderly_end_loses_nothing(tmp_path: Path, delivery: dict[str, str]) -> None:
    """The probe says 503 while connections are still served; exit status 0 in time; all is delivered after a start."""
    with loaded(tmp_path, delivery) as (on, senders):
        os.kill(on.proxy.process.pid, signal.SIGTERM)
        said = {0}
        until = time.monotonic() + END_S
        while on.proxy.process.alive and time.monotonic() < until:
            said.add(readiness(on.proxy.url))
        assert 503 in said
        assert ends(on, END_S) == 0
        for sender in senders:
            sender.stop()
        assert {answer.status for sender in senders for answer in sender.answers} <= {204, 503, 0}
        goes_on(on)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(tmp_path: Path, second: signal.Signals) -> None:
    """Told twice, the proxy ends without waiting for what hangs, and what it had acknowledged is delivered later."""
    with loaded(tmp_path, PATIENT) as (on, senders):
        os.kill(on.proxy.process.pid, signal.SIGTERM)
        wait_until(lambda: readiness(on.proxy.url) != 200, "the first signal to be heard")
        alive = on.proxy.process.alive
        os.kill(on.proxy.process.pid, second)
        ends(on, AT_ONCE_S)
        assert alive
        for sender in senders:
            sender.stop()
        goes_on(on)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_loses_nothing_that_is_parked(tmp_path: Path, second: signal.Signals) -> None:
    """The same in the middle of parking and working off."""
    with loaded(tmp_path, DELIVERY) as (on, senders):
        wait_until(lambda: senders[0].acknowledgements > 5, "parked requests")
        lift(on[HUNG].upstream)
        os.kill(on.proxy.process.pid, signal.SIGTERM)
        os.kill(on.proxy.process.pid, second)
        ends(on, AT_ONCE_S)
        for sender in senders:
            sender.stop()
        goes_on(on)
