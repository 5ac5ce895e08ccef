from dataclasses import replace

import pytest

from proxy.core import tenancy as tenancy_module
from proxy.core.route import decide
from proxy.core.tenancy import DYNAMIC_TENANTS, DynamicTenants, Tenancy, Tenant, Trust
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import NOBODY, fate_of
from tests.proxy.core.scene import card, fleet_of, interval, ms, owner, rules, tenants, util


def _tenancy(*declared: str, listed: str = "listed", made: dict[str, Tenant] | None = None) -> Tenancy:
    """Declared owned tenants, the first with the namespace `listed`, and tenants as data."""
    known = tenants(*((name, "owned") for name in declared))
    namespaces = {listed: known[0]} if known else {}
    return Tenancy(known, namespaces, dynamic=DynamicTenants((), {} if made is None else made))


@pytest.mark.parametrize("good", ["a", "team-ml", "A1!-_.*'()", "x" * 150, "...", "__mimir_clusters", "ml_2"])
def test_valid_ids(good: str) -> None:
    """A namespace whose name every store takes as a tenant id makes a tenant."""
    assert _tenancy().owning_tenant(good) == Tenant(good, 0, "owned")


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "__mimir_cluster", "a|b", "a:b", "x" * 151, "a/b", "a b", "ä", "a\n", "a\x00", "a\\b", "%41"]
)
def test_invalid_ids(bad: str) -> None:
    """A name that a store answers with 500 for ever, or reads as several tenants, makes none."""
    assert _tenancy().owning_tenant(bad) == "invalid_tenant"


def test_made_by_an_owner() -> None:
    """A namespace seen of an owner makes a tenant once, after all declared ones, and the same from then on."""
    tenancy = _tenancy("a", "b")
    first = tenancy.owning_tenant("new")
    assert first == Tenant("new", 2, "owned")
    assert tenancy.owning_tenant("new") is first
    assert tenancy.known_tenant("new") is first
    assert tenancy.tenant("new") is first
    assert tenancy.owning_tenant("newer") == Tenant("newer", 3, "owned")


def test_asking_makes_nothing() -> None:
    """Only an owner makes a tenant: looking a namespace or an id up does not."""
    tenancy = _tenancy("a")
    assert tenancy.known_tenant("new") is None
    assert tenancy.tenant("new") is None
    assert tenancy.dynamic == DynamicTenants()


def test_listed_goes_before_dynamic() -> None:
    """A namespace that a tenant lists is that tenant's, also if a tenant was made of it before it was listed."""
    made = {"listed": Tenant("listed", 9, "owned")}
    tenancy = _tenancy("a", made=made)
    assert tenancy.owning_tenant("listed") is tenancy.tenants[0]
    assert tenancy.known_tenant("listed") is tenancy.tenants[0]


def test_declared_id_is_not_entered() -> None:
    """A namespace called like a declared tenant that does not list it makes no tenant: it would be let in there."""
    tenancy = _tenancy("a", "b")
    assert tenancy.owning_tenant("b") == "invalid_tenant"
    assert tenancy.dynamic == DynamicTenants()


@pytest.mark.parametrize("namespace", ["x" * 151, "a|b", "..", "a:b"])
def test_invalid_namespace(namespace: str) -> None:
    """A namespace that cannot be a tenant id makes no tenant."""
    assert _tenancy("a").owning_tenant(namespace) == "invalid_tenant"


def test_without_dynamic_tenants() -> None:
    """Where tenants are not data, a namespace that nobody lists is unmapped, be it valid or not."""
    tenancy = replace(_tenancy("a"), dynamic=None)
    assert [tenancy.owning_tenant(name) for name in ("new", "a|b", "a")] == ["unmapped_namespace"] * 3


def test_the_cap() -> None:
    """There are DYNAMIC_TENANTS at most; those that there are go on."""
    made = {f"t{at}": Tenant(f"t{at}", at, "owned") for at in range(DYNAMIC_TENANTS - 1)}
    tenancy = _tenancy("a", made=made)
    last = tenancy.owning_tenant("last")
    assert isinstance(last, Tenant)
    assert tenancy.owning_tenant("one-more") == "invalid_tenant"
    assert tenancy.owning_tenant("last") is last
    assert tenancy.owning_tenant("listed") is tenancy.tenants[0]
    assert len(made) == tenancy_module.DYNAMIC_TENANTS


def test_views_in_file_order() -> None:
    """Views are told in the order of the file."""
    tenancy = Tenancy(tenants(("a", "raw"), ("b", "joined"), ("c", "owned"), ("d", "raw"), ("e", "joined")))
    assert [tenant.id for tenant in tenancy.raw] == ["a", "d"]
    assert [tenant.id for tenant in tenancy.joined] == ["b", "e"]


def test_traffic_of_dynamic_tenants() -> None:
    """An owner's series goes to the tenant made of its namespace, by the rules of dynamic tenants."""
    own = rules(Written(target_label="by", replacement="rule"))
    tenancy = Tenancy((), dynamic=DynamicTenants(own))
    fleet = fleet_of(card(interval(0, 10, owner("new")), interval(10, None, owner("not|one"))))
    kept = decide(util(), ms(5), NOBODY, tenancy, fleet).claims[0].kept
    assert kept is not None
    assert (kept.get("by"), kept.get("namespace")) == ("rule", "new")
    assert fate_of(decide(util(), ms(15), NOBODY, tenancy, fleet)) == "quarantined:invalid_tenant"


def test_label_of_a_series_makes_no_tenant() -> None:
    """A series' own namespace reaches a dynamic tenant that an owner has made, and makes none."""
    tenancy = Tenancy((), dynamic=DynamicTenants())
    fleet = fleet_of(card(interval(0, None, owner("new"))))
    trust = Trust(namespace_label=True)
    other = util(UUID="", namespace="new")
    assert fate_of(decide(other, ms(5), trust, tenancy, fleet)) == "filtered:no_claim"
    assert fate_of(decide(util(), ms(5), trust, tenancy, fleet)) == "routed"
    assert [claim.tenant.id for claim in decide(other, ms(5), trust, tenancy, fleet).claims] == ["new"]
