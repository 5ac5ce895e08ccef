"""What the demo sends is shaped as a real exporter and a real Prometheus shape it."""

import struct
from random import Random

import cramjam
import pytest

from cli.demo.exporter import FAMILIES, LABELS_LATE_MS, Exporter
from cli.demo.hardware import CARD_MIB, NODES, RESERVED_MIB, Node
from cli.demo.scraping import STALE, Request, Scrape, metadata_request, scrape, write_request
from cli.demo.simulation import Cluster, begin, hand_over, owner_at
from proto.prompb.remote_pb2 import WriteRequest

BEGIN_MS = 1_767_225_000_000
HONORED, REPLACED, UNOBSERVED = NODES


@pytest.fixture
def cluster() -> Cluster:
    """A cluster that has just begun."""
    return begin(BEGIN_MS, Random(1))


def decoded(request: Request) -> WriteRequest:
    """The message in a request."""
    return WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(request.body)))


def of_card(found: Scrape, index: int, name: str) -> tuple[dict[str, str], float]:
    """The one series of a family and card: its labels and value."""
    ((series, value),) = [
        (series, value) for series, value in found.items() if {("__name__", name), ("gpu", str(index))} <= set(series)
    ]
    return dict(series), value


def test_families_are_those_of_the_default_list() -> None:
    """The demo has every family of the exporter's default list that is no label, and some of the commented ones."""
    names = {family.name for family in FAMILIES}
    assert len(names) == len(FAMILIES) == 32
    assert {
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    } <= names


def test_labels_are_sorted_and_as_the_exporter_writes_them(cluster: Cluster) -> None:
    """Each series has sorted, unique labels, the card's identity and the target's labels."""
    found = scrape(HONORED, cluster, Exporter(), BEGIN_MS)
    assert all(list(series) == sorted(set(series)) for series in found)
    labels, _ = of_card(found, 0, "DCGM_FI_DEV_XID_ERRORS")
    pod = owner_at(cluster, 0, BEGIN_MS)
    assert pod is not None
    assert labels == {
        "__name__": "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
        "Hostname": "gpu-node-a",
        "UUID": HONORED.cards[0].uuid,
        "cluster": "demo",
        "container": pod.workload.container,
        "device": "nvidia0",
        "err_code": "0",
        "err_msg": "No Error",
        "gpu": "0",
        "instance": "10.0.0.11:9400",
        "job": "dcgm-exporter",
        "modelName": "NVIDIA H100 80GB HBM3",
        "namespace": pod.workload.namespace,
        "pci_bus_id": "00000000:1A:00.0",
        "pod": pod.name,
    }


def test_without_honor_labels_the_exporter_itself_is_named(cluster: Cluster) -> None:
    """`honor_labels: false` moves the exporter's pod labels to `exported_*` and puts the exporter's own pod there."""
    found = scrape(REPLACED, cluster, Exporter(), BEGIN_MS)
    labels, _ = of_card(found, 1, "DCGM_FI_DEV_GPU_UTIL")
    assert labels["pod"].startswith("dcgm-exporter-")
    assert labels["namespace"] == "gpu-operator"
    pod = owner_at(cluster, len(HONORED.cards) + 1, BEGIN_MS)
    assert pod is not None
    assert labels["exported_pod"] == pod.name
    idle, _ = of_card(found, 3, "DCGM_FI_DEV_GPU_UTIL")
    assert "exported_pod" not in idle


def test_other_series_come_too(cluster: Cluster) -> None:
    """Each node has series that are about no device."""
    found = scrape(UNOBSERVED, cluster, Exporter(), BEGIN_MS)
    others = sorted(dict(series)["__name__"] for series in found if "UUID" not in dict(series))
    assert others == ["node_load1", "scrape_samples_scraped", "up", "up"]


