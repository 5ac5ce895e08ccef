"""The books (design 6): each received sample has one fate, each part made of it for a tenant ends in one place.

Unit: one float sample or one native histogram. Plain integers, counted once where the thing happens and read by the
metrics; nothing here is a rate or an estimate.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from proxy.core.wire import Fate

ROUTED: Final = "routed"
FILTERED: Final = "filtered"
REJECTED: Final = "rejected"
QUARANTINED: Final = "quarantined"
DUPLICATE: Final = "duplicate"

BY_HAND: Final = "dropped_by_hand"
TORN: Final = "torn"
"""Why something is dropped, of a queue or of the quarantine, that was there once and cannot be read any more."""


@dataclass(slots=True)
class TenantBooks:
    """The parts of one tenant: `parts + recovered = delivered + dropped + queued` when nothing is in flight."""

    parts: int = 0
    made: int = 0
    recovered: int = 0
    delivered: int = 0
    queued: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def deliver(self, samples: int) -> None:
        """Count parts that were made and taken by the tenant's endpoint."""
        self.parts += samples
        self.delivered += samples

    def drop(self, reason: str, samples: int) -> None:
        """Count parts that were made and ended with `reason`."""
        self.parts += samples
        self.dropped[reason] += samples

    def queue(self, samples: int) -> None:
        """Count parts that were made and are durable in the queue."""
        self.parts += samples
        self.queued += samples

    def recover(self, samples: int) -> None:
        """Count parts that the queue held at the start."""
        self.recovered += samples
        self.queued += samples

    def deliver_queued(self, samples: int) -> None:
        """Count parts of the queue that the tenant's endpoint took."""
        self.queued -= samples
        self.delivered += samples

    def drop_queued(self, reason: str, samples: int) -> None:
        """Count parts of the queue that ended with `reason`."""
        self.queued -= samples
        self.dropped[reason] += samples

    def imbalance(self) -> int:
        """Parts that ended nowhere (positive) or more than once (negative); 0 is balanced."""
        return self.parts + self.recovered - self.delivered - self.dropped.total() - self.queued


class Books:
    """All counts of one proxy; a `Fate` or a `TenantBooks` is made once and then only counted up."""

    def __init__(self) -> None:
        self.received: Counter[tuple[str, str]] = Counter()
        self.requests_rejected: Counter[str] = Counter()
        self.exemplars: Counter[str] = Counter()
        self.metadata: Counter[str] = Counter()
        self.fields_dropped = 0
        self.tenants: dict[str, TenantBooks] = {}
        self._fates: dict[tuple[str, str, str], Fate] = {}

    def fate(self, kind: str, tenant: str = "", detail: str = "") -> Fate:
        """The line of the books for a fate: `detail` is a filtering rule or a reason."""
        key = (kind, tenant, detail)
        known = self._fates.get(key)
        if known is None:
            known = self._fates[key] = Fate(kind, tenant, detail)
        return known

    def tenant(self, tenant_id: str) -> TenantBooks:
        """The parts of a tenant; begun empty at the first call."""
        known = self.tenants.get(tenant_id)
        if known is None:
            known = self.tenants[tenant_id] = TenantBooks()
        return known

    def fates(self) -> Iterator[Fate]:
        """Every line counted so far."""
        yield from self._fates.values()

    def total(self, kind: str) -> int:
        """Samples of one kind of fate."""
        return sum(fate.samples for fate in self._fates.values() if fate.kind == kind)

    def imbalances(self) -> tuple[str, ...]:
        """One sentence for each equation of design 6 that does not hold; empty when all do and nothing is in flight."""
        out = []
        missing = self.received.total() - sum(fate.samples for fate in self._fates.values())
        if missing:
            out.append(f"{missing} received samples have no fate or several")
        for tenant_id, tenant in sorted(self.tenants.items()):
            lost = tenant.imbalance()
            if lost:
                out.append(f"{lost} parts of tenant {tenant_id} ended nowhere or more than once")
        return tuple(out)
