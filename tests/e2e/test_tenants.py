"""The main job: a real Prometheus scrapes real-shaped expositions, and each tenant's real store has its own series.

The story is played once: some scrapes while everything is up, then every target goes away. The tests ask the stores
about times of it.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store.reading import SampleReader
from store.schema import store_path
from tests.e2e import fleet
from tests.e2e.compare import EXTERNAL, NEVER_BELIEVED, OWNER_LABELS, Content, content, joined, owned, sent, wait_for
from tests.e2e.proxy import Proxy, proxy
from tests.peers import prometheus as prom
from tests.peers.cortex import Cortex
from tests.peers.exposition import Exposition, serving
from tests.peers.processes import wait_until
from tests.peers.promql import Series
from tests.scrape import Scrape

pytestmark = [pytest.mark.peer("prometheus", "cortex"), pytest.mark.timeout(120)]

RECORDED = ("bare", "kubernetes", "mig", "timesliced_duplicated", "timesliced_perprocess", "idle_legacy")
DEVICES = '{__name__=~"DCGM_.+"}'
TRAINER = fleet.owner("team-ml", "vllm-0", "StatefulSet", "vllm")
SERVER = fleet.owner("team-ml", "tune-0", "PyTorchJob", "tune")
CHAT = fleet.owner("team-nlp", "chat-7c9d-x2k8q", "Deployment", "chat")
CAMERA = fleet.owner("team-vision", "camera-0", "DaemonSet", "camera")
NOBODY = fleet.owner("team-x", "x-0", "Job", "x")
POD_LABELS = (
    'kube_pod_labels{namespace="team-ml",pod="vllm-0",pod_uid="uid-of-vllm-0",label_team="ml"} 1\n'
    'kube_pod_labels{namespace="team-ml",pod="tune-0",pod_uid="uid-of-tune-0",label_team="other"} 1\n'
    'kube_pod_labels{namespace="team-nlp",pod="chat-7c9d-x2k8q",pod_uid="uid-of-chat-7c9d-x2k8q",label_team="nlp"} 1\n'
    'kube_pod_labels{namespace="team-x",pod="x-0",pod_uid="uid-of-x-0",label_team="x"} 1\n'
)


@dataclass(frozen=True)
class Story:
    """What was played: `live_ms` is a time at which all was up, `gone_ms` one at which every target had gone."""

    cortex: Cortex
    vision: prom.Prometheus
    proxy: Proxy
    sent: tuple[Series, ...]
    live_ms: int
    gone_ms: int
    scrape: Scrape

    def of(self, tenant: str, selector: str = DEVICES) -> Content:
        """All that a tenant's store has of a selector, sample by sample."""
        api = self.vision.api if tenant == "team-vision" else self.cortex.api(tenant)
        return content(sent(api, selector, self.gone_ms))


def ownership(folder: Path) -> list[str]:
    """The documents of all nodes, as files."""
    begin = fleet.now_ms() - 60_000

    def held(*owners: fleet.Tree) -> fleet.Tree:
        return fleet.interval(begin, None, *owners)

    divided = [fleet.device(fleet.DIVIDED, held(TRAINER), sharing="mig", instance=each) for each in ("3", "9", "10")]
    nodes = {
        "gpu-node-a": [fleet.device(fleet.BARE[0], held(TRAINER)), fleet.device(fleet.BARE[1], held(NOBODY))],
        "gpu-node-b": [
            fleet.device(uuid, owners)
            for uuid, owners in zip(fleet.KUBERNETES, (held(SERVER), held(CHAT), held()), strict=True)
        ],
        "gpu-node-c": divided,
        "gpu-node-d": [fleet.device(fleet.SLICED, held(TRAINER, CHAT), sharing="time-slicing")],
        "gpu-node-e": [fleet.device(fleet.LEGACY[0], held(CAMERA))],
    }
    return [str(fleet.write(folder / f"{node}.json", node, devices)) for node, devices in nodes.items()]


def configuration(folder: Path, cortex: Cortex, vision: prom.Prometheus) -> dict[str, Any]:
    """Two tenants in one Cortex, one in a Prometheus, and one that gets what is idle and keeps it here."""
    (folder / "token").write_text("s3cret\n")
    trusted = {"name": "prom", "bearer_token_file": str(folder / "token"), "trust_namespace_label": True}
    whole = {"url": vision.write_url, "refusal": "whole"}
    return {
        "proxy": {"idle_tenant": "platform", "senders": [trusted]},
        "ownership": {"files": ownership(folder)},
        "tenants": [
            {"id": "team-ml", "namespaces": ["team-ml"], "endpoint": {"url": cortex.push_url}},
            {"id": "team-nlp", "namespaces": ["team-nlp"], "endpoint": {"url": cortex.push_url}},
            {"id": "team-vision", "namespaces": ["team-vision"], "endpoint": whole},
            {"id": "platform", "namespaces": ["gpu-operator"], "endpoint": {"embedded": True}},
        ],
    }


