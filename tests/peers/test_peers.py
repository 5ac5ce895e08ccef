import json
import time
from pathlib import Path

import pytest

from tests.peers import prometheus as prom
from tests.peers import registry
from tests.peers.cortex import TENANT_HEADER, cortex
from tests.peers.exposition import serving
from tests.peers.kube import kube
from tests.peers.processes import PeerError, wait_until
from tests.peers.push import push
from tests.peers.victoria import victoria
from tests.peers.vmagent import Options as VmagentOptions
from tests.peers.vmagent import vmagent
from tests.peers.web import Call, fetch

EXPOSITION = '# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 42\n'


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


@pytest.mark.peer("prometheus")
def test_a_prometheus_takes_a_write_and_shows_it(tmp_path: Path) -> None:
    """A Prometheus started as receiver stores a 1.0 request sample by sample, and is gone after its block."""
    at_ms = now_ms()
    with prom.prometheus(tmp_path) as receiver:
        answer = push(receiver.write_url, [({"__name__": "m", "pod": "a"}, [(at_ms - 1000, 1.5), (at_ms, 2.5)])])
        assert answer.status == 204, answer.body
        (found,) = receiver.query("m[1m]", at_ms)
        assert (found.labels, found.samples) == (
            {"__name__": "m", "pod": "a"},
            ((at_ms - 1000, 1.5), (at_ms, 2.5)),
        )
        assert [each.value for each in receiver.query_range("sum(m)", at_ms, at_ms)] == [2.5]
        assert receiver.api.series("m") == [{"__name__": "m", "pod": "a"}]
    assert not receiver.process.alive


@pytest.mark.peer("prometheus")
def test_a_prometheus_comes_back_after_a_kill_with_its_samples(tmp_path: Path) -> None:
    """A killed receiver started again on the same port still has what it acknowledged."""
    at_ms = now_ms()
    with prom.prometheus(tmp_path) as receiver:
        push(receiver.write_url, [({"__name__": "m"}, [(at_ms, 7.0)])])
        assert receiver.process.kill9() == -9
        receiver.process.start()
        assert [each.value for each in receiver.query("m", at_ms)] == [7.0]


@pytest.mark.peer("prometheus")
@pytest.mark.parametrize("agent", [False, True], ids=["server", "agent"])
def test_a_prometheus_scrapes_and_remote_writes(tmp_path: Path, *, agent: bool) -> None:
    """A scrape arrives with the sender's external labels, and its stale marker when the target goes."""
    with serving(EXPOSITION) as target, prom.prometheus(tmp_path / "receiver") as receiver:
        config = prom.sender_config(
            [prom.scrape("dcgm", [target.target])],
            [prom.remote_write(receiver.write_url)],
        )
        with prom.prometheus(tmp_path / "sender", prom.Options(config, agent=agent)):
            wait_until(lambda: receiver.query("DCGM_FI_DEV_GPU_UTIL") != (), "the first sample")
            (found,) = receiver.query("DCGM_FI_DEV_GPU_UTIL")
            assert found.value == 42
            assert found.labels.items() >= {"job": "dcgm", "UUID": "GPU-1", "cluster": "test"}.items()
            target.text = None
            wait_until(lambda: receiver.query("DCGM_FI_DEV_GPU_UTIL") == (), "the series to end", deadline_s=10)


@pytest.mark.peer("prometheus")
def test_a_prometheus_refuses_a_bad_configuration_when_asked_to_reload(tmp_path: Path) -> None:
    """A reload takes a good configuration and raises the peer's own reason for a bad one."""
    with prom.prometheus(tmp_path) as server:
        server.reload(prom.sender_config([prom.scrape("a", [server.target])], []))
        with pytest.raises(PeerError, match="scrape_intervall"):
            server.reload({"global": {"scrape_intervall": "1s"}})


