from dataclasses import dataclass

import pytest

from ownership import Fleet, Holding
from proxy.core.labels import LabelSet
from proxy.core.route import Decision, decide
from proxy.core.tenancy import Tenancy
from tests.proxy.core.routing import ALL, MIG, NOBODY, eventful_fleet, fate_of, tenancy_of
from tests.proxy.core.scene import MAX_AGE, OTHER_CARD, ms, util

SERIES = util(pod="exporter", namespace="gpu-operator")
BARE = util()
NODE = {"node": "node-a"}


def _joined(namespace: str) -> LabelSet:
    return BARE.with_labels(
        {
            **NODE,
            "pod_uid": f"uid-{namespace}-0",
            "namespace": namespace,
            "pod": f"{namespace}-0",
            "container": "main",
            "controller_kind": "StatefulSet",
            "controller_name": f"{namespace}-set",
        }
    )


WORDS = {
    SERIES: "as sent",
    BARE: "bare",
    _joined("ml"): "of ml",
    _joined("nlp"): "of nlp",
    _joined("stray"): "of stray",
    BARE.with_labels({**NODE, "unattributed": "idle"}): "idle",
    BARE.with_labels({**NODE, "unattributed": "host"}): "host",
}


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """One card with all kinds of intervals, shared cards, and a card divided into instances."""
    return eventful_fleet()


def _told(decision: Decision) -> dict[str, str]:
    """What each tenant gets, in words; of one whose rules drop the series, the rule in brackets."""
    return {
        claim.tenant.id: f"({claim.dropped_by})" if claim.kept is None else WORDS[claim.kept]
        for claim in decision.claims
    }


@dataclass(frozen=True)
class Row:
    """A sample of the card at a time, and what must become of it."""

    name: str
    at: float
    tenancy: Tenancy
    fate: str
    told: dict[str, str]


