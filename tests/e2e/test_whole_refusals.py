"""A store whose 400 refuses the whole request, Prometheus with 1.0: who sends one bad series harms nobody else."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

import pytest

from tests.e2e import fleet
from tests.e2e.compare import content, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.e2e.sender import OUT_OF_PATIENCE, counted
from tests.peers import prometheus as prom
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import Process, wait_until
from tests.peers.push import Entry
from tests.peers.web import Answer
from tests.scrape import Scrape

pytestmark = pytest.mark.peer("prometheus")

CARD = fleet.BARE[0]
NODE = "gpu-node-a"
OWNER = fleet.owner("vision", "vision-0", "Job", "vision")
GOOD = '{__name__="busy"}'
SERIES = 1000
SHARDS = 4
TEXT = "".join(f'busy{{UUID="{CARD}",unit="{unit:04}"}} {unit}\n' for unit in range(SERIES))


class Scene:
    """A proxy before a Prometheus; another sends a thousand series each half second, and a third sender by hand."""

    def __init__(self, store: prom.Prometheus, through: Proxy, sender: prom.Prometheus, target: Exposition) -> None:
        self.store = store
        self.through = through
        self.sender = sender
        self.target = target
        self._begin_ms = fleet.now_ms()

    def push(self, before_ms: int) -> Answer:
        """One sample of the third sender's only series, so long before its first one."""
        entry: Entry = {"__name__": "by_hand", "UUID": CARD, "cluster": "test"}, [(self._begin_ms - before_ms, 1.0)]
        return self.through.push([entry], {"Authorization": "Bearer by-hand"})

    def reads(self, holds: Callable[[Scrape], bool], what: str) -> None:
        """Wait until the proxy's metrics say so."""
        wait_until(lambda: holds(self.through.scrape()), what, diagnosis=self.through.process.log_tail)

    def refused(self) -> float:
        """How many requests the store has refused."""
        return self.through.scrape().total("upstream_requests_total", code="400")

    def delivered(self, samples: int) -> None:
        """Wait until the store has taken so many samples more."""
        due = self.through.scrape().total("samples_delivered_total") + samples
        self.reads(lambda found: found.total("samples_delivered_total") >= due, "more samples")

    def end(self, bad: int) -> None:
        """Everything good has arrived, and exactly the bad samples are counted as lost."""
        self.target.text = None
        wait_until(lambda: self.sender.query(GOOD) == (), "the target to be gone")
        end_ms = fleet.now_ms() + 1000
        expected = owned(sent(self.sender.api, GOOD, end_ms), CARD, NODE, OWNER)
        assert len(expected) == SERIES
        wait_for(expected, lambda: content(sent(self.store.api, GOOD, end_ms)), "all of the thousand")
        (by_hand,) = sent(self.store.api, "by_hand", end_ms)
        assert by_hand.samples == ((self._begin_ms, 1.0),)
        found = self.through.balanced()
        assert found.by("samples_dropped_total", "reason") == {"upstream_400": bad}
        assert (counted(self.sender, "samples_failed_total"), counted(self.sender, "samples_retried_total")) == (0, 0)


@contextmanager
def scene(folder: Path, park_after: str) -> Iterator[Scene]:
    """The scene; a part waits so long for the store until it is queued."""
    for name in ("prometheus", "by-hand"):
        (folder / name).write_text(name)
    held = fleet.interval(fleet.now_ms() - 60_000, None, OWNER)
    config: dict[str, Any] = {
        "proxy": {
            "senders": [{"name": name, "bearer_token_file": str(folder / name)} for name in ("prometheus", "by-hand")],
            "delivery": {"park_after": park_after},
        },
        "ownership": {"files": [str(fleet.write(folder / "node.json", NODE, [fleet.device(CARD, held)]))]},
    }
    with prom.prometheus(folder / "store") as store, serving(TEXT) as target:
        endpoint = {"url": store.write_url, "refusal": "whole"}
        config["tenants"] = [{"id": "vision", "namespaces": ["vision"], "endpoint": endpoint}]
        with proxy(folder / "proxy", config) as through:
            write = prom.remote_write(through.write_url, authorization={"credentials": "prometheus"})
            write["queue_config"] |= {"min_shards": SHARDS, "max_shards": SHARDS}
            written = prom.sender_config([prom.scrape("busy", [target.target])], [write])
            with prom.prometheus(folder / "sender", prom.Options(written, flags=[OUT_OF_PATIENCE])) as sender:
                on = Scene(store, through, sender, target)
                assert on.push(0).status == 204
                on.delivered(SERIES)
                yield on


@contextmanager
def holding(process: Process) -> Iterator[None]:
    """The process does nothing; the kernel takes what is sent to it."""
    os.kill(process.pid, SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, SIGCONT)


def in_hand(found: Scrape) -> float:
    """Samples for which the store has not answered, and that are not queued."""
    ended = ("samples_delivered_total", "samples_dropped_total", "samples_queued")
    return found.total("samples_routed_total") - sum(map(found.total, ended))


def received_by_hand(found: Scrape) -> float:
    """Samples that came from the third sender."""
    return found.total("samples_received_total", sender="by-hand")


def test_one_bad_series_among_a_thousand_of_another_sender(tmp_path: Path) -> None:
    """Sent alone or in one request with a thousand others, it is refused to its own sender, and the others are in."""
    with scene(tmp_path, park_after="8s") as on, ThreadPoolExecutor() as pool:
        for each in (1, 2):
            assert on.push(each).status == 400
        for each in (3, 4, 5):
            before, refused = received_by_hand(on.through.scrape()), on.refused()
            with holding(on.store.process):
                # One request is in flight, and at least two more of the Prometheus' wait: the next one goes with them.
                on.reads(lambda found: in_hand(found) > SERIES * 3 / SHARDS, "requests that wait")
                pushed: Future[Answer] = pool.submit(on.push, each)
                on.reads(lambda found, due=before + 1: received_by_hand(found) == due, "the bad series")  # type: ignore[misc]
            answer = pushed.result()
            assert (answer.status, answer.body.decode()) == (400, "upstream_400: tenant vision\n")
            assert on.refused() > refused + 1  # it was not alone
            on.delivered(SERIES)
        on.end(bad=5)
        found = on.through.scrape()
        assert set(found.by("requests_total", "code")) == {"204", "400"}
        assert found.total("requests_total", code="400") == 5


def test_one_bad_series_in_the_queue(tmp_path: Path) -> None:
    """Acknowledged when it was queued between a thousand others, it alone is lost of them, and counted."""
    with scene(tmp_path, park_after="100ms") as on:
        refused = on.refused()
        with holding(on.store.process):
            on.reads(lambda found: found.total("samples_queued") > SERIES, "a scrape in the queue")
            assert on.push(1).status == 204
            on.reads(lambda found: found.total("samples_queued") > 2 * SERIES, "another one")
        on.reads(lambda found: found.total("samples_queued") == 0, "the queue to be empty")
        assert on.refused() > refused + 1  # it was not alone
        on.delivered(SERIES)
        on.end(bad=1)
        assert set(on.through.scrape().by("requests_total", "code")) == {"204"}
