"""A store is killed and stays away, the proxy is killed meanwhile, and a Prometheus goes on sending through it all."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e import fleet
from tests.e2e.compare import Content, content, owned, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.e2e.sender import counted
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex, cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.peers.promql import QueryApi, Series

OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "16"))
"""How long the store is away; enough for several steps of the back-off before and after the proxy is killed."""

pytestmark = [pytest.mark.peer("prometheus", "cortex"), pytest.mark.timeout(240 + OUTAGE_SECONDS)]

CARDS = dict(zip(("away", "there"), fleet.BARE, strict=True))
OWNERS = {name: fleet.owner(name, f"{name}-0", "StatefulSet", name) for name in CARDS}
NODE = "gpu-node-a"
SERIES = 150
SHARDS = 3
TEXT = "".join(f'busy{{UUID="{card}",unit="{unit:03}"}} {unit}\n' for card in CARDS.values() for unit in range(SERIES))
RANGE = f"[{300 + OUTAGE_SECONDS:.0f}s]"
PROMPT_MS = 5_000
"""An undisturbed sample is in its store so long after its scrape, the next one a second later, on a busy machine."""


class Scene:
    """A proxy with a tenant in each of two stores, and a Prometheus that sends to it over three shards."""

    def __init__(self, stores: dict[str, Cortex], through: Proxy, sender: prom.Prometheus, target: Exposition) -> None:
        self.through = through
        self.sender = sender
        self.target = target
        self.ids = tenants_of(through.config_file.parents[1])
        self.stores = stores

    def api(self, name: str) -> QueryApi:
        """A tenant's store, asked as that tenant."""
        return self.stores[name].api(self.ids[name])

    def newest_ms(self, name: str) -> int:
        """The time of the newest sample that a tenant's store has, 0 if there is none."""
        return max((each.samples[-1][0] for each in self.api(name).query("busy[1m]")), default=0)

    def failures(self) -> float:
        """How many requests to the store of `away` have failed in this life of the proxy."""
        codes = self.through.scrape().by("upstream_requests_total", "code", tenant=self.ids["away"])
        return sum(count for code, count in codes.items() if code != "200")

    def queued(self) -> float:
        """How many samples of `away` are in its queue."""
        return self.through.scrape().total("samples_queued", tenant=self.ids["away"])

    def at_rest(self) -> bool:
        """Whether nothing waits for `away` any more."""
        return self.through.scrape().total("circuit_open") == self.queued() == 0

    def arrives(self, name: str) -> None:
        """Wait until a tenant's store has a sample from now on."""
        now_ms = fleet.now_ms()
        wait_until(lambda: self.newest_ms(name) > now_ms, f"more samples of {name}")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something, all the while the samples of `there` arrive as if nothing were."""

        def undisturbed_and_holds() -> bool:
            late_ms = fleet.now_ms() - self.newest_ms("there")
            assert late_ms < PROMPT_MS
            return holds()

        deadline_s = 60 + OUTAGE_SECONDS
        wait_until(undisturbed_and_holds, what, deadline_s=deadline_s, diagnosis=self.through.process.log_tail)

    def endures(self, seconds: float) -> None:
        """For so long samples of `away` go to its queue, and no sender is told."""
        end, before = time.monotonic() + seconds, self.queued()
        self.arrives("there")
        self.until(lambda: time.monotonic() > end, "the time to pass")
        assert self.queued() > before + seconds * SERIES / 2
        assert self.failures() > 3
        found = self.through.scrape()
        assert found.by("circuit_open", "tenant") == {self.ids["away"]: 1}
        assert found.by("requests_total", "code").keys() == {"204"}

    def check(self, name: str, end_ms: int) -> int:
        """A tenant's store has all that was scraped, and as many; how many samples that is."""
        expected = self._owned(name, self.sender.query(f"busy{RANGE}", end_ms))
        assert len(expected) == SERIES
        wait_for(expected, lambda: content(self.api(name).query(f"busy{RANGE}", end_ms)), name)
        query = f"count_over_time(busy{RANGE})"
        counts = content(self.api(name).query(query, end_ms))
        assert counts == self._owned(name, self.sender.query(query, end_ms))
        return sum(len(samples) for samples in expected.values())

    def _owned(self, name: str, series: tuple[Series, ...]) -> Content:
        return owned(series, CARDS[name], NODE, OWNERS[name])


def tenants_of(folder: Path) -> dict[str, str]:
    """Tenants are called after the test's own folder, since all tests share one of the stores."""
    return {name: f"{folder.name}.{name}" for name in CARDS}


@contextmanager
def scene(folder: Path, stores: dict[str, Cortex]) -> Iterator[Scene]:
    """The scene."""
    begin = fleet.now_ms() - 60_000
    devices = [fleet.device(CARDS[name], fleet.interval(begin, None, OWNERS[name])) for name in CARDS]
    tenants = [
        {"id": tenant, "namespaces": [name], "endpoint": {"url": stores[name].push_url}}
        for name, tenant in tenants_of(folder).items()
    ]
    files = [str(fleet.write(folder / "node.json", NODE, devices))]
    with (
        serving(TEXT) as target,
        proxy(folder / "proxy", {"ownership": {"files": files}, "tenants": tenants}) as through,
    ):
        write = prom.remote_write(through.write_url)
        write["queue_config"] |= {"min_shards": SHARDS, "max_shards": SHARDS}
        written = prom.sender_config([prom.scrape("busy", [target.target], scrape_interval="1s")], [write])
        with prom.prometheus(folder / "sender", prom.Options(written)) as sender:
            yield Scene(stores, through, sender, target)


def test_a_store_that_was_away_has_everything_in_the_end(store: Cortex, tmp_path: Path) -> None:
    """Per series it has as many samples as the sender, though the proxy was killed too; the other store never waits."""
    with cortex(tmp_path / "away") as away, scene(tmp_path, {"away": away, "there": store}) as on:
        assert counted(on.sender, "shards") == SHARDS
        for name in CARDS:
            on.arrives(name)
        assert away.process.kill9() == -9
        on.endures(OUTAGE_SECONDS / 2)

        queued = on.queued()
        assert on.through.process.kill9() == -9
        missed = on.target.scrapes + 2
        wait_until(lambda: on.target.scrapes >= missed, "scrapes while the proxy is down")
        on.through.start()
        found = on.through.scrape()
        assert found.total("parts_recovered_total", tenant=on.ids["away"]) >= queued
        on.endures(OUTAGE_SECONDS / 2)

        away.process.start()
        on.until(on.at_rest, "the queue to be empty")
        on.arrives("away")
        on.target.text = None
        wait_until(lambda: on.sender.query("busy") == (), "the target to be gone")
        end_ms = int(fleet.now_ms() / 1000 + 1) * 1000
        assert on.check("away", end_ms) == on.check("there", end_ms) > OUTAGE_SECONDS * SERIES
        assert counted(on.sender, "samples_failed_total") == counted(on.sender, "samples_dropped_total") == 0
        found = on.through.balanced()
        assert found.by("requests_total", "code").keys() == {"204"}
        assert found.by("samples_dropped_total", "tenant") == {}
