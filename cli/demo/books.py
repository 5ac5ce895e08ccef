"""The proxy's books as `/metrics` tells them, and the verdict on them: the design's equations, seen from outside.

`received = rejected + quarantined + filtered + duplicate + routed`; per tenant
`parts + recovered = delivered + dropped + queued`; of the quarantine
`quarantined + recovered = released + dropped + waiting`. They hold when nothing is in flight.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

FATES: Final = ("rejected", "quarantined", "filtered", "duplicate", "routed")


@dataclass(frozen=True, slots=True)
class TenantBooks:
    """The parts of one tenant; `made` of `parts` are the proxy's own."""

    parts: int = 0
    made: int = 0
    recovered: int = 0
    delivered: int = 0
    queued: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def difference(self) -> int:
        """Parts that ended nowhere (above 0) or more than once (below)."""
        return self.parts + self.recovered - self.delivered - sum(self.dropped.values()) - self.queued


@dataclass(frozen=True, slots=True)
class QuarantineBooks:
    """The samples of the quarantine."""

    recovered: int = 0
    released: int = 0
    dropped: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Books:
    """All of it. `fates` has each of FATES; `details` says which rule or reason, most first."""

    received: int = 0
    fates: dict[str, int] = field(default_factory=dict)
    details: dict[str, dict[str, int]] = field(default_factory=dict)
    tenants: dict[str, TenantBooks] = field(default_factory=dict)
    quarantine: QuarantineBooks = QuarantineBooks()

    @property
    def difference(self) -> int:
        """Samples without a fate (above 0) or with several (below)."""
        return self.received - sum(self.fates.values())

    @property
    def quarantine_difference(self) -> int:
        """Samples that left the quarantine without a trace (above 0) or twice (below)."""
        held = self.quarantine
        came = self.fates.get("quarantined", 0) + held.recovered
        return came - held.released - held.dropped - held.waiting

    @property
    def balanced(self) -> bool:
        """Whether every equation holds."""
        tenants = any(tenant.difference for tenant in self.tenants.values())
        return not (self.difference or self.quarantine_difference or tenants)


def read_books(exposition: str) -> Books:
    """The books in a text of `/metrics`; raises ValueError for a text that is none."""
    totals: Counter[str] = Counter()
    details: dict[str, Counter[str]] = defaultdict(Counter)
    tenants: dict[str, Counter[str]] = defaultdict(Counter)
    dropped: dict[str, Counter[str]] = defaultdict(Counter)
    for family in text_string_to_metric_families(exposition):
        for name, labels, value, *_ in family.samples:
            totals[name] += int(value)
            if name in _DETAILS:
                said = " ".join(
                    part for part in (labels.get("tenant"), labels.get("rule"), labels.get("reason")) if part
                )
                details[_DETAILS[name]][said] += int(value)
            if name in _OF_A_TENANT:
                tenants[labels["tenant"]][_OF_A_TENANT[name]] += int(value)
            elif name == "whosegpu_samples_dropped_total":
                dropped[labels["tenant"]][labels["reason"]] += int(value)
    return Books(
        received=totals["whosegpu_samples_received_total"],
        fates={fate: totals[f"whosegpu_samples_{fate}_total"] for fate in FATES},
        details={fate: dict(found.most_common()) for fate, found in details.items()},
        tenants={
            tenant: TenantBooks(**tenants[tenant], dropped=dict(dropped[tenant].most_common()))
            for tenant in sorted(tenants.keys() | dropped.keys())
        },
        quarantine=QuarantineBooks(
            recovered=totals["whosegpu_quarantine_recovered_total"],
            released=totals["whosegpu_quarantine_released_total"],
            dropped=totals["whosegpu_quarantine_dropped_total"],
            waiting=totals["whosegpu_samples_quarantined"],
        ),
    )


_DETAILS: Final = {
    "whosegpu_samples_rejected_total": "rejected",
    "whosegpu_samples_quarantined_total": "quarantined",
    "whosegpu_samples_filtered_total": "filtered",
}
_OF_A_TENANT: Final = {
    "whosegpu_parts_total": "parts",
    "whosegpu_parts_made_total": "made",
    "whosegpu_parts_recovered_total": "recovered",
    "whosegpu_samples_delivered_total": "delivered",
    "whosegpu_samples_queued": "queued",
}


def verdict(books: Books, tenants: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each thing that is wrong; empty when the books balance and each of `tenants` got samples."""
    wrong: list[str] = []
    if books.difference:
        wrong.append(f"{books.difference:+,} samples have no fate, or several")
    if books.quarantine_difference:
        wrong.append(f"{books.quarantine_difference:+,} samples left the quarantine without a trace, or twice")
    for name, tenant in books.tenants.items():
        if tenant.difference:
            wrong.append(f"{tenant.difference:+,} parts of {name} ended nowhere, or more than once")
    empty = [name for name in tenants if not books.tenants.get(name, TenantBooks()).delivered]
    return (*wrong, *(f"{name} got no samples" for name in empty))
