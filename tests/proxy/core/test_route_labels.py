import pytest

from ownership import Fleet
from proxy.core.labels import LabelSet
from proxy.core.relabel_actions import RelabelRule
from proxy.core.route import Claim, decide
from proxy.core.tenancy import Tenancy
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import NOBODY, eventful_fleet, fate_of
from tests.proxy.core.scene import CARD, card, fleet_of, interval, ms, owner, rules, tenants, util

NEVER_BELIEVED = [
    *("pod", "namespace", "container", "exported_pod", "exported_namespace", "exported_container"),
    *("pod_name", "pod_namespace", "container_name", "pod_uid", "vgpu", "Hostname", "hostname", "hpc_job"),
    *("dra_claim_name", "dra_claim_namespace", "dra_device_name", "dra_driver_name", "dra_pool_name", "dra_"),
]
OURS = ["node", "controller_kind", "controller_name", "shared", "unattributed"]
BELIEVED = ["gpu", "device", "modelName", "pci_bus_id", "DCGM_FI_DRIVER_VERSION", "err_code", "cluster", "__replica__"]
NOTHING = Written(target_label="x", source_labels=("x",))
OWNER = {
    "node": "node-a",
    "pod_uid": "uid-ml-0",
    "namespace": "ml",
    "pod": "ml-0",
    "container": "main",
    "controller_kind": "StatefulSet",
    "controller_name": "ml-set",
}


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """The card belongs to ml at 5 and is idle at 25."""
    return eventful_fleet()


def _tenancy(view: str = "owned", own_rules: tuple[RelabelRule, ...] = (), **over: object) -> Tenancy:
    made = tenants(("ml", view, own_rules))
    return Tenancy(made, {"ml": made[0]}, idle_tenant=made[0], **over)  # type: ignore[arg-type]


def _claim(series: LabelSet, fleet: Fleet, tenancy: Tenancy, at: float = 5) -> Claim:
    return decide(series, ms(at), NOBODY, tenancy, fleet).claims[0]


@pytest.mark.parametrize("name", [*NEVER_BELIEVED, *OURS, "team"])
@pytest.mark.parametrize("at", [5, 25])
def test_taken_off(name: str, at: float, fleet: Fleet) -> None:
    """What an exporter says of owners, and what looks like ours, is taken off owned and idle series alike."""
    claim = _claim(util(**{name: "forged"}), fleet, _tenancy(strip_labels=frozenset({"team"})), at)
    put_on = OWNER if at == 5 else {"node": "node-a", "unattributed": "idle"}
    assert claim.kept == util(**put_on)


@pytest.mark.parametrize("name", BELIEVED)
def test_left_on(name: str, fleet: Fleet) -> None:
    """What does not speak of owners stays, the pair of a high-availability sender too."""
    assert _claim(util(**{name: "kept"}), fleet, _tenancy()).kept == util(**OWNER, **{name: "kept"})


def test_the_name_is_no_prefix(fleet: Fleet) -> None:
    """Only the names as they stand are taken off, not those that begin or end like them."""
    series = util(pod_name_2="x", podx="x", my_pod="x", Dra_x="x", sidra_="x")
    assert _claim(series, fleet, _tenancy()).kept == series.with_labels(OWNER)


def test_exporter_labels_kept(fleet: Fleet) -> None:
    """With `exporter_labels: keep` what is taken off comes along as exporter_<name>, over one that was sent so."""
    series = util(pod="p", dra_pool_name="d", team="t", node="n", shared="true", exporter_pod="forged", other="o")
    tenancy = _tenancy(strip_labels=frozenset({"team"}), keep_exporter_labels=True)
    kept = {"pod": "p", "dra_pool_name": "d", "team": "t", "node": "n", "shared": "true"}
    expected = util(**OWNER, **{f"exporter_{name}": value for name, value in kept.items()}, other="o")
    assert _claim(series, fleet, tenancy).kept == expected


def test_raw_is_as_sent(fleet: Fleet) -> None:
    """A raw view sees a device series with all that its exporter said."""
    series = util(**dict.fromkeys([*NEVER_BELIEVED, *OURS], "sent"))
    assert _claim(series, fleet, _tenancy("raw")).kept == series


