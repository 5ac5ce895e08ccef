"""The disk fills: who needs it waits, nobody else notices, nothing acknowledged is lost, and it goes on by itself."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.faults.behaviour import lift
from tests.faults.disk import DISKS, Disk
from tests.faults.scene import Scene, scene, sending
from tests.peers.processes import wait_until

AWAY, HERE = "away", "here"
SERIES = 200
"""Their samples need more than what the last page of a file may still have on a full disk."""

Place = Callable[[Scene], AbstractContextManager[Disk]]


@pytest.fixture(params=DISKS, ids=lambda disk: disk.__name__)
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of disk that can be had here."""
    chosen: Place = request.param
    return chosen


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Scene]:
    """A proxy, not started, with a tenant that needs the disk and one that does not."""
    with scene(tmp_path, [AWAY, HERE], started=False) as running:
        yield running


def arrives_with_the_rest(on: Scene) -> None:
    """The store is back; everything acknowledged is there, and the books are in order."""
    lift(on[AWAY].upstream)
    on.arrives()
    wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "the queue to be empty")
    on.check()


def test_a_full_disk_makes_those_wait_who_need_it(on: Scene, place: Place) -> None:
    """503 for a batch that needs the disk, whose other part is delivered all the same; 204 again when there is room."""
    with place(on) as disk:
        on.proxy.start()
        on[AWAY].upstream.shut()
        both, alone = on.sender("both", [AWAY, HERE], SERIES), on.sender("alone", [HERE])
        assert [both.once().status for _ in range(3)] == [204] * 3
        queued = on.proxy.scrape().total("samples_queued", tenant=AWAY)
        disk.fill()
        with sending(alone):
            assert [both.once().status for _ in range(5)] == [503] * 5
            wait_until(lambda: alone.acknowledgements >= 5, "the others' acknowledgements")
        assert {answer.status for answer in alone.answers} == {204}
        wait_until(lambda: len(on[HERE].store.kept) == len(on.ledger.sent(HERE)), "the other tenant's parts")
        assert on.proxy.balanced().total("samples_queued", tenant=AWAY) == queued
        disk.free()
        assert [both.once().status for _ in range(3)] == [204] * 3
        arrives_with_the_rest(on)


def test_what_was_acknowledged_survives_a_kill_on_a_full_disk(on: Scene, place: Place) -> None:
    """Under load when it fills, and killed while it is full: everything acknowledged is there after a start."""
    with place(on) as disk:
        on.proxy.start()
        on[AWAY].upstream.shut()
        senders = [on.sender(f"shard-{number}", [AWAY, HERE], SERIES) for number in range(3)]
        with sending(*senders):
            wait_until(lambda: all(sender.acknowledgements >= 5 for sender in senders), "parked requests")
            disk.fill()
            wait_until(lambda: all(sender.last_status == 503 for sender in senders), "senders to wait")
        on.proxy.process.kill9()
        disk.free()
        on.proxy.start()
        assert [sender.once().status for sender in senders] == [204] * 3
        arrives_with_the_rest(on)


def test_a_full_disk_that_comes_and_goes_loses_nothing(on: Scene, place: Place) -> None:
    """Full and free over and over under load, while the store comes and goes too: senders go on, nothing is lost."""
    with place(on) as disk:
        on.proxy.start()
        senders = [on.sender(f"shard-{number}", [AWAY, HERE], SERIES) for number in range(3)]
        with sending(*senders):
            for _ in range(3):
                on[AWAY].upstream.shut()
                disk.fill()
                wait_until(lambda: any(sender.last_status == 503 for sender in senders), "senders to wait")
                lift(on[AWAY].upstream)
                disk.free()
                due = [sender.acknowledgements + 3 for sender in senders]
                wait_until(lambda: all(s.acknowledgements >= d for s, d in zip(senders, due, strict=True)), "answers")  # noqa: B023
        arrives_with_the_rest(on)
