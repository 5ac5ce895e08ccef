"""Where one series goes at one time, and why: the decision that traffic caches and `explain` shows.

A *claim* is a tenant's right to the series before its rules: as owner, by its view, as the idle tenant. Rules come
after the view. Deny by default: without a claim there is no part (design 2, 5).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ownership import DeviceKey, Fleet, Holding, Owner, Unknown, device_key
from proxy.core.books import FILTERED, QUARANTINED, REJECTED, ROUTED
from proxy.core.labels import METRIC_NAME, LabelSet
from proxy.core.relabel import apply
from proxy.core.tenancy import Tenancy, Tenant, Trust
from proxy.core.wire import ALWAYS_FROM, ALWAYS_TO

NEVER_BELIEVED: Final = frozenset(
    {
        *("pod", "namespace", "container", "pod_uid", "vgpu", "hpc_job", "Hostname", "hostname"),
        *("exported_pod", "exported_namespace", "exported_container"),
        *("pod_name", "pod_namespace", "container_name"),
    }
)
"""Labels of an exporter that say who owns a device, or seem to; `dra_*` and our own names go with them (design 5)."""

JOINED_LABELS: Final = frozenset(
    {
        *("node", "pod_uid", "namespace", "pod", "container", "controller_kind", "controller_name"),
        *("shared", "unattributed"),
    }
)
"""Labels that only we put on a device series (interface 5)."""

ALWAYS: Final = (ALWAYS_FROM, ALWAYS_TO)
"""A window of time without ends, in ms."""

UNKNOWN_OWNER: Final = "unknown_owner"
SHARED: Final = "shared_not_split"
UNOWNED: Final = "unowned"
NO_CLAIM: Final = "no_claim"
IDLE: Final = "idle"
OVER_LIMIT: Final = "labels_per_series"

_Wanted = tuple[Tenant, str, LabelSet]


OwnerLabels = tuple[tuple[str, str], ...]
"""What is put on a series, which tells owners apart."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A tenant's claim: `kept` is what it gets, None where its rules drop the series, by `dropped_by`."""

    tenant: Tenant
    why: str
    labels: LabelSet
    kept: LabelSet | None
    dropped_by: str = ""
    over_limit: bool = False


@dataclass(frozen=True, slots=True)
class Fated:
    """A fate, as the books name it."""

    kind: str
    tenant: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a sample of a series within [`from_ms`, `to_ms`).

    `owner` identifies the labels of the owner, also of one without a tenant (None: no device series, or a device that
    is shared or whose owner nobody knows); `key` the device.
    """

    fate: Fated
    claims: tuple[Claim, ...]
    window: tuple[int, int] = ALWAYS
    holding: Holding | Unknown | None = None
    key: DeviceKey | None = None
    owner: OwnerLabels | None = None
    device: bool = False


def decide(labels: LabelSet, at_ms: int, trust: Trust, tenancy: Tenancy, fleet: Fleet) -> Decision:
    """The decision for `labels` at `at_ms`."""
    if labels.get("job") in trust.trusted_jobs:
        return _decide_trusted(labels, at_ms, tenancy, fleet)
    key = device_key(labels.get)
    if tenancy.ownership and key is not None:
        return _decide_device(labels, at_ms, key, tenancy, fleet)
    wanted: list[_Wanted] = [(tenant, tenant.view, labels) for tenant in (*tenancy.raw, *tenancy.joined)]
    if trust.namespace_label:
        tenant = tenancy.known_tenant(labels.get("namespace"))
        if tenant is not None and tenant.view == "owned":
            wanted.append((tenant, "namespace label", labels))
    claims = _judge(wanted, tenancy)
    return Decision(_fate_of(claims, Fated(FILTERED, "", NO_CLAIM)), claims)


def exporter_names(labels: LabelSet, tenancy: Tenancy) -> frozenset[str]:
    """The labels of a device series by which its exporter says who owns it, or seems to, and our own ones."""
    return frozenset(
        name
        for name, _ in labels.pairs
        if name in NEVER_BELIEVED or name in JOINED_LABELS or name in tenancy.strip_labels or name.startswith("dra_")
    )


def strip_exporter_labels(labels: LabelSet, tenancy: Tenancy) -> LabelSet:
    """A device series without what its exporter says of owners, or with that kept as `exporter_<name>`."""
    gone = exporter_names(labels, tenancy)
    if not gone:
        return labels
    stripped = labels.without(gone)
    if not tenancy.keep_exporter_labels:
        return stripped
    return stripped.with_labels({f"exporter_{name}": labels.get(name) for name in gone})


def owner_labels(owner: Owner, node: str) -> dict[str, str]:
    """What is put on a series of an owner; empty values take a label of that name off."""
    return {
        "node": node,
        "pod_uid": owner.pod_uid or "",
        "namespace": owner.namespace or "",
        "pod": owner.pod or "",
        "container": owner.container or "",
        "controller_kind": owner.controller_kind or "",
        "controller_name": owner.controller_name or "",
    }


def _judge(wanted: Iterable[_Wanted], tenancy: Tenancy, *, rules: bool = True) -> tuple[Claim, ...]:
    """Each claim with its tenant's rules applied, in file order; a tenant has one claim, its first."""
    first: dict[str, _Wanted] = {}
    for claim in wanted:
        first.setdefault(claim[0].id, claim)
    ordered = sorted(first.values(), key=lambda claim: claim[0].order)
    return tuple(_judge_one(claim, tenancy.labels_per_series, rules=rules) for claim in ordered)


