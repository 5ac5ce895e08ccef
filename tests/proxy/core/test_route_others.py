import pytest

from ownership import Fleet
from proxy.core.labels import LabelSet
from proxy.core.route import ALWAYS, decide
from proxy.core.tenancy import Tenancy, Trust
from tests.proxy.core.routing import ALL, eventful_fleet, fate_of, tenancy_of
from tests.proxy.core.scene import CARD, ms, tenants, util


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    """A fleet that has nothing to say of these series."""
    return eventful_fleet()


OTHER = {"__name__": "up", "job": "node", "namespace": "ml"}
OTHERS = [
    pytest.param(OTHER, id="no UUID"),
    pytest.param({**OTHER, "UUID": "MIG-9"}, id="a UUID of no card"),
    pytest.param({**OTHER, "UUID": "gpu-1"}, id="lower case"),
    pytest.param({**OTHER, "uuid": CARD}, id="another label"),
]


@pytest.mark.parametrize("labels", OTHERS)
@pytest.mark.parametrize(
    ("trust", "views", "who"),
    [
        (Trust(), (), []),
        (Trust(namespace_label=True), (), ["ml"]),
        (Trust(), ALL, ["joined", "raw"]),
        (Trust(namespace_label=True), ALL, ["ml", "joined", "raw"]),
    ],
)
def test_other_series(labels: dict[str, str], trust: Trust, views: tuple[str, ...], who: list[str]) -> None:
    """A series of no device goes to its namespace's tenant if its sender is trusted so, and to views, as sent."""
    series = LabelSet.of(labels)
    decision = decide(series, ms(5), trust, tenancy_of(*views, idle="ml"), eventful_fleet())
    assert fate_of(decision) == ("routed" if who else "filtered:no_claim")
    assert [claim.tenant.id for claim in decision.claims] == who
    assert all(claim.kept == series for claim in decision.claims)
    assert (decision.window, decision.device, decision.owner) == (ALWAYS, False, None)


@pytest.mark.parametrize("namespace", ["", "stray", "raw"])
def test_trusted_namespace_of_nobody(namespace: str, fleet: Fleet) -> None:
    """A namespace that no tenant lists is no claim, nor is one that has the name of a tenant."""
    series = LabelSet.of({**OTHER, "namespace": namespace})
    decision = decide(series, ms(5), Trust(namespace_label=True), tenancy_of("idle", idle="idle"), fleet)
    assert fate_of(decision) == "filtered:no_claim"


def test_trusted_namespace_of_a_view(fleet: Fleet) -> None:
    """`trust_namespace_label` is for owned tenants: a view with namespaces has the one claim of its view."""
    made = tenants(("ml", "raw"))
    tenancy = Tenancy(made, {"ml": made[0]})
    decision = decide(LabelSet.of(OTHER), ms(5), Trust(namespace_label=True), tenancy, fleet)
    assert [(claim.tenant.id, claim.why) for claim in decision.claims] == [("ml", "raw")]


def test_namespace_label_of_a_device_series_decides_nothing(fleet: Fleet) -> None:
    """On a device series only the owner counts, however much the sender is trusted."""
    decision = decide(util(namespace="nlp"), ms(5), Trust(namespace_label=True), tenancy_of(), fleet)
    assert [claim.tenant.id for claim in decision.claims] == ["ml"]


def test_without_ownership_no_series_is_a_device_series(fleet: Fleet) -> None:
    """With no source of ownership configured, a card's series is matched and labelled like any other."""
    tenancy = tenancy_of("joined", ownership=False)
    series = util(namespace="nlp")
    decision = decide(series, ms(5), Trust(namespace_label=True), tenancy, fleet)
    assert {claim.tenant.id: claim.kept for claim in decision.claims} == {"nlp": series, "joined": series}
    assert not decision.device
