"""From the configuration as written to the tenancy as compiled: parsed once, trusted afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

from config.relabel import RelabelConfig
from config.settings import Settings
from proxy.core.errors import RelabelError
from proxy.core.relabel import RelabelRule, compile_rule
from proxy.core.tenancy import DynamicTenants, Tenancy, Tenant, Unowned

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A relabel rule that cannot be used, and where it stands in the configuration."""

    path: Path
    sentence: str


def rule_problems(settings: Settings) -> tuple[RuleProblem, ...]:
    """Every relabel rule that cannot be used, for settings of which no tenancy can be made."""
    problems: list[RuleProblem] = []
    for order, tenant in enumerate(settings.tenants):
        _rules(tenant.write_relabel_configs, ("tenants", order, "write_relabel_configs"), problems)
    if settings.dynamic_tenants is not None:
        _rules(settings.dynamic_tenants.write_relabel_configs, ("dynamic_tenants", "write_relabel_configs"), problems)
    return tuple(problems)


def compile_tenancy(settings: Settings, before: Tenancy | None = None) -> Tenancy | tuple[RuleProblem, ...]:
    """The tenancy, or every relabel rule that cannot be used.

    Tenants that `before` has made from data are made again, as far as they are still dynamic: a reload does not take
    a namespace its tenant until an owner is seen again.
    """
    problems: list[RuleProblem] = []
    tenants = tuple(
        Tenant(
            tenant.id,
            order,
            tenant.view,
            _rules(tenant.write_relabel_configs, ("tenants", order, "write_relabel_configs"), problems),
        )
        for order, tenant in enumerate(settings.tenants)
    )
    dynamic = _dynamic(settings, len(tenants), before, problems)
    if problems:
        return tuple(problems)
    by_id = {tenant.id: tenant for tenant in tenants}
    unowned_tenant = settings.proxy.unowned_tenant
    ownership = settings.ownership
    return Tenancy(
        tenants=tenants,
        namespaces={namespace: by_id[tenant.id] for tenant in settings.tenants for namespace in tenant.namespaces},
        idle_tenant=by_id[settings.proxy.idle_tenant] if settings.proxy.idle_tenant else None,
        unowned=Unowned("tenant", by_id[unowned_tenant]) if unowned_tenant else _UNOWNED[settings.proxy.unowned],
        dynamic=dynamic,
        ownership=bool(ownership.files or ownership.labelers or ownership.kubernetes.service),
        strip_labels=frozenset(ownership.strip_labels),
        keep_exporter_labels=ownership.exporter_labels == "keep",
        labels_per_series=settings.proxy.limits.labels_per_series,
    )


_UNOWNED = {"quarantine": Unowned("quarantine"), "drop": Unowned("drop"), "reject": Unowned("reject")}


def _dynamic(
    settings: Settings, declared: int, before: Tenancy | None, problems: list[RuleProblem]
) -> DynamicTenants | None:
    written = settings.dynamic_tenants
    if written is None:
        return None
    rules = _rules(written.write_relabel_configs, ("dynamic_tenants", "write_relabel_configs"), problems)
    ids = {tenant.id for tenant in settings.tenants}
    listed = {namespace for tenant in settings.tenants for namespace in tenant.namespaces}
    known = list(before.dynamic.made) if before and before.dynamic else []  # grows meanwhile, in another thread
    kept = [namespace for namespace in known if namespace not in ids | listed]
    made = {name: Tenant(name, declared + order, "owned", rules) for order, name in enumerate(kept)}
    return DynamicTenants(rules, made)


def _rules(configs: Sequence[RelabelConfig], path: Path, problems: list[RuleProblem]) -> tuple[RelabelRule, ...]:
    rules: list[RelabelRule] = []
    for index, config in enumerate(configs):
        try:
            rules.append(compile_rule(config, index))
        except RelabelError as error:
            problems.append(RuleProblem((*path, index), str(error)))
    return tuple(rules)
