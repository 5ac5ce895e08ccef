from dataclasses import replace

import pytest

from ownership import Fleet
from proxy.core.labels import LabelSet
from proxy.core.route import ALWAYS, Claim, decide
from proxy.core.tenancy import DynamicTenants, Tenancy, Trust
from tests.proxy.core.routing import ALL, DROP_ALL, NOBODY, eventful_fleet, fate_of, tenancy_of
from tests.proxy.core.scene import CARD, ms, util

LABELER = Trust(trusted_jobs=frozenset({"whosegpu-labeler"}))


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """Ml until 10, nlp until 20, idle until 30, unknown at 45, stray at 55, ml and nlp at 65, not named at 75."""
    return eventful_fleet()


def _series(name: str, **labels: str) -> LabelSet:
    return LabelSet.of({"__name__": name, "UUID": CARD, "job": "whosegpu-labeler", "node": "node-a", **labels})


def _told(claims: tuple[Claim, ...], series: LabelSet) -> list[str]:
    assert all(claim.kept == series for claim in claims), "nothing is put on or taken off"
    return [claim.tenant.id for claim in claims]


DEVICE_NAMES = [
    "whosegpu_device_up",
    "whosegpu_device_seconds_total",
    "whosegpu_device_unobserved_seconds_total",
    "whosegpu_device_memory_bytes",
    "whosegpu_finding",
]


@pytest.mark.parametrize("name", DEVICE_NAMES)
@pytest.mark.parametrize("namespace", ["", "nlp", "stray"])
@pytest.mark.parametrize(
    ("at", "owners"), [(5, ["ml"]), (15, ["nlp"]), (25, []), (45, []), (55, []), (65, ["ml", "nlp"]), (75, [])]
)
def test_of_a_device(name: str, namespace: str, at: float, owners: list[str]) -> None:
    """The labeler's series of a device go by name: to its owners' tenants, `idle_tenant` and views, as they are."""
    fleet, series = eventful_fleet(), _series(name, namespace=namespace)
    bare = decide(series, ms(at), LABELER, tenancy_of(), fleet)
    assert _told(bare.claims, series) == owners
    assert fate_of(bare) == ("routed" if owners else "filtered:no_claim")
    everybody = decide(series, ms(at), LABELER, tenancy_of(*ALL, idle="idle"), fleet)
    assert _told(everybody.claims, series) == [*owners, "joined", "raw", "idle"]
    assert not everybody.device


@pytest.mark.parametrize(
    "labels", [{"UUID": ""}, {"UUID": "MIG-1"}, {"GPU_I_ID": "9"}], ids=["none", "no card", "an unknown instance"]
)
def test_of_a_device_that_is_not_known(labels: dict[str, str], fleet: Fleet) -> None:
    """A device series of the labeler without a known device still goes to `idle_tenant`, never by its namespace."""
    series = _series("whosegpu_device_up", namespace="ml", **labels)
    assert _told(decide(series, ms(5), LABELER, tenancy_of("idle", idle="idle"), fleet).claims, series) == ["idle"]


@pytest.mark.parametrize(
    "name", ["whosegpu_owner_share", "whosegpu_nvml_up", "whosegpu_devices", "whosegpu_findings", "up"]
)
@pytest.mark.parametrize(
    ("namespace", "views", "told"),
    [
        ("ml", (), ["ml"]),
        ("nlp", ALL, ["nlp", "joined", "raw"]),
        ("stray", (), []),
        ("stray", ALL, ["joined", "raw", "idle"]),
        ("", ALL, ["joined", "raw", "idle"]),
    ],
)
def test_of_owners(name: str, namespace: str, views: tuple[str, ...], told: list[str]) -> None:
    """All other series of the labeler go to their namespace's tenant, without one to `idle_tenant`, and to views."""
    series = _series(name, namespace=namespace, pod="vllm-0")
    tenancy = tenancy_of(*views, idle="idle" if views else "")
    decision = decide(series, ms(15), LABELER, tenancy, eventful_fleet())
    assert _told(decision.claims, series) == told
    assert decision.window == ALWAYS