def _judge_one(wanted: _Wanted, labels_per_series: int, *, rules: bool) -> Claim:
    tenant, why, labels = wanted
    if not rules:
        return Claim(tenant, why, labels, labels, over_limit=len(labels.pairs) > labels_per_series)
    verdict = apply(labels, tenant.rules)
    if verdict.labels is None:
        return Claim(tenant, why, labels, None, f"write_relabel_configs[{verdict.dropped_by}]")
    if not verdict.labels.pairs:
        return Claim(tenant, why, labels, None, "no_labels")
    if not verdict.labels.get(METRIC_NAME):
        return Claim(tenant, why, labels, None, "no_name")
    return Claim(tenant, why, labels, verdict.labels, over_limit=len(verdict.labels.pairs) > labels_per_series)


def _fate_of(claims: tuple[Claim, ...], without_claim: Fated) -> Fated:
    if any(claim.kept is not None for claim in claims):
        return Fated(ROUTED)
    if claims:
        return Fated(FILTERED, claims[0].tenant.id, claims[0].dropped_by)
    return without_claim


def _decide_device(labels: LabelSet, at_ms: int, key: DeviceKey, tenancy: Tenancy, fleet: Fleet) -> Decision:
    raw: list[_Wanted] = [(tenant, "raw", labels) for tenant in tenancy.raw]
    holding = fleet.lookup(key, at_ms)
    if isinstance(holding, Unknown):
        divided = bool(fleet.instances(key.uuid)) and key.gpu_instance_id == ""
        reason = SHARED if divided else UNKNOWN_OWNER
        held = Decision(Fated(QUARANTINED, "", reason), (), ALWAYS, holding, key, device=True)
        if divided:
            return replace(held, claims=_judge(raw, tenancy))
        return _unowned(held, strip_exporter_labels(labels, tenancy), raw, tenancy)
    window = (holding.valid_from_ms, holding.valid_to_ms)
    owners = holding.interval.owners
    if holding.device.sharing != "exclusive" or len(owners) > 1:
        return Decision(Fated(QUARANTINED, "", SHARED), _judge(raw, tenancy), window, holding, key, device=True)
    if not owners:
        return _idle(labels, raw, tenancy, key, holding)
    put_on = owner_labels(owners[0], holding.node)
    part = strip_exporter_labels(labels, tenancy).with_labels(put_on)
    held = Decision(
        Fated(QUARANTINED, "", UNKNOWN_OWNER), (), window, holding, key, owner=tuple(put_on.items()), device=True
    )
    namespace = owners[0].namespace
    return _owned(held, namespace, part, raw, tenancy) if namespace else _unowned(held, part, raw, tenancy)


