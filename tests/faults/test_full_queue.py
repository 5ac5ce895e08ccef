"""A tenant's queue fills: as configured its oldest go, or its senders wait; the others notice neither."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.behaviour import lift
from tests.faults.scene import DELIVERY, Scene, scene
from tests.faults.sender import Sender
from tests.peers.processes import wait_until

AWAY, HERE = "away", "here"
REQUESTS = 60
SERIES = 100


@contextmanager
def filled(folder: Path, full: str) -> Iterator[tuple[Scene, Sender, list[int]]]:
    """A proxy with a queue of 64 KiB, for which more was sent; the sender, and its answers."""
    with scene(folder, [AWAY, HERE], {**DELIVERY, "queue_bytes": "64KiB", "queue_full": full}) as on:
        on[AWAY].upstream.shut()
        sender = on.sender("one", [AWAY, HERE], each=SERIES)
        yield on, sender, [sender.once().status for _ in range(REQUESTS)]


def emptied(on: Scene) -> None:
    """The store is back, and the queue is worked off."""
    lift(on[AWAY].upstream)
    wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "the queue to be empty")


def test_the_oldest_go(tmp_path: Path) -> None:
    """`drop_oldest`: all is acknowledged; the oldest but the one under way are dropped and counted, others arrive."""
    with filled(tmp_path, "drop_oldest") as (on, _, answers):
        assert answers == [204] * REQUESTS
        scrape = on.proxy.balanced()
        assert 0 < scrape.total("queue_bytes", tenant=AWAY) <= 64 << 10
        emptied(on)
        (dropped,) = on.proxy.balanced().by("samples_dropped_total", "reason", tenant=AWAY).items()
        lost = on.ledger.missing(AWAY, on[AWAY].store)
        assert dropped == ("queue_full", len(lost))
        behind_the_one_under_way = list(on.ledger.acknowledged(AWAY))[SERIES:]
        assert set(lost) == set(behind_the_one_under_way[: len(lost)])
        assert len(on[AWAY].store.kept) >= 200
        assert on.ledger.missing(HERE, on[HERE].store) == []
        assert on[AWAY].store.faults == []


def test_senders_wait(tmp_path: Path) -> None:
    """`refuse`: 503 when full, the other tenant's parts are delivered all the same, nothing acknowledged is lost."""
    with filled(tmp_path, "refuse") as (on, sender, answers):
        full = answers.index(503)
        assert full > 2
        assert answers == [204] * full + [503] * (REQUESTS - full)
        wait_until(lambda: len(on[HERE].store.kept) == len(on.ledger.sent(HERE)), "the other tenant's parts")
        emptied(on)
        assert sender.once().status == 204
        on.arrives()
        on.check()
        assert on.proxy.balanced().total("samples_dropped_total") == 0