def sending(url: str, targets: list[Exposition], pod_labels: Exposition) -> dict[str, Any]:
    """A Prometheus that scrapes each exporter with both values of honor_labels, as the one in the cluster does."""
    exporter = {"namespace": "gpu-operator", "pod": "dcgm-exporter-7kq2f", "container": "exporter"}
    static = [{"targets": [target.target for target in targets], "labels": exporter}]
    scrapes = [
        prom.scrape("dcgm-renamed", [], static_configs=static, honor_labels=False),
        prom.scrape("dcgm-honored", [], static_configs=static, honor_labels=True),
        prom.scrape("kube-state-metrics", [pod_labels.target], honor_labels=True),
    ]
    bearer = {"type": "Bearer", "credentials": "s3cret"}
    return prom.sender_config(scrapes, [prom.remote_write(url, authorization=bearer)])


def vary(text: str, step: int) -> str:
    """The same exposition with other values."""
    return re.sub(r"^(DCGM\S+\{.*\}) (\S+)$", lambda m: f"{m[1]} {float(m[2]) + step / 8!r}", text, flags=re.MULTILINE)


def scraped_again(targets: list[Exposition]) -> None:
    """Wait until each of the two jobs has scraped each target as it is now."""
    due = [target.scrapes + 4 for target in targets]
    wait_until(
        lambda: all(target.scrapes >= count for target, count in zip(targets, due, strict=True)), "all to be scraped"
    )


def play(sender: prom.Prometheus, targets: list[Exposition]) -> tuple[int, int]:
    """Change the values between scrapes, then take every target away; a time before and one after."""
    texts = [target.text or "" for target in targets]
    for step in range(1, 4):
        for target, text in zip(targets, texts, strict=True):
            target.text = vary(text, step)
        scraped_again(targets)
    live_ms = fleet.now_ms()
    for target in targets:
        target.text = None
    wait_until(lambda: sender.query(DEVICES) == () and sender.query("kube_pod_labels") == (), "the targets to be gone")
    return live_ms, int(fleet.now_ms() / 1000 + 1) * 1000


