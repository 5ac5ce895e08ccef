"""What a real Cortex refuses, for now or for good, is its tenant's affair: no other tenant notices."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import fleet
from tests.e2e.compare import Content, content, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.e2e.sender import OUT_OF_PATIENCE, counted
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.scrape import Scrape

pytestmark = pytest.mark.peer("prometheus", "cortex")

CARDS = dict(zip(("throttled", "strict", "easy"), fleet.KUBERNETES, strict=True))
OWNERS = {name: fleet.owner(name, f"{name}-0", "Job", name) for name in CARDS}
NODE = "gpu-node-b"
DEVICES = '{__name__=~"DCGM_.+",job="dcgm"}'
FAMILIES = 25
FAULT = "DCGM_FI_DEV_XID_ERRORS"  # has two labels more than the others, of which each has 18 when it arrives
EXPOSITION = fleet.exposition("kubernetes")
WITHOUT_FAULTS = "\n".join(line for line in EXPOSITION.splitlines() if FAULT not in line) + "\n"
PROMPT_S = 5.0
LIMITS = {
    "throttled": {"ingestion_rate": 60, "ingestion_burst_size": 20},  # a scrape has 25 samples
    "strict": {"max_label_names_per_series": 18},
}


class Scene:
    """A proxy with three tenants in one Cortex, and a Prometheus that sends to it."""

    def __init__(self, store: Cortex, through: Proxy, sender: prom.Prometheus, target: Exposition) -> None:
        self.through = through
        self.sender = sender
        self.target = target
        self.apis = {name: store.api(tenant_of(through, name)) for name in CARDS}

    def has(self, name: str, end_ms: int) -> Content:
        """What a tenant's store has up to that time."""
        return content(sent(self.apis[name], DEVICES, end_ms))

    def should_have(self, name: str, end_ms: int) -> Content:
        """What it should have of what the sender has scraped."""
        return owned(sent(self.sender.api, DEVICES, end_ms), CARDS[name], NODE, OWNERS[name])

    def has_without_delay(self, name: str) -> None:
        """A tenant's store has all that was scraped until now, sample by sample, while others' samples wait."""
        end_ms = fleet.now_ms()
        wait_until(lambda: fleet.now_ms() > end_ms + 1000, "the sender to store its scrapes up to then")
        wait_for(self.should_have(name, end_ms), lambda: self.has(name, end_ms), name, deadline_s=PROMPT_S)
        assert self.through.scrape().total("samples_queued") > 0

    def has_in_the_end(self, name: str, end_ms: int) -> None:
        """Wait until a tenant's store has all that was scraped, but for what it does not take."""
        expected = self.should_have(name, end_ms)
        if name == "strict":
            expected = {key: samples for key, samples in expected.items() if ("__name__", FAULT) not in key}
        assert len(expected) == (FAMILIES - 1 if name == "strict" else FAMILIES)
        wait_for(expected, lambda: self.has(name, end_ms), name)

    def reads(self, holds: Callable[[Scrape], bool], what: str) -> None:
        """Wait until the proxy's metrics say so."""
        wait_until(lambda: holds(self.through.scrape()), what, diagnosis=self.through.process.log_tail)

    def end(self) -> int:
        """Take the target away; a time at which nothing of it is left."""
        self.target.text = None
        wait_until(lambda: self.sender.query(DEVICES) == (), "the target to be gone")
        return fleet.now_ms() + 1000


def tenant_of(through: Proxy, name: str) -> str:
    """Tenants are called after the test's own folder, since all tests share one Cortex."""
    return f"{through.config_file.parents[1].name}.{name}"


@contextmanager
def scene(store: Cortex, folder: Path, limits: Mapping[str, dict[str, Any]], text: str) -> Iterator[Scene]:
    """The scene, with these limits of Cortex by tenant, and a target that is scraped each second."""
    store.limit({f"{folder.name}.{name}": limit for name, limit in limits.items()})
    begin = fleet.now_ms() - 60_000
    devices = [fleet.device(CARDS[name], fleet.interval(begin, None, OWNERS[name])) for name in CARDS]
    tenants = [
        {"id": f"{folder.name}.{name}", "namespaces": [name], "endpoint": {"url": store.push_url}} for name in CARDS
    ]
    files = [str(fleet.write(folder / "node.json", NODE, devices))]
    with (
        serving(text) as target,
        proxy(folder / "proxy", {"ownership": {"files": files}, "tenants": tenants}) as through,
    ):
        scrape = prom.scrape("dcgm", [target.target], scrape_interval="1s")
        written = prom.sender_config([scrape], [prom.remote_write(through.write_url)])
        with prom.prometheus(folder / "sender", prom.Options(written, flags=[OUT_OF_PATIENCE])) as sender:
            yield Scene(store, through, sender, target)


def test_a_throttled_tenant_and_a_strict_one_hurt_nobody(store: Cortex, tmp_path: Path) -> None:
    """Cortex's 429 (no Retry-After) delays its own tenant alone, and loses nothing; its 400 costs the bad series alone.

    Cortex takes nothing out of order here: what arrives completely has arrived in order.
    """
    with scene(store, tmp_path, LIMITS, WITHOUT_FAULTS) as on:
        throttled, strict, easy = (tenant_of(on.through, name) for name in CARDS)
        on.reads(lambda found: found.total("samples_queued", tenant=throttled) > 2 * FAMILIES, "a backlog")
        on.has_without_delay("easy")
        on.has_without_delay("strict")
        assert counted(on.sender, "samples_failed_total") == 0
        on.target.text = EXPOSITION
        on.reads(lambda found: found.total("samples_dropped_total", tenant=strict) > 2 * FAMILIES, "refusals")
        on.has_without_delay("easy")
        end_ms = on.end()
        for name in ("easy", "strict", "throttled"):
            on.has_in_the_end(name, end_ms)

        assert counted(on.sender, "samples_failed_total") > 0
        assert counted(on.sender, "samples_retried_total") == 0
        on.reads(lambda found: found.total("samples_queued") == 0, "the queue to be empty")
        found = on.through.balanced()
        assert set(found.by("requests_total", "code")) == {"204", "400"}
        assert found.by("samples_dropped_total", "tenant").keys() == {strict}
        assert found.by("samples_dropped_total", "reason").keys() == {"upstream_400_partial"}
        assert set(found.by("upstream_requests_total", "code", tenant=throttled)) == {"200", "429"}
        assert set(found.by("upstream_requests_total", "code", tenant=easy)) == {"200"}
        said = [(each["tenant"], each["reason"]) for each in on.through.events("upstream in trouble")]
        assert sorted(said) == [(strict, "upstream_400_partial"), (throttled, "upstream_429")]


def test_a_sender_is_told_whose_part_was_refused_and_no_more(store: Cortex, tmp_path: Path) -> None:
    """The sender's 400 names reason and tenant; what Cortex said (series, addresses) goes into the log alone."""
    with scene(store, tmp_path, {"strict": {"max_label_names_per_series": 3}}, "") as on:
        labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": CARDS["strict"], "secret": "of-strict"}
        answer = on.through.push([(labels, [(fleet.now_ms(), 1.0)])])
        strict = tenant_of(on.through, "strict")
        assert (answer.status, answer.body.decode()) == (400, f"upstream_400_partial: tenant {strict}\n")
        said = [each["said"] for each in on.through.events("upstream in trouble")]
        assert ["series has too many labels" in each and "of-strict" in each for each in said] == [True]