@pytest.mark.parametrize(
    ("over", "absent"),
    [
        ({"controller_kind": None, "controller_name": None}, {"controller_kind", "controller_name"}),
        ({"pod_uid": None}, {"pod_uid"}),
        ({"container": None}, {"container"}),
    ],
)
def test_what_is_not_known_of_an_owner(over: dict[str, None], absent: set[str]) -> None:
    """What an owner lacks (a bare pod has no controller) is an absent label, never the exporter's."""
    fleet = fleet_of(card(interval(0, None, owner("ml", **over))))
    forged = util(**dict.fromkeys(OWNER, "forged"))
    expected = {name: value for name, value in OWNER.items() if name not in absent}
    assert _claim(forged, fleet, _tenancy()).kept == util(**expected)


@pytest.mark.parametrize("view", ["owned", "joined"])
def test_rules_come_after_the_view(view: str, fleet: Fleet) -> None:
    """A tenant's rules see the owner's labels, and nothing of what was taken off."""
    own = rules(
        Written(source_labels=("controller_kind", "pod"), target_label="seen"),
        Written(source_labels=("vgpu",), regex=".+", action="drop"),
        Written(regex="pod_uid|node|gpu", action="labeldrop"),
    )
    kept = _claim(util(vgpu="1", pod="exporter"), fleet, _tenancy(view, own)).kept
    assert kept == util(**OWNER, seen="StatefulSet;ml-0").without({"pod_uid", "node", "gpu"})


def test_rules_of_a_raw_view(fleet: Fleet) -> None:
    """A raw tenant's rules see the series as it was sent."""
    own = rules(Written(source_labels=("pod",), target_label="seen"))
    assert _claim(util(pod="exporter"), fleet, _tenancy("raw", own)).kept == util(pod="exporter", seen="exporter")


@pytest.mark.parametrize(
    ("own", "dropped_by"),
    [
        (rules(NOTHING, Written(source_labels=("UUID",), regex=CARD, action="drop")), "write_relabel_configs[1]"),
        (rules(Written(regex=".*", action="labeldrop")), "no_labels"),
        (rules(Written(regex="__name__", action="labeldrop")), "no_name"),
        (rules(Written(target_label="__name__", replacement="")), "no_name"),
    ],
)
def test_dropped_by(own: tuple[RelabelRule, ...], dropped_by: str, fleet: Fleet) -> None:
    """A tenant that keeps nothing is told by what: its rule by index, or that no labels, or no name, were left."""
    tenancy = _tenancy("owned", own)
    claim = _claim(util(), fleet, tenancy)
    assert (claim.kept, claim.dropped_by) == (None, dropped_by)
    assert fate_of(decide(util(), ms(5), NOBODY, tenancy, fleet)) == f"filtered:ml:{dropped_by}"


def test_filtered_under_the_first_claim(fleet: Fleet) -> None:
    """A sample that nobody keeps is filtered once, under the first tenant in file order, whatever its claim."""
    drop = rules(Written(action="drop"))
    made = tenants(
        ("idle", "owned"),
        ("ml", "owned", rules(NOTHING, Written(action="drop"))),
        ("j", "joined", drop),
        ("r", "raw", drop),
    )
    tenancy = Tenancy(made, {"ml": made[1]}, idle_tenant=made[0])
    assert fate_of(decide(util(), ms(5), NOBODY, tenancy, fleet)) == "filtered:ml:write_relabel_configs[1]"
    swapped = Tenancy(tenants(("r", "raw", drop), ("ml", "owned", drop)), {})
    swapped = Tenancy(swapped.tenants, {"ml": swapped.tenants[1]})
    assert fate_of(decide(util(), ms(5), NOBODY, swapped, fleet)) == "filtered:r:write_relabel_configs[0]"


@pytest.mark.parametrize(("limit", "over"), [(12, False), (11, True)])
def test_label_limit(limit: int, over: bool, fleet: Fleet) -> None:  # noqa: FBT001 - a table's column
    """The limit is on what would be sent, after rules: 5 labels as sent, 7 of the owner, one rule off, one on."""
    own = rules(Written(regex="gpu", action="labeldrop"), Written(target_label="site", replacement="x"))
    claim = _claim(util(pod="exporter"), fleet, _tenancy("owned", own, labels_per_series=limit))
    assert claim.kept is not None
    assert (len(claim.kept.pairs), claim.over_limit) == (12, over)


def test_label_limit_of_views(fleet: Fleet) -> None:
    """Each tenant is measured by what it would get: the joined series has more labels than the raw one."""
    made = tenants(("j", "joined"), ("r", "raw"))
    decision = decide(util(), ms(5), NOBODY, Tenancy(made, labels_per_series=5), fleet)
    assert [(claim.tenant.id, claim.over_limit) for claim in decision.claims] == [("j", True), ("r", False)]
    assert fate_of(decision) == "routed"