def _owned(held: Decision, namespace: str, part: LabelSet, raw: list[_Wanted], tenancy: Tenancy) -> Decision:
    """One owner: its tenant has the value untouched, and so have the joined views."""
    wanted = raw + [(tenant, "joined", part) for tenant in tenancy.joined]
    tenant = tenancy.owning_tenant(namespace)
    if isinstance(tenant, Tenant):
        wanted.append((tenant, "owner", part))
    claims = _judge(wanted, tenancy)
    if isinstance(tenant, Tenant) or any(claim.kept is not None for claim in claims):
        return replace(held, fate=_fate_of(claims, held.fate), claims=claims)
    return _unowned(replace(held, fate=Fated(QUARANTINED, "", tenant)), part, wanted, tenancy)


def _idle(labels: LabelSet, raw: list[_Wanted], tenancy: Tenancy, key: DeviceKey, holding: Holding) -> Decision:
    """No owner: the whole value is the part that no pod owns."""
    interval = holding.interval
    reason = (interval.unattributed_reason or "unresolved") if interval.unattributed_bytes else IDLE
    put_on = {"node": holding.node, "unattributed": reason}
    part = strip_exporter_labels(labels, tenancy).with_labels(put_on)
    wanted = raw + [(tenant, "joined", part) for tenant in tenancy.joined]
    if tenancy.idle_tenant is not None:
        wanted.append((tenancy.idle_tenant, "idle", part))
    claims = _judge(wanted, tenancy)
    fate = _fate_of(claims, Fated(FILTERED, "", IDLE))
    window = (holding.valid_from_ms, holding.valid_to_ms)
    return Decision(fate, claims, window, holding, key, owner=tuple(put_on.items()), device=True)


def _unowned(held: Decision, part: LabelSet, wanted: list[_Wanted], tenancy: Tenancy) -> Decision:
    """A device sample that no tenant may have as its owner: what `unowned` says.

    `part` is what the tenant of `unowned: tenant:<id>` gets, `wanted` the claims of views: where the owner is unknown a
    raw view has its part at once whatever the policy, and joined views get none.
    """
    policy = tenancy.unowned
    if policy.tenant is not None:
        wanted = [*wanted, (policy.tenant, "unowned", part)]
    claims = _judge(wanted, tenancy)
    taken = any(claim.kept is not None for claim in claims)
    dropped = _fate_of(claims, Fated(FILTERED, "", UNOWNED))
    fates = {
        "quarantine": held.fate,
        "drop": dropped,
        "reject": Fated(ROUTED) if taken else Fated(REJECTED, "", held.fate.detail),
        "tenant": dropped,
    }
    return replace(held, fate=fates[policy.fate], claims=claims)


def _decide_trusted(labels: LabelSet, at_ms: int, tenancy: Tenancy, fleet: Fleet) -> Decision:
    """The labeler's own series: already attributed, so rules do not apply and nothing is joined (design 5)."""
    name = labels.get(METRIC_NAME)
    wanted: list[_Wanted] = [(tenant, tenant.view, labels) for tenant in (*tenancy.raw, *tenancy.joined)]
    key = device_key(labels.get)
    window = ALWAYS
    holding: Holding | Unknown | None = None
    if name.startswith("whosegpu_device_") or name == "whosegpu_finding":
        holding = Unknown("no device is named") if key is None else fleet.lookup(key, at_ms)
        namespaces: set[str] = set()
        if isinstance(holding, Holding):
            window = (holding.valid_from_ms, holding.valid_to_ms)
            namespaces = {owner.namespace for owner in holding.interval.owners if owner.namespace}
        owning = [tenancy.owning_tenant(namespace) for namespace in sorted(namespaces)]
        wanted += [(tenant, "owner", labels) for tenant in owning if isinstance(tenant, Tenant)]
        if tenancy.idle_tenant is not None:
            wanted.append((tenancy.idle_tenant, "idle", labels))
    else:
        tenant = tenancy.known_tenant(labels.get("namespace")) or tenancy.idle_tenant
        if tenant is not None:
            wanted.append((tenant, "attributed", labels))
    claims = _judge(wanted, tenancy, rules=False)
    return Decision(_fate_of(claims, Fated(FILTERED, "", NO_CLAIM)), claims, window, holding, key)
