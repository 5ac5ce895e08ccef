"""Tenants and a fleet for the tests of routing: two tenants that own namespaces, views as wanted, one eventful card."""

from dataclasses import replace
from typing import Any

from ownership import Fleet
from proxy.core.route import Decision
from proxy.core.tenancy import Tenancy, Trust, Unowned
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.scene import card, fleet_of, interval, owner, rules, tenants

MIG = "GPU-mig"
NOBODY = Trust()
DROP_ALL = rules(Written(action="drop"))
ALL = ("joined", "raw", "idle")

# 0 ml, 10 nlp, 20 nobody, 30 a host process, 40 a gap, 50 stray (nobody's namespace), 60 two owners, 70 not yet named,
# 80 ml for ever
HISTORY = card(
    interval(0, 10, owner("ml")),
    interval(10, 20, owner("nlp")),
    interval(20, 30),
    interval(30, 40, unattributed_bytes=5, unattributed_reason="host"),
    interval(50, 60, owner("stray")),
    interval(60, 70, owner("ml"), owner("nlp")),
    interval(70, 80, owner(None)),
    interval(80, None, owner("ml")),
)
SHARED = [
    card(interval(0, None, owner("ml")), uuid=f"GPU-{sharing}", sharing=sharing)
    for sharing in ("time-slicing", "mps", "dra-shared")
]
INSTANCE = card(interval(0, None, owner("ml")), uuid=MIG, sharing="mig", gpu_instance_id="9", mig_uuid="MIG-9")


def tenancy_of(*views: str, idle: str = "", unowned: str = "", drop: str = "", **over: Any) -> Tenancy:
    """Tenants ml and nlp own their namespaces, those of `views` come after; `drop` has a rule that drops all."""
    made = tenants(("ml", "owned"), ("nlp", "owned"), *((view, view if view != "idle" else "owned") for view in views))
    made = tuple(replace(tenant, rules=DROP_ALL) if tenant.id == drop else tenant for tenant in made)
    by_id = {tenant.id: tenant for tenant in made}
    policy = Unowned("tenant", by_id[unowned]) if unowned in by_id else Unowned(unowned or "quarantine")  # type: ignore[arg-type]
    namespaces = {"ml": by_id["ml"], "nlp": by_id["nlp"]}
    return Tenancy(made, namespaces, by_id[idle] if idle else None, policy, **over)


def eventful_fleet() -> Fleet:
    """One card with all kinds of intervals, shared cards, and a card divided into instances."""
    return fleet_of(HISTORY, *SHARED, INSTANCE, until=100)


def fate_of(decision: Decision) -> str:
    """The fate of a decision as `kind`, `kind:detail` or `kind:tenant:detail`."""
    fate = decision.fate
    return ":".join(filter(None, (fate.kind, fate.tenant, fate.detail)))
