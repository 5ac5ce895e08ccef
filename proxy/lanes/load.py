"""What an upstream that is in trouble is asked to take, and who still answers for it."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.core.books import Books, TenantBooks
from proxy.core.carrying import Carrying, Settled
from proxy.core.outcome import Refused, Retryable
from proxy.core.record import QueueRecord
from proxy.core.wire import Part


class Standing(enum.Enum):
    """Who answers for a load.

    Its senders wait (`WAITING`), or it is being written to the queue (`PARKING`), or it is durable there (`QUEUED`), or
    it could not be written and its senders were told to send again (`HANDED_BACK`).
    """

    WAITING = enum.auto()
    PARKING = enum.auto()
    QUEUED = enum.auto()
    HANDED_BACK = enum.auto()


@dataclass(slots=True)
class Load:
    """One request's worth; what of it is sent, and how often, is `carrying`'s.

    `parts` has one for each item while senders wait, and is empty otherwise; `left` is what has not ended of each item,
    `since` when the first of it came.
    """

    carrying: Carrying
    standing: Standing
    left: list[int]
    parts: list[Part] = field(default_factory=list)
    since: float = 0.0
    replay: bool = False
    refused: dict[int, Refused] = field(default_factory=dict)

    def settle(self, settled: Sequence[Settled], tenant: TenantBooks, books: Books) -> None:
        """Count pieces that have ended, and tell the senders of what has ended altogether.

        What is in the queue was counted as a part when it became durable, everything else is now.
        """
        queued = self.standing is Standing.QUEUED
        for piece in settled:
            refused = piece.outcome if isinstance(piece.outcome, Refused) else None
            if piece.exemplars:
                books.exemplars["delivered" if refused is None else "dropped"] += piece.exemplars
            if not queued:
                tenant.made += piece.made
            if refused is None:
                (tenant.deliver_queued if queued else tenant.deliver)(piece.samples)
            else:
                (tenant.drop_queued if queued else tenant.drop)(refused.reason, piece.samples)
                self.refused.setdefault(piece.item, refused)
            self.left[piece.item] -= piece.samples + piece.exemplars
            if self.parts and not self.left[piece.item]:
                self._tell(piece.item)

    def give_up(self, reason: str, tenant: TenantBooks, books: Books) -> int:
        """Count what has not ended as dropped; its samples. Only of what is in the queue."""
        rest = self.carrying.rest()
        samples = sum(item.samples for item in rest)
        tenant.drop_queued(reason, samples)
        books.exemplars["dropped"] += sum(item.exemplars for item in rest)
        return samples

    def let_go(self, retryable: Retryable | None) -> None:
        """Tell all senders that still wait: what is durable now is as good as delivered, else they send again."""
        for item, left in enumerate(self.left):
            if self.parts and left:
                self._tell(item, retryable)
        self.parts = []
        self.standing = Standing.QUEUED if retryable is None else Standing.HANDED_BACK

    def _tell(self, item: int, retryable: Retryable | None = None) -> None:
        part = self.parts[item]
        outcome = retryable or self.refused.get(item)
        if outcome is None:
            part.batch.delivered()
        else:
            part.batch.settle(part.tenant, part, outcome)


@dataclass(frozen=True, slots=True)
class Append:
    """What is being written to the queue: for the senders of `parts`, and of the load if it is among the records."""

    records: list[QueueRecord]
    parts: list[Part]
    load: Load | None

    @property
    def size(self) -> int:
        """Bytes that memory holds for it."""
        return sum(len(record.entries) for record in self.records)