def test_no_rules(fleet: Fleet) -> None:
    """A tenant's rules do not touch the labeler's series, or its bill would change."""
    tenancy = tenancy_of("joined", "raw", idle="ml", drop="ml")
    assert tenancy.by_id["ml"].rules == DROP_ALL
    for name in ("whosegpu_device_up", "whosegpu_owner_gpu_seconds_total"):
        series = _series(name, namespace="ml")
        assert _told(decide(series, ms(5), LABELER, tenancy, fleet).claims, series) == ["ml", "joined", "raw"]


def test_label_limit(fleet: Fleet) -> None:
    """The limit of labels holds for them too: a store would refuse what has more."""
    series = _series("whosegpu_owner_share", namespace="ml")
    claims = decide(series, ms(5), LABELER, tenancy_of(labels_per_series=4), fleet).claims
    assert [claim.over_limit for claim in claims] == [True]


def test_window_is_the_interval(fleet: Fleet) -> None:
    """Who gets a series of a device is decided for the interval of its owner."""
    decision = decide(_series("whosegpu_device_up"), ms(15), LABELER, tenancy_of(), fleet)
    assert decision.window == (ms(10), ms(20))
    assert decision.owner is None


@pytest.mark.parametrize(
    ("trust", "job"),
    [
        (NOBODY, "whosegpu-labeler"),
        (Trust(frozenset({"other"})), "whosegpu-labeler"),
        (LABELER, "dcgm"),
        (LABELER, ""),
        (LABELER, "whosegpu-labeler2"),
    ],
)
def test_spoofed(trust: Trust, job: str, fleet: Fleet) -> None:
    """The job of a sender that is not trusted with it makes no labeler: the card's owner has the series, as joined."""
    series = _series("whosegpu_device_up", namespace="nlp").with_labels({"job": job})
    decision = decide(series, ms(5), trust, tenancy_of(), fleet)
    assert [(claim.tenant.id, claim.labels.get("namespace")) for claim in decision.claims] == [("ml", "ml")]
    other = _series("whosegpu_owner_share", namespace="nlp", UUID="").with_labels({"job": job})
    assert fate_of(decide(other, ms(5), trust, tenancy_of(), fleet)) == "filtered:no_claim"


def test_own_jobs_of_a_sender(fleet: Fleet) -> None:
    """A sender may be trusted with jobs of its own."""
    series = _series("whosegpu_owner_share", namespace="nlp", job="meter")
    trust = Trust(frozenset({"meter", "x"}))
    assert _told(decide(series, ms(5), trust, tenancy_of(), fleet).claims, series) == ["nlp"]


def test_dynamic_tenants(fleet: Fleet) -> None:
    """The labeler's series find a dynamic tenant; an owner on the device makes one, a namespace label does not."""
    tenancy = replace(tenancy_of(), dynamic=DynamicTenants())
    label_only = _series("whosegpu_owner_share", namespace="stray")
    assert decide(label_only, ms(55), LABELER, tenancy, fleet).claims == ()
    device = _series("whosegpu_device_up")
    assert _told(decide(device, ms(55), LABELER, tenancy, fleet).claims, device) == ["stray"]
    assert _told(decide(label_only, ms(55), LABELER, tenancy, fleet).claims, label_only) == ["stray"]


def test_views_with_a_device_label_are_not_joined(fleet: Fleet) -> None:
    """A joined view sees the labeler's series as they are, though they name a device that has an owner."""
    series = _series("whosegpu_owner_share", namespace="nlp", pod="of-nlp", unattributed="x")
    tenancy: Tenancy = tenancy_of("joined")
    assert _told(decide(series, ms(5), LABELER, tenancy, fleet).claims, series) == ["nlp", "joined"]
    assert decide(util(), ms(5), LABELER, tenancy, fleet).device
