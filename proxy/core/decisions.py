"""Decisions with everything made that a series needs to go its way, and what voids them.

Owns the epochs (one for each device, one for all other series), the slots and the outputs that entries share, and what
families tenants have by what was decided. Used from one thread; knows nothing of the request in hand.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from ownership import DeviceKey, Fleet, Holding, Unknown
from proxy.core.books import FILTERED, ROUTED, Books
from proxy.core.families import Families
from proxy.core.labels import METRIC_NAME, LabelSet
from proxy.core.route import Decision, OwnerLabels, decide
from proxy.core.sharing import Shared
from proxy.core.tenancy import Tenancy, Trust
from proxy.core.timeseries import encode_text_labels
from proxy.core.wire import ALWAYS_FROM, ALWAYS_TO, Epoch, Fate, Output, Slot

SLOTS: Final = 20_000
"""(tenant, cluster, replica) triples, and owners, remembered; beyond it they are forgotten and made anew."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A decision, its line in the books, its outputs, and the tenants that get nothing for having too many labels."""

    decision: Decision
    fate: Fate
    outputs: tuple[Output, ...]
    over_limit: tuple[str, ...]

    @property
    def keepable(self) -> bool:
        """Whether an entry may go by this decision: what is quarantined or refused is decided anew."""
        return not isinstance(self.decision.holding, Unknown) and self.fate.kind in (ROUTED, FILTERED)


class Decisions:
    """Makes decisions from the tenancy and the fleet, and voids them when either changes."""

    def __init__(self, tenancy: Tenancy, fleet: Fleet, books: Books) -> None:
        self.tenancy = tenancy
        self.fleet = fleet
        self.books = books
        self.families = Families()
        self.outputs: dict[Output, Output] = {}
        self.static = Epoch(0, ALWAYS_TO)
        self._epochs: dict[DeviceKey, Epoch] = {}
        self._until: dict[str, int] = {}
        self._slots: dict[tuple[str, Hashable], Slot] = {}
        self._shared = Shared()
        self._owners: dict[OwnerLabels, OwnerLabels] = {}
        self._generation = 0
        self._tenants_made = self._dynamic_tenants()

    def resolve(self, labels: LabelSet, at_ms: int, trust: Trust, block: bytes) -> Resolved:
        """The decision for labels, which came as `block`, at a time; equal outputs are one object."""
        decision = decide(labels, at_ms, trust, self.tenancy, self.fleet)
        self.notice_tenants()
        pair = (labels.get("cluster"), labels.get("__replica__"))
        blocks: dict[LabelSet, tuple[bytes, bytes]] = {}
        outputs: list[Output] = []
        for claim in decision.claims:
            if claim.kept is not None and not claim.over_limit:
                encoded = blocks.get(claim.kept)
                if encoded is None:
                    encoded = blocks[claim.kept] = self._encode(claim.kept, block)
                fresh = Output(self.slot(claim.tenant.id, pair), *encoded)
                outputs.append(self.outputs.get(fresh, fresh))
                self.families.learn(claim.tenant.id, claim.kept.get(METRIC_NAME))
        fate = self.books.fate(decision.fate.kind, decision.fate.tenant, decision.fate.detail)
        over_limit = tuple(claim.tenant.id for claim in decision.claims if claim.kept is not None and claim.over_limit)
        return Resolved(decision, fate, tuple(outputs), over_limit)

    def epoch_of(self, decision: Decision) -> Epoch:
        """What voids a decision that is kept."""
        if decision.key is None or decision.holding is None or isinstance(decision.holding, Unknown):
            return self.static
        epoch = self._epochs.get(decision.key)
        if epoch is None:
            until_ms = self._until.get(decision.holding.node, ALWAYS_FROM)
            epoch = self._epochs[decision.key] = Epoch(self._next_generation(), until_ms)
        return epoch

    def one_owner(self, owner: OwnerLabels | None) -> OwnerLabels | None:
        """Equal owners as one object, since each series of a device is kept with its owner."""
        if owner is None:
            return None
        if len(self._owners) >= SLOTS:
            self._owners.clear()
        return self._owners.setdefault(owner, owner)

    def window_of(self, decision: Decision) -> tuple[int, int]:
        """The sample times, from and to (exclusive), that a kept decision is good for while its epoch lasts.

        An open interval is held without an end: how long it is good moves with each observation of its node, and
        that is the epoch's `until_ms`. Not so where another node's observation has moved it: such a device is
        contested, and each document of either node voids what is kept of it.
        """
        from_ms, to_ms = decision.window
        holding = decision.holding
        is_open = isinstance(holding, Holding) and holding.interval.to_ms is None
        if is_open and to_ms == self.epoch_of(decision).until_ms:
            return from_ms, ALWAYS_TO
        return from_ms, to_ms

    def ownership_changed(
        self, node: str, changed: Iterable[DeviceKey], keys: Iterable[DeviceKey], until_ms: int
    ) -> None:
        """Void the decisions for `changed`; those for all `keys` of the node are good up to `until_ms`."""
        self._until[node] = until_ms
        for key in changed:
            if key in self._epochs:
                self._epochs[key].generation = self._next_generation()
        for key in keys:
            if key in self._epochs:
                self._epochs[key].until_ms = until_ms

    def retenant(self, tenancy: Tenancy) -> None:
        """Void everything: the tenants or their rules are other ones now."""
        self.tenancy = tenancy
        self.families.keep(lambda tenant_id: tenancy.tenant(tenant_id) is not None)
        for epoch in (self.static, *self._epochs.values()):
            epoch.generation = self._next_generation()

    def notice_tenants(self) -> None:
        """Void what was decided without a tenant that has been made from data since, by whatever: replays make some."""
        made = self._dynamic_tenants()
        if made != self._tenants_made:
            self._tenants_made = made
            self.static.generation = self._next_generation()

    def is_raw(self, output: Output) -> bool:
        """Whether the output is of a tenant that sees series as sent."""
        tenant = self.tenancy.tenant(output.slot.tenant)
        return tenant is not None and tenant.view == "raw"

    def is_gone(self, output: Output) -> bool:
        """Whether the output's tenant is configured no more."""
        return self.tenancy.tenant(output.slot.tenant) is None

    def slot(self, tenant_id: str, pair: Hashable) -> Slot:
        """Where a tenant's parts of one (cluster, replica) pair gather."""
        slot = self._slots.get((tenant_id, pair))
        if slot is None:
            if len(self._slots) >= SLOTS:
                self._slots.clear()
            slot = self._slots[tenant_id, pair] = Slot(tenant_id, pair)
        return slot

    def _encode(self, labels: LabelSet, block: bytes) -> tuple[bytes, bytes]:
        """A label block in two pieces, as an output has it: what came as `block` stays that object, in one piece."""
        pairs = labels.pairs
        cut = bisect_left(pairs, (METRIC_NAME + "\0",))
        lead, rest = encode_text_labels(pairs[:cut]), encode_text_labels(pairs[cut:])
        if lead + rest == block:
            return block, b""
        return lead, self._shared.one(rest)

    def _dynamic_tenants(self) -> int:
        return len(self.tenancy.dynamic.made) if self.tenancy.dynamic else 0

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation
