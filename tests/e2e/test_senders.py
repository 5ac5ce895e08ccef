"""Real senders of other kinds: with credentials, without the right ones, and a vmagent."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e import fleet
from tests.e2e.compare import content, owned, sent, wait_for
from tests.e2e.proxy import proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import serving
from tests.peers.processes import wait_until
from tests.peers.vmagent import Options as VmagentOptions
from tests.peers.vmagent import vmagent

CARD = fleet.BARE[0]
NODE = "gpu-node-a"
OWNER = fleet.owner("team", "team-0", "StatefulSet", "team")
DEVICES = '{__name__=~"DCGM_.+"}'


def configuration(folder: Path, store: Cortex, **of_the_proxy: Any) -> dict[str, Any]:
    """One tenant in Cortex that owns the card."""
    held = fleet.interval(fleet.now_ms() - 60_000, None, OWNER)
    files = [str(fleet.write(folder / "node.json", NODE, [fleet.device(CARD, held)]))]
    tenants = [{"id": folder.name, "namespaces": ["team"], "endpoint": {"url": store.push_url}}]
    return {"proxy": of_the_proxy, "ownership": {"files": files}, "tenants": tenants}


@pytest.mark.peer("prometheus", "cortex")
def test_a_prometheus_says_who_it_is(store: Cortex, tmp_path: Path) -> None:
    """By bearer token and by basic authentication it is known by name; with a wrong password it is refused."""
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "password").write_text("p4ss\n")
    senders = [
        {"name": "by-token", "bearer_token_file": str(tmp_path / "token")},
        {"name": "by-password", "basic_auth": {"username": "prom", "password_file": str(tmp_path / "password")}},
    ]
    config = configuration(tmp_path, store, senders=senders)
    with serving(fleet.exposition("bare")) as target, proxy(tmp_path / "proxy", config) as through:
        writes = [
            prom.remote_write(through.write_url, name="a", authorization={"credentials": "t0ken"}),
            prom.remote_write(through.write_url, name="b", basic_auth={"username": "prom", "password": "p4ss"}),
            prom.remote_write(through.write_url, name="c", basic_auth={"username": "prom", "password": "pass"}),
        ]
        written = prom.sender_config([prom.scrape("dcgm", [target.target])], writes)
        with prom.prometheus(tmp_path / "sender", prom.Options(written)) as sender:
            wait_until(lambda: len(through.scrape().by("samples_received_total", "sender")) == 2, "both senders")
            wait_until(lambda: through.scrape().total("requests_total", code="401") > 2, "refusals")
            target.text = None
            wait_until(lambda: sender.query(DEVICES) == (), "the target to be gone")
            end_ms = fleet.now_ms() + 1000
            expected = owned(sent(sender.api, DEVICES, end_ms), CARD, NODE, OWNER)
            api = store.api(tmp_path.name)
            wait_for(expected, lambda: content(sent(api, DEVICES, end_ms)), "all that was scraped, once")
        found = through.balanced()
        assert set(found.by("samples_received_total", "sender")) == {"by-token", "by-password"}
        assert set(found.by("requests_total", "code")) == {"204", "401"}
        assert set(found.by("requests_rejected_total", "reason")) == {"unauthenticated"}


@pytest.mark.peer("vmagent", "cortex")
def test_a_vmagent_falls_back_to_snappy(store: Cortex, tmp_path: Path) -> None:
    """Its zstd gets 415, after which it sends the same block as snappy; what it scraped arrives, and ends in time."""
    config = configuration(tmp_path, store)
    text = fleet.exposition("bare")
    with serving(text) as target, proxy(tmp_path / "proxy", config) as through:
        scrapes = {"scrape_configs": [prom.scrape("dcgm", [target.target])]}
        api = store.api(tmp_path.name)
        with vmagent(tmp_path / "sender", VmagentOptions([through.write_url], scrapes)):
            wait_until(lambda: len(sent(api, DEVICES, fleet.now_ms() + 1000)) == 25, "the card's families")
            wait_until(lambda: target.scrapes > 4, "more scrapes")
            live_ms = fleet.now_ms()
            target.text = None
            wait_until(lambda: api.query(DEVICES, fleet.now_ms() + 2000) == (), "the series to end")
        (temperature,) = api.query("DCGM_FI_DEV_GPU_TEMP", live_ms)
        assert temperature.value == 46
        assert temperature.labels["pod_uid"] == OWNER["pod_uid"]
        (all_of_it,) = sent(api, "DCGM_FI_DEV_GPU_TEMP", fleet.now_ms() + 1000)
        assert {value for _, value in all_of_it.samples} == {46.0}
        found = through.balanced()
        assert found.by("requests_rejected_total", "reason") == {
            "content_encoding": found.total("requests_total", code="415")
        }
        assert found.total("requests_total", code="415") > 0
        assert found.by("samples_dropped_total", "tenant") == {}