@pytest.fixture(scope="module")
def story(store: Cortex, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The story, played; the proxy and the stores are still there."""
    folder = tmp_path_factory.mktemp("tenants")
    with ExitStack() as stack:
        vision = stack.enter_context(prom.prometheus(folder / "vision"))
        through = stack.enter_context(proxy(folder / "proxy", configuration(folder, store, vision)))
        targets = [stack.enter_context(serving(fleet.exposition(name))) for name in RECORDED]
        pod_labels = stack.enter_context(serving(POD_LABELS))
        config = sending(through.write_url, targets, pod_labels)
        with prom.prometheus(folder / "sender", prom.Options(config)) as sender:
            live_ms, gone_ms = play(sender, [*targets, pod_labels])
            series = sent(sender.api, DEVICES, gone_ms)
            expected = of_the_platform(series)
            wait_for(expected, lambda: embedded(through), "the last of what was scraped")
        yield Story(store, vision, through, series, live_ms, gone_ms, through.balanced())


def embedded(through: Proxy) -> Content:
    """What the idle tenant's own file has of device series, without stale markers."""
    reader = SampleReader(store_path(through.data_dir, "platform"))
    found: Content = {}
    for labels, samples in reader.select({}, 0, 1 << 62):
        values = tuple((at_ms, value) for at_ms, value in samples if value == value)  # noqa: PLR0124 - no NaN
        if labels["__name__"].startswith("DCGM_") and values:
            found[frozenset(labels.items())] = values
    return found


def of_the_platform(series: tuple[Series, ...]) -> Content:
    """What the idle tenant should have: the card without an owner."""
    labels = {"node": "gpu-node-b", "unattributed": "idle"}
    found: Content = {}
    for each in series:
        if each.labels["UUID"] == fleet.KUBERNETES[2]:
            found |= joined(each, labels)
    return found


def test_each_tenant_has_exactly_its_own_series(story: Story) -> None:
    """Label by label and sample by sample each tenant has its own cards' series, and of other cards nothing."""
    ml = owned(story.sent, fleet.BARE[0], "gpu-node-a", TRAINER)
    ml |= owned(story.sent, fleet.KUBERNETES[0], "gpu-node-b", SERVER)
    wait_for(ml, lambda: story.of("team-ml"), "what team-ml should have")
    nlp = owned(story.sent, fleet.KUBERNETES[1], "gpu-node-b", CHAT)
    wait_for(nlp, lambda: story.of("team-nlp"), "what team-nlp should have")
    vision = owned(story.sent, fleet.LEGACY[0], "gpu-node-e", CAMERA)
    wait_for(vision, lambda: story.of("team-vision"), "what team-vision should have")
    assert (len(ml), len(nlp), len(vision)) == (2 * 50, 2 * 25, 2 * 17)  # two jobs scrape each exporter
    assert all(len({value for _, value in samples}) >= 3 for samples in (ml | nlp | vision).values())


def test_the_idle_tenant_has_what_nobody_owns(story: Story) -> None:
    """Embedded storage, read from another process, has the idle card's series, sample by sample."""
    expected = of_the_platform(story.sent)
    assert embedded(story.proxy) == expected
    assert len(expected) == 2 * 25


@pytest.mark.parametrize("job", ["dcgm-renamed", "dcgm-honored"])
def test_owner_labels_replace_what_the_exporter_said(story: Story, job: str) -> None:
    """With both values of honor_labels a series bears its owner's labels, and none that is never believed."""
    for tenant, owner in (("team-ml", TRAINER), ("team-nlp", CHAT), ("team-vision", CAMERA)):
        found = story.of(tenant, f'DCGM_FI_DEV_GPU_UTIL{{job="{job}",pod="{owner["pod"]}"}}')
        assert len(found) == 1, tenant
        (labels,) = map(dict, found)
        assert {name: labels.get(name) for name in OWNER_LABELS} == {name: owner[name] for name in OWNER_LABELS}
        assert labels.keys() & NEVER_BELIEVED == {"pod_uid", "namespace", "pod", "container"}
        assert labels.items() >= EXTERNAL.items()


def test_a_tenant_joins_its_series_with_pod_labels(story: Story) -> None:
    """The query that joins on pod_uid returns the pod's value, and leaves out the other pod's."""
    value = 'DCGM_FI_DEV_GPU_UTIL{namespace="team-ml", controller_kind="StatefulSet", job="dcgm-honored"}'
    query = f'{value} * on (pod_uid) group_left(label_team) kube_pod_labels{{label_team="ml"}}'
    (found,) = story.cortex.query("team-ml", query, story.live_ms)
    assert found.labels["label_team"] == "ml"
    (alone,) = story.cortex.query("team-ml", value, story.live_ms)
    assert found.value == alone.value
    local = [each for each in story.sent if each.labels.items() >= source_of(alone).items()]
    assert [each.value for each in local] == [alone.value]


def source_of(series: Series) -> dict[str, str]:
    """The labels by which the sending Prometheus knows a joined series."""
    return {name: series.labels[name] for name in ("__name__", "UUID", "job", "instance")}


def test_a_tenant_sees_nothing_of_another(story: Story) -> None:
    """Counted by namespace, each tenant has its own namespace and no other, pod labels included."""
    for tenant in ("team-ml", "team-nlp"):
        found = story.cortex.query(tenant, 'count by (namespace) ({__name__=~".+"})', story.live_ms)
        assert [each.labels for each in found] == [{"namespace": tenant}]
    found = story.vision.query('count by (namespace) ({job=~"dcgm.+"})', story.live_ms)
    assert [each.labels for each in found] == [{"namespace": "team-vision"}]
    assert story.cortex.query("team-nlp", '{pod_uid=~"uid-of-(vllm|tune)-0"}', story.live_ms) == ()


def test_a_series_ends_at_once_when_its_target_goes(story: Story) -> None:
    """Right after the targets are gone no store has a current value, though the last is seconds old."""
    for query in (story.cortex.api("team-ml").query, story.cortex.api("team-nlp").query, story.vision.query):
        assert query(DEVICES, story.live_ms) != ()
        wait_until(lambda query=query: query(DEVICES, story.gone_ms) == (), "the stale markers", deadline_s=10)  # type: ignore[misc]
    assert story.gone_ms - story.live_ms < 60_000  # by themselves series end after five minutes


def test_what_has_no_tenant_is_kept_apart(story: Story) -> None:
    """Cards that are shared, unknown or nobody's lie in quarantine, whole; the books and the files say the same."""
    waiting = story.scrape.by("samples_quarantined", "reason")
    files: dict[str, int] = {}
    for record in story.proxy.quarantined():
        files[record.reason] = files.get(record.reason, 0) + record.samples
        assert (record.sender, record.trust) == ("prom", "namespace_label")
    assert waiting == files == story.scrape.by("samples_quarantined_total", "reason")
    held = {"shared_not_split": {fleet.DIVIDED, fleet.SLICED}, "unknown_owner": {fleet.LEGACY[1]}}
    held["unmapped_namespace"] = {fleet.BARE[1]}
    counted = {
        reason: sum(len(each.samples) for each in story.sent if each.labels["UUID"] in uuids)
        for reason, uuids in held.items()
    }
    assert waiting == counted


def test_the_books_of_the_story(story: Story) -> None:
    """All was received from one sender, nothing was refused or dropped, and each tenant's parts were delivered."""
    books = story.scrape
    assert set(books.by("samples_received_total", "sender")) == {"prom"}
    assert books.by("samples_dropped_total", "tenant") == books.by("samples_rejected_total", "reason") == {}
    assert books.by("requests_rejected_total", "reason") == {}
    assert set(books.by("requests_total", "code")) == {"204"}
    assert set(books.by("samples_delivered_total", "tenant")) == {"team-ml", "team-nlp", "team-vision", "platform"}
    assert set(books.by("upstream_requests_total", "code")) <= {"200", "204"}