EVERYBODY = tenancy_of(*ALL, idle="idle")
RULE = "write_relabel_configs[0]"
ROWS = [
    Row("one owner", 5, tenancy_of(), "routed", {"ml": "of ml"}),
    Row("the next owner", 10, tenancy_of(), "routed", {"nlp": "of nlp"}),
    Row("the last millisecond", 9.999, tenancy_of(), "routed", {"ml": "of ml"}),
    Row("all views", 5, EVERYBODY, "routed", {"ml": "of ml", "joined": "of ml", "raw": "as sent"}),
    Row("idle, nobody for it", 25, tenancy_of(), "filtered:idle", {}),
    Row("idle", 25, tenancy_of("idle", idle="idle"), "routed", {"idle": "idle"}),
    Row("idle, seen by views", 25, EVERYBODY, "routed", {"joined": "idle", "raw": "as sent", "idle": "idle"}),
    Row("idle, joined without idle_tenant", 25, tenancy_of("joined"), "routed", {"joined": "idle"}),
    Row("idle_tenant is a view", 25, tenancy_of("joined", idle="joined"), "routed", {"joined": "idle"}),
    Row("idle_tenant sees it raw", 25, tenancy_of("raw", idle="raw"), "routed", {"raw": "as sent"}),
    Row("no pod's bytes", 35, tenancy_of("idle", idle="idle"), "routed", {"idle": "host"}),
    Row("no pod's bytes, nobody for them", 35, tenancy_of(), "filtered:idle", {}),
    Row("unknown: quarantine", 45, tenancy_of("joined", idle="joined"), "quarantined:unknown_owner", {}),
    Row("unknown, raw", 45, tenancy_of(*ALL), "quarantined:unknown_owner", {"raw": "as sent"}),
    Row("unknown: drop", 45, tenancy_of("joined", unowned="drop"), "filtered:unowned", {}),
    Row("unknown: drop, raw", 45, tenancy_of("raw", unowned="drop"), "routed", {"raw": "as sent"}),
    Row("unknown: reject", 45, tenancy_of("joined", unowned="reject"), "rejected:unknown_owner", {}),
    Row("unknown: reject, raw", 45, tenancy_of("raw", unowned="reject"), "routed", {"raw": "as sent"}),
    Row(
        "unknown: reject, raw does not want it",
        45,
        tenancy_of("raw", unowned="reject", drop="raw"),
        "rejected:unknown_owner",
        {"raw": f"({RULE})"},
    ),
    Row("unknown: tenant", 45, tenancy_of("idle", unowned="idle"), "routed", {"idle": "bare"}),
    Row("unknown: tenant, raw", 45, tenancy_of(*ALL, unowned="idle"), "routed", {"raw": "as sent", "idle": "bare"}),
    Row("before all history", -50, tenancy_of(), "quarantined:unknown_owner", {}),
    Row("not yet named", 75, tenancy_of("joined"), "quarantined:unknown_owner", {}),
    Row("not yet named: tenant", 75, tenancy_of("raw", unowned="raw"), "routed", {"raw": "as sent"}),
    Row("unmapped", 55, tenancy_of(), "quarantined:unmapped_namespace", {}),
    Row("unmapped, joined took it", 55, tenancy_of("joined"), "routed", {"joined": "of stray"}),
    Row("unmapped, raw took it", 55, tenancy_of("raw", unowned="reject"), "routed", {"raw": "as sent"}),
    Row(
        "unmapped, joined did not want it",
        55,
        tenancy_of("joined", drop="joined"),
        "quarantined:unmapped_namespace",
        {"joined": f"({RULE})"},
    ),
    Row("unmapped: drop", 55, tenancy_of(unowned="drop"), "filtered:unowned", {}),
    Row("unmapped: reject", 55, tenancy_of(unowned="reject"), "rejected:unmapped_namespace", {}),
    Row("unmapped: tenant", 55, tenancy_of("idle", unowned="idle"), "routed", {"idle": "of stray"}),
    Row(
        "unmapped: tenant, joined took it", 55, tenancy_of(*ALL[::2], unowned="idle"), "routed", {"joined": "of stray"}
    ),
    Row("two owners", 65, EVERYBODY, "quarantined:shared_not_split", {"raw": "as sent"}),
    Row("two owners, whatever unowned says", 65, tenancy_of(unowned="drop"), "quarantined:shared_not_split", {}),
    Row("open", 100, tenancy_of(), "routed", {"ml": "of ml"}),
    Row("within max_age", 100 + MAX_AGE - 0.001, tenancy_of(), "routed", {"ml": "of ml"}),
    Row("beyond max_age", 100 + MAX_AGE, tenancy_of(), "quarantined:unknown_owner", {}),
    Row("the owner does not want it", 5, tenancy_of(drop="ml"), f"filtered:ml:{RULE}", {"ml": f"({RULE})"}),
    Row("another view wants it", 5, tenancy_of("joined", drop="ml"), "routed", {"ml": f"({RULE})", "joined": "of ml"}),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_device_series(row: Row, fleet: Fleet) -> None:
    """A sample of a card goes to those who have a claim at its time, labelled as their view says, to nobody else."""
    decision = decide(SERIES, ms(row.at), NOBODY, row.tenancy, fleet)
    assert (fate_of(decision), _told(decision), decision.device) == (row.fate, row.told, True)


SHARED_SERIES = [
    pytest.param(util(UUID="GPU-time-slicing"), id="time-slicing"),
    pytest.param(util(UUID="GPU-mps"), id="mps"),
    pytest.param(util(UUID="GPU-dra-shared"), id="dra-shared"),
    pytest.param(util(UUID=MIG, GPU_I_ID="9"), id="an instance"),
    pytest.param(util(UUID=MIG), id="all of a divided card"),
]


@pytest.mark.parametrize("policy", ["quarantine", "drop", "reject", "idle"])
@pytest.mark.parametrize("series", SHARED_SERIES)
def test_shared_devices_wait(series: LabelSet, policy: str, fleet: Fleet) -> None:
    """What is not split yet waits in the quarantine under any policy, and only a raw view has it at once."""
    tenancy = tenancy_of(*ALL, idle="idle", unowned=policy)
    decision = decide(series, ms(5), NOBODY, tenancy, fleet)
    assert fate_of(decision) == "quarantined:shared_not_split"
    assert [(claim.tenant.id, claim.kept) for claim in decision.claims] == [("raw", series)]


@pytest.mark.parametrize(
    "series",
    [
        pytest.param(util(UUID=OTHER_CARD), id="no node lists the card"),
        pytest.param(util(GPU_I_ID="3"), id="an instance of a whole card"),
        pytest.param(util(UUID=MIG, GPU_I_ID="77"), id="an instance that is not listed"),
        pytest.param(util(UUID="GPU-"), id="nothing after GPU-"),
    ],
)
def test_unlisted_devices(series: LabelSet, fleet: Fleet) -> None:
    """(UUID, GPU_I_ID) is the key and nothing else: what is not listed under exactly that has no known owner."""
    assert fate_of(decide(series, ms(5), NOBODY, tenancy_of("joined"), fleet)) == "quarantined:unknown_owner"


@pytest.mark.parametrize("at", [5, 15, 25, 55, 65, 75, 100])
@pytest.mark.parametrize("policy", ["quarantine", "drop", "reject", "raw"])
def test_window_of_a_known_holding(at: float, policy: str, fleet: Fleet) -> None:
    """A decision says for which times it holds: those of the interval that it was made from, under every policy."""
    decision = decide(SERIES, ms(at), NOBODY, tenancy_of("raw", unowned=policy), fleet)
    assert isinstance(decision.holding, Holding)
    assert decision.window == (decision.holding.valid_from_ms, decision.holding.valid_to_ms)
    begin, end = decision.window
    assert begin <= ms(at) < end
    for time_ms in (begin, end - 1):
        assert decide(SERIES, time_ms, NOBODY, tenancy_of("raw", unowned=policy), fleet) == decision


def test_owner_is_told_without_tenant(fleet: Fleet) -> None:
    """A decision names the owner also where no tenant is his, and none where nobody knows or the card is shared."""
    assert dict(decide(SERIES, ms(55), NOBODY, tenancy_of(), fleet).owner or ())["namespace"] == "stray"
    assert decide(SERIES, ms(45), NOBODY, tenancy_of(), fleet).owner is None
    assert decide(SERIES, ms(65), NOBODY, tenancy_of(), fleet).owner is None
