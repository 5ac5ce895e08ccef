"""Why a series goes where it goes: the very decision that traffic follows, told step by step."""

from dataclasses import asdict, dataclass
from typing import Any

from ownership import Fleet, Holding, Unknown
from proxy.core.books import QUARANTINED
from proxy.core.errors import MissingNameError
from proxy.core.labels import METRIC_NAME, LabelSet
from proxy.core.relabel import Step, steps
from proxy.core.route import IDLE, NO_CLAIM, OVER_LIMIT, SHARED, UNKNOWN_OWNER, UNOWNED, Claim, Decision, decide
from proxy.core.tenancy import INVALID_TENANT, UNMAPPED_NAMESPACE, Tenancy, Trust
from proxy.core.text import parse_line
from proxy.core.times import format_time


@dataclass(frozen=True, slots=True)
class TenantExplanation:
    """What one tenant's claim comes to: `steps` are its rules, `labels_out` what it gets, or None."""

    tenant: str
    claim: str
    labels_in: str
    steps: tuple[dict[str, Any], ...]
    labels_out: str | None
    dropped_by: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One series at one time. `kind` is device, trusted or other; `owner` and `reason` are of devices only."""

    series: str
    at: str
    kind: str
    device: dict[str, Any] | None
    owner: dict[str, str] | None
    reason: str
    fate: dict[str, str]
    tenants: tuple[TenantExplanation, ...]

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain values."""
        return asdict(self)


def explain_lines(text: str, at_ms: int, trust: Trust, tenancy: Tenancy, fleet: Fleet) -> list[Explanation]:
    """One explanation for each line of series in text form; a timestamp in a line goes before `at_ms`.

    Raises TextFormatError, LabelError.
    """
    out = []
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            sample = parse_line(line.strip())
            time_ms = at_ms if sample.at_ms is None else sample.at_ms
            out.append(explain(sample.labels, time_ms, trust, tenancy, fleet))
    return out


def explain(labels: LabelSet, at_ms: int, trust: Trust, tenancy: Tenancy, fleet: Fleet) -> Explanation:
    """What becomes of a sample of `labels` at `at_ms`; raises MissingNameError, as traffic is refused for it."""
    if not labels.get(METRIC_NAME):
        raise MissingNameError(f"a series without __name__: {str(labels)[:200]}")
    decision = decide(labels, at_ms, trust, tenancy, fleet)
    return Explanation(
        series=str(labels),
        at=format_time(at_ms),
        kind=_kind(labels, decision, trust),
        device=_device(decision),
        owner=dict(decision.owner) if decision.owner else None,
        reason=_reason(decision),
        fate=asdict(decision.fate),
        tenants=tuple(_tenant(claim, trusted=labels.get("job") in trust.trusted_jobs) for claim in decision.claims),
    )


def _kind(labels: LabelSet, decision: Decision, trust: Trust) -> str:
    if labels.get("job") in trust.trusted_jobs:
        return "trusted"
    return "device" if decision.device else "other"


def _device(decision: Decision) -> dict[str, Any] | None:
    holding = decision.holding
    if decision.key is None:
        return None
    found: dict[str, Any] = {"uuid": decision.key.uuid, "gpu_instance_id": decision.key.gpu_instance_id or None}
    if isinstance(holding, Holding):
        interval = holding.interval
        found |= {
            "node": holding.node,
            "model": holding.device.model,
            "sharing": holding.device.sharing,
            "from": format_time(interval.from_ms),
            "to": None if interval.to_ms is None else format_time(interval.to_ms),
        }
    return found


def _reason(decision: Decision) -> str:
    """Why the owner is not known, or why there is no claim; empty where an owner stands."""
    if isinstance(decision.holding, Unknown):
        return decision.holding.reason
    return _REASONS.get(decision.fate.detail, "") if not decision.claims or decision.fate.kind == QUARANTINED else ""


_REASONS = {
    NO_CLAIM: "no tenant has a claim: none owns it, and none has the view joined or raw",
    IDLE: "nobody owns the device at that time, and there is no idle_tenant",
    SHARED: "the device is shared or divided, and its values are not split yet",
    UNKNOWN_OWNER: "the owner's namespace is not known yet",
    UNMAPPED_NAMESPACE: "the owner's namespace belongs to no tenant; list it under a tenant's namespaces",
    UNOWNED: "nobody's, and `unowned` says to drop it",
    INVALID_TENANT: "the owner's namespace cannot be a tenant id, or is the id of a tenant that does not list it",
}


def _tenant(claim: Claim, *, trusted: bool) -> TenantExplanation:
    rules = () if trusted else claim.tenant.rules
    return TenantExplanation(
        tenant=claim.tenant.id,
        claim=claim.why,
        labels_in=str(claim.labels),
        steps=tuple(_step(step) for step in steps(claim.labels, rules)),
        labels_out=None if claim.kept is None or claim.over_limit else str(claim.kept),
        dropped_by=OVER_LIMIT if claim.over_limit else claim.dropped_by,
    )


def _step(step: Step) -> dict[str, Any]:
    return {
        "rule": f"write_relabel_configs[{step.index}]",
        "text": step.rule_text,
        "changed": step.changed,
        "after": None if step.after is None else str(step.after),
    }