@pytest.mark.peer("promtool")
def test_promtool_tells_a_good_configuration_from_a_bad_one(tmp_path: Path) -> None:
    """Promtool passes what sender_config makes, and its complaint about a bad file is the error's text."""
    good, bad = tmp_path / "good.yml", tmp_path / "bad.yml"
    prom.write_config(
        good, prom.sender_config([prom.scrape("a", ["127.0.0.1:1"])], [prom.remote_write("http://127.0.0.1:2/w")])
    )
    bad.write_text("remote_write: [{url: 'http://x', no_such_key: 1}]", encoding="utf-8")
    prom.check_config(good)
    with pytest.raises(PeerError, match="no_such_key"):
        prom.check_config(bad)


@pytest.mark.peer("cortex")
def test_a_cortex_keeps_two_tenants_apart(tmp_path: Path) -> None:
    """Each tenant sees its own series only, no tenant is a 401, and limits can change while it runs."""
    at_ms = now_ms()
    with cortex(tmp_path) as store:
        for tenant, value in (("team-a", 1.0), ("team-b", 2.0)):
            answer = push(
                store.push_url, [({"__name__": "m", "of": tenant}, [(at_ms, value)])], {TENANT_HEADER: tenant}
            )
            assert answer.status == 200, answer.body
        assert push(store.push_url, [({"__name__": "m"}, [(at_ms, 1.0)])]).status == 401
        for tenant, value in (("team-a", 1.0), ("team-b", 2.0)):
            (found,) = store.query(tenant, "m")
            assert (found.labels["of"], found.value) == (tenant, value)
        assert store.query("team-c", "m") == ()
        assert store.api("team-a").series("m") == [{"__name__": "m", "of": "team-a"}]

        store.limit({"team-a": {"max_label_names_per_series": 2}})
        wide = [({"__name__": "m", "of": "x", "more": "y"}, [(at_ms, 1.0)])]
        assert [push(store.push_url, wide, {TENANT_HEADER: t}).status for t in ("team-a", "team-b")] == [400, 200]
    assert not store.process.alive


@pytest.mark.peer("prometheus", "vmagent")
def test_a_vmagent_ships_a_scrape_to_a_prometheus(tmp_path: Path) -> None:
    """What vmagent scrapes arrives at a real receiver."""
    with serving(EXPOSITION) as target, prom.prometheus(tmp_path / "receiver") as receiver:
        config = {"scrape_configs": [prom.scrape("dcgm", [target.target])]}
        with vmagent(tmp_path / "sender", VmagentOptions([receiver.write_url], config)):
            wait_until(lambda: receiver.query("DCGM_FI_DEV_GPU_UTIL") != (), "the first sample")
            (found,) = receiver.query("DCGM_FI_DEV_GPU_UTIL")
            assert (found.value, found.labels["job"]) == (42, "dcgm")


@pytest.mark.peer("victoria-metrics")
def test_a_victoria_metrics_takes_a_write_and_shows_it(tmp_path: Path) -> None:
    """VictoriaMetrics takes the same request as Prometheus and answers the same query."""
    at_ms = now_ms()
    with victoria(tmp_path) as store:
        assert push(store.write_url, [({"__name__": "m", "pod": "a"}, [(at_ms, 2.5)])]).status == 204
        (found,) = store.query("m", at_ms)
        assert (found.labels["pod"], found.value) == ("a", 2.5)


@pytest.mark.peer("etcd", "kube-apiserver", "kubectl")
def test_a_kube_apiserver_answers_kubectl(tmp_path: Path) -> None:
    """The administrator lists and applies; an unknown field is refused by name; a stranger gets 403."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "default"}}
    with kube(tmp_path) as cluster:
        assert cluster.kubectl("version").count(registry.version("kubectl")) == 2  # client and server
        wait_until(lambda: "namespace/default" in cluster.kubectl("get", "namespaces", "-o", "name"), "the namespaces")
        assert "serviceaccount/a" in cluster.apply(json.dumps(account))
        assert cluster.kubectl("create", "token", "a").count(".") == 2
        with pytest.raises(PeerError, match="automount"):
            cluster.apply(json.dumps({**account, "automount": True}))
        assert fetch(Call(f"{cluster.url}/api/v1/nodes", tls=cluster.trust())).status == 403
    assert not cluster.process.alive
    assert not cluster.etcd.alive