def test_memory_adds_up(cluster: Cluster) -> None:
    """Used, free and reserved are the card, and an idle card uses nothing."""
    found = scrape(HONORED, cluster, Exporter(), BEGIN_MS)
    for index in range(len(HONORED.cards)):
        used, free = (of_card(found, index, f"DCGM_FI_DEV_FB_{kind}")[1] for kind in ("USED", "FREE"))
        assert used + free + RESERVED_MIB == CARD_MIB
        assert (used == 0) == (owner_at(cluster, index, BEGIN_MS) is None)


def test_values_can_be(cluster: Cluster) -> None:
    """Percentages are up to 100, ratios up to 1, and counters never fall."""
    exporter = Exporter()
    before: Scrape = {}
    counters = {family.name for family in FAMILIES if family.kind == "counter"}
    for second in range(200):
        found = scrape(HONORED, cluster, exporter, BEGIN_MS + 1000 * second)
        for series, value in found.items():
            name = dict(series)["__name__"]
            assert 0 <= value <= (1 if name.startswith("DCGM_FI_PROF_") and "BYTES" not in name else 1e15)
            assert value <= 100 or "UTIL" not in name
            assert name not in counters or value >= before.get(series, 0)
        before = found


def changed(cluster: Cluster, node: Node, at_ms: int) -> tuple[Cluster, int]:
    """After a hand-over of one of the node's cards: to another pod, or from or to idle; and the card's number."""
    chance = Random(2)
    while True:
        after, change = hand_over(cluster, at_ms, chance)
        if change.card.node == node.name:
            return after, [card for each in NODES for card in each.cards].index(change.card)


def test_the_pod_label_is_late_and_the_value_is_not(cluster: Cluster) -> None:
    """After a hand-over the exporter names the pod before for some seconds, which is why nobody may believe it."""
    at_ms = BEGIN_MS + 60_000
    after, number = changed(cluster, HONORED, at_ms)
    old, new = owner_at(after, number, at_ms - 1), owner_at(after, number, at_ms)
    for delay_ms, named in ((0, old), (LABELS_LATE_MS - 1, old), (LABELS_LATE_MS, new)):
        found = scrape(HONORED, after, Exporter(), at_ms + delay_ms)
        labels, used = of_card(found, number, "DCGM_FI_DEV_FB_USED")
        assert labels.get("pod") == (named.name if named else None)
        assert (used == 0) == (new is None)


def test_series_that_went_get_a_stale_marker(cluster: Cluster) -> None:
    """When the pod label changes, each old series gets Prometheus' own marker at that scrape's time."""
    at_ms = BEGIN_MS + 60_000
    after, number = changed(cluster, HONORED, at_ms)
    exporter = Exporter()
    before = scrape(HONORED, after, exporter, at_ms + LABELS_LATE_MS - 1)
    now = scrape(HONORED, after, exporter, at_ms + LABELS_LATE_MS)
    request = write_request(now, before, at_ms + LABELS_LATE_MS)
    message = decoded(request)
    markers = [
        entry
        for entry in message.timeseries
        if struct.pack("<d", entry.samples[0].value) == struct.pack("<Q", 0x7FF0000000000002)
    ]
    assert len(markers) == len(FAMILIES)
    assert {sample.timestamp for entry in message.timeseries for sample in entry.samples} == {at_ms + LABELS_LATE_MS}
    assert request.samples == len(message.timeseries) == len(now) + len(FAMILIES)
    gone = {tuple((label.name.decode(), label.value.decode()) for label in entry.labels) for entry in markers}
    assert gone == set(before) - set(now)
    assert all(dict(series)["UUID"] == HONORED.cards[number].uuid for series in gone)


def test_the_marker_is_its_bits() -> None:
    """The marker survives the way through a Python float bit by bit; any other NaN would end nothing."""
    assert struct.pack("<d", STALE) == bytes.fromhex("020000000000f07f")


def test_metadata_goes_by_itself() -> None:
    """Types and texts are a request without samples, as Prometheus sends them."""
    message = decoded(metadata_request())
    assert len(message.metadata) == len(FAMILIES)
    assert not message.timeseries
    assert metadata_request().samples == 0
