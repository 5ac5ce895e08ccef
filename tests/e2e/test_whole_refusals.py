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
SENDERS = ("prometheus", "bad", "other")
SHARDS = 4
TEXT = "".join(f'busy{{UUID="{CARD}",unit="{unit:04}"}} {unit}\n' for unit in range(SERIES))


class Scene:
    """A proxy before a Prometheus; another sends it a thousand series each half second, and two senders by hand."""

    def __init__(self, store: prom.Prometheus, through: Proxy, sender: prom.Prometheus, target: Exposition) -> None:
        self.store = store
        self.through = through
        self.sender = sender
        self.target = target
        self._begin_ms = fleet.now_ms()

    def push(self, sender: str, after_ms: int, series: int = 1) -> Answer:
        """By hand, a sample of each of a sender's series, so long after that sender's first ones."""
        labels = {"__name__": sender, "UUID": CARD, "cluster": "test"}
        entries: list[Entry] = [
            ({**labels, "unit": str(unit)}, [(self._begin_ms + after_ms, 1.0)]) for unit in range(series)
        ]
        return self.through.push(entries, {"Authorization": f"Bearer {sender}"})

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
        (bad_series,) = sent(self.store.api, "bad", end_ms)
        assert bad_series.samples == ((self._begin_ms, 1.0),)
        found = self.through.balanced()
        assert found.by("samples_dropped_total", "reason") == {"upstream_400": bad}
        assert (counted(self.sender, "samples_failed_total"), counted(self.sender, "samples_retried_total")) == (0, 0)


@contextmanager
def scene(folder: Path, park_after: str) -> Iterator[Scene]:
    """The scene; a part waits so long for the store until it is queued."""
    for name in SENDERS:
        (folder / name).write_text(name)
    held = fleet.interval(fleet.now_ms() - 60_000, None, OWNER)
    config: dict[str, Any] = {
        "proxy": {
            "senders": [{"name": name, "bearer_token_file": str(folder / name)} for name in SENDERS],
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
                assert on.push("bad", 0).status == 204
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


def push_among_others(on: Scene, pool: ThreadPoolExecutor, number: int) -> Answer:
    """Push a bad sample so that it goes to the store in one request with a thousand others."""
    answers: list[Answer] = []

    def pushed() -> bool:
        answers.extend(_pushed_among_others(on, pool, number))
        return bool(answers)

    wait_until(pushed, "a moment at which nothing is in flight")
    return answers[0]


def _pushed_among_others(on: Scene, pool: ThreadPoolExecutor, number: int) -> list[Answer]:
    """The answer, or none if this was no moment for it: while a request is in flight, what comes gathers."""
    pushed: list[Future[Answer]] = []

    def push(sender: str, after_ms: int, series: int = 1) -> None:
        due = on.through.scrape().total("samples_received_total", sender=sender) + series
        pushed.append(pool.submit(on.push, sender, after_ms, series))
        on.reads(lambda found: found.total("samples_received_total", sender=sender) == due, sender)

    with holding(on.store.process):
        if in_hand(on.through.scrape()) != 0:
            return []
        push("other", 2 * number)
        if in_hand(on.through.scrape()) != 1:  # others are in flight too, perhaps all that there are
            return []
        push("other", 2 * number + 1, SERIES)
        push("bad", -number)
    first, others, bad = (each.result() for each in pushed)
    assert first.status == others.status == 204
    return [bad]


def test_one_bad_series_among_a_thousand_of_another_sender(tmp_path: Path) -> None:
    """Sent alone or in one request with a thousand others, it is refused to its own sender, and the others are in."""
    with scene(tmp_path, park_after="8s") as on, ThreadPoolExecutor() as pool:
        for number in (1, 2):
            assert on.push("bad", -number).status == 400
        for number in (3, 4, 5):
            refused = on.refused()
            answer = push_among_others(on, pool, number)
            assert (answer.status, answer.body.decode()) == (400, "upstream_400: tenant vision\n")
            assert on.refused() > refused + 1  # it was not alone
            on.delivered(SERIES)
        on.end(bad=5)
        others = sent(on.store.api, "other", fleet.now_ms())
        assert sum(len(each.samples) for each in others) == 3 * (1 + SERIES)
        found = on.through.scrape()
        assert set(found.by("requests_total", "code")) == {"204", "400"}
        assert found.total("requests_total", code="400") == 5


def test_one_bad_series_in_the_queue(tmp_path: Path) -> None:
    """Acknowledged when it was queued between a thousand others, it alone is lost of them, and counted."""
    with scene(tmp_path, park_after="100ms") as on:
        refused = on.refused()
        with holding(on.store.process):
            on.reads(lambda found: found.total("samples_queued") > SERIES, "a scrape in the queue")
            assert on.push("bad", -1).status == 204
            on.reads(lambda found: found.total("samples_queued") > 2 * SERIES, "another one")
        on.reads(lambda found: found.total("samples_queued") == 0, "the queue to be empty")
        assert on.refused() > refused + 1  # it was not alone
        on.delivered(SERIES)
        on.end(bad=1)
        assert set(on.through.scrape().by("requests_total", "code")) == {"204"}
