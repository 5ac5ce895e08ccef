"""Tenants as compiled from the configuration: which view each has, its rules, and whose namespace is whose."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from config.tenant_id import tenant_id_fault
from proxy.core.relabel import RelabelRule

View = Literal["owned", "joined", "raw"]

UNMAPPED_NAMESPACE: Final = "unmapped_namespace"
INVALID_TENANT: Final = "invalid_tenant"

DYNAMIC_TENANTS: Final = 20_000
"""Tenants made from data at most; twice the namespaces of the largest clusters that Kubernetes is tested with."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant: `order` is its place in the file, dynamic ones come after all declared ones."""

    id: str
    order: int
    view: View
    rules: tuple[RelabelRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Trust:
    """What is believed of a sender's series: the jobs that are labelers, and whether `namespace` decides."""

    trusted_jobs: frozenset[str] = frozenset()
    namespace_label: bool = False


@dataclass(frozen=True, slots=True)
class Unowned:
    """What becomes of device samples without an owner, or without a tenant: `tenant` is set for `tenant:<id>` only."""

    fate: Literal["quarantine", "drop", "reject", "tenant"] = "quarantine"
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True)
class DynamicTenants:
    """Tenants as data: one for each namespace seen of an owner. `made` grows, up to DYNAMIC_TENANTS."""

    rules: tuple[RelabelRule, ...] = ()
    made: dict[str, Tenant] = field(default_factory=dict)


@dataclass(frozen=True)
class Tenancy:
    """Everything that decides where a series goes, but for who owns what.

    `ownership` tells whether any source of ownership is configured: without one no series is a device series.
    """

    tenants: tuple[Tenant, ...]
    namespaces: dict[str, Tenant] = field(default_factory=dict)
    idle_tenant: Tenant | None = None
    unowned: Unowned = Unowned()
    dynamic: DynamicTenants | None = None
    ownership: bool = True
    strip_labels: frozenset[str] = frozenset()
    keep_exporter_labels: bool = False
    labels_per_series: int = 30

    @cached_property
    def raw(self) -> tuple[Tenant, ...]:
        """The tenants that see everything as sent, in file order."""
        return tuple(tenant for tenant in self.tenants if tenant.view == "raw")

    @cached_property
    def joined(self) -> tuple[Tenant, ...]:
        """The tenants that see everything with its owner's labels, in file order."""
        return tuple(tenant for tenant in self.tenants if tenant.view == "joined")

    @cached_property
    def by_id(self) -> dict[str, Tenant]:
        """The declared tenants."""
        return {tenant.id: tenant for tenant in self.tenants}

    def tenant(self, tenant_id: str) -> Tenant | None:
        """A declared tenant, or one made from data."""
        declared = self.by_id.get(tenant_id)
        if declared is None and self.dynamic is not None:
            return self.dynamic.made.get(tenant_id)
        return declared

    def known_tenant(self, namespace: str) -> Tenant | None:
        """The tenant of a namespace, as far as there is one already."""
        listed = self.namespaces.get(namespace)
        if listed is None and self.dynamic is not None:
            return self.dynamic.made.get(namespace)
        return listed

    def owning_tenant(self, namespace: str) -> Tenant | str:
        """The tenant of an owner's namespace, made now if tenants are data; else the reason why there is none.

        A namespace whose name is a declared tenant's id but is not listed there makes no tenant: it would be let into
        that tenant's store.
        """
        known = self.known_tenant(namespace)
        if known is not None:
            return known
        if self.dynamic is None:
            return UNMAPPED_NAMESPACE
        if namespace in self.by_id or tenant_id_fault(namespace) or len(self.dynamic.made) >= DYNAMIC_TENANTS:
            return INVALID_TENANT
        order = len(self.tenants) + len(self.dynamic.made)
        made = self.dynamic.made[namespace] = Tenant(namespace, order, "owned", self.dynamic.rules)
        return made
