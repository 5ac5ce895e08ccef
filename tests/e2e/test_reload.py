"""Another configuration in a running proxy, while a real Prometheus sends to it."""

import os
from pathlib import Path
from signal import SIGHUP
from typing import Any

import pytest

from tests.e2e import fleet
from tests.e2e.compare import sent
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import serving
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peer("prometheus", "cortex")

OLD_CARD, NEW_CARD, _ = fleet.KUBERNETES
DEVICES = '{__name__=~"DCGM_.+"}'


def configuration(folder: Path, store: Cortex, *tenants: str) -> dict[str, Any]:
    """These tenants, whose namespaces are called as they are, in one Cortex."""
    written = [
        {"id": f"{folder.name}.{name}", "namespaces": [name], "endpoint": {"url": store.push_url}} for name in tenants
    ]
    return {"ownership": {"files": [str(folder / "node.json")]}, "tenants": written}


def own(folder: Path) -> None:
    """Write whose the cards are."""
    begin = fleet.now_ms() - 60_000
    cards = {OLD_CARD: "old", NEW_CARD: "new"}
    devices = [
        fleet.device(card, fleet.interval(begin, None, fleet.owner(name, f"{name}-0", "Job", name)))
        for card, name in cards.items()
    ]
    fleet.write(folder / "node.json", "gpu-node-b", devices)


def test_a_reload_takes_all_or_nothing(store: Cortex, tmp_path: Path) -> None:
    """A new tenant gets its series from then on; a bad file changes nothing and is told; nobody's stream breaks."""
    own(tmp_path)

    def arrives(tenant: str) -> None:
        """Wait until the tenant has samples of both kinds from now on."""
        now_ms = fleet.now_ms()
        api = store.api(f"{tmp_path.name}.{tenant}")
        wait_until(lambda: any(each.samples[-1][0] > now_ms for each in sent(api, DEVICES, now_ms + 60_000)), tenant)

    with (
        serving(fleet.exposition("kubernetes")) as target,
        proxy(tmp_path / "proxy", configuration(tmp_path, store, "old")) as through,
    ):
        written = prom.sender_config([prom.scrape("dcgm", [target.target])], [prom.remote_write(through.write_url)])
        with prom.prometheus(tmp_path / "sender", prom.Options(written)):
            arrives("old")
            check_state(through, generation=1, successful=1)
            wait_until(
                lambda: "unmapped_namespace" in through.scrape().by("samples_quarantined", "reason"), "quarantine"
            )

            bad = configuration(tmp_path, store, "old", "new")
            bad["tenants"][1]["write_relabel_configs"] = [{"action": "keep", "regex": "("}]
            bad["proxy"] = {"data_dir": "/elsewhere"}
            answer = through.reload(bad)
            assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
            for told in ("write_relabel_configs[0]: regex does not compile", "proxy.data_dir: cannot change"):
                assert told in answer.json()["detail"]
            check_state(through, generation=1, successful=0)
            arrives("old")

            answer = through.reload(configuration(tmp_path, store, "old", "new"))
            assert (answer.status, answer.json()) == (200, {"generation": 2})
            arrives("new")
            arrives("old")
            check_state(through, generation=2, successful=1)

            through.reload(configuration(tmp_path, store, "new"))
            arrives("new")
            before = through.scrape().total("samples_delivered_total", tenant=f"{tmp_path.name}.old")
            os.kill(through.process.pid, SIGHUP)
            wait_until(lambda: through.scrape().total("config_generation") == 4, "the reload by signal")
            arrives("new")
            assert through.scrape().total("samples_delivered_total", tenant=f"{tmp_path.name}.old") == before
        found = through.balanced()
        assert set(found.by("requests_total", "code")) == {"204"}


def check_state(through: Proxy, *, generation: int, successful: int) -> None:
    """What the metrics say of the configuration."""
    found = through.scrape()
    state = (found.total("config_generation"), found.total("config_last_reload_successful"))
    assert state == (generation, successful)
