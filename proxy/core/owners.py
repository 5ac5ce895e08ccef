"""Who owns which device at a time, as the API, the page and `whosegpu who` tell it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ownership import DeviceKey, Fleet, Holding, Interval, Listed, Owner
from proxy.core.tenancy import Tenancy
from proxy.core.times import format_time


@dataclass(frozen=True, slots=True)
class OwnersQuery:
    """What is asked: None asks for all; `at` is a time as people write it, None is now."""

    uuid: str | None = None
    gpu_instance_id: str | None = None
    at: str | None = None
    node: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """One device with one of its owners. `state` is owned, idle, unattributed or unknown; times are RFC 3339."""

    node: str
    uuid: str
    gpu_instance_id: str | None
    index: int | None
    model: str | None
    memory_total_bytes: int | None
    sharing: str
    state: str
    tenant: str | None
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    controller_kind: str | None
    controller_name: str | None
    memory_bytes: int | None
    since: str | None
    until: str | None
    findings: tuple[str, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def owners_at(query: OwnersQuery, at_ms: int, tenancy: Tenancy, fleet: Fleet) -> list[OwnerView]:
    """Every device that is listed now and meets the query, with its owners at a time; in the order of the nodes."""
    found: list[OwnerView] = []
    for listed in fleet.devices():
        if query.node not in (None, listed.node) or query.uuid not in (None, listed.key.uuid):
            continue
        if query.gpu_instance_id not in (None, listed.key.gpu_instance_id):
            continue
        views = _views(listed, at_ms, tenancy, fleet)
        found += [view for view in views if query.tenant in (None, view.tenant)]
    return found


def _views(listed: Listed, at_ms: int, tenancy: Tenancy, fleet: Fleet) -> Iterator[OwnerView]:
    holding = fleet.lookup(listed.key, at_ms)
    if not isinstance(holding, Holding):
        yield _view(listed, None, None, tenancy, ("unknown", holding.reason))
    elif holding.interval.owners:
        for owner in holding.interval.owners:
            yield _view(listed, holding.interval, owner, tenancy, ("owned", ""))
    elif holding.interval.unattributed_bytes:
        yield _view(
            listed, holding.interval, None, tenancy, ("unattributed", holding.interval.unattributed_reason or "")
        )
    else:
        yield _view(listed, holding.interval, None, tenancy, ("idle", ""))


def _view(
    listed: Listed, interval: Interval | None, owner: Owner | None, tenancy: Tenancy, state: tuple[str, str]
) -> OwnerView:
    key: DeviceKey = listed.key
    device = listed.device
    tenant = tenancy.known_tenant(owner.namespace) if owner and owner.namespace else None
    findings = () if interval is None else tuple(f"{found.code}: {found.detail}" for found in interval.findings)
    return OwnerView(
        node=listed.node,
        uuid=key.uuid,
        gpu_instance_id=key.gpu_instance_id or None,
        index=device.index,
        model=device.model,
        memory_total_bytes=device.memory_total_bytes,
        sharing=device.sharing,
        state=state[0],
        tenant=tenant.id if tenant else None,
        namespace=owner.namespace if owner else None,
        pod=owner.pod if owner else None,
        pod_uid=owner.pod_uid if owner else None,
        container=owner.container if owner else None,
        controller_kind=owner.controller_kind if owner else None,
        controller_name=owner.controller_name if owner else None,
        memory_bytes=owner.memory_bytes if owner else None,
        since=format_time(interval.from_ms) if interval else None,
        until=None if interval is None or interval.to_ms is None else format_time(interval.to_ms),
        findings=findings,
        reason=state[1],
    )
