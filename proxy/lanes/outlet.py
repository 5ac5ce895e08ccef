"""What a tenant's parts go through: the road to its upstream, its durable queue, and its books."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from proxy.core.books import Books, TenantBooks
from proxy.core.budget import SplitBudget
from proxy.core.errors import StorageError
from proxy.core.record import QueueRecord
from proxy.lanes.pacer import Timers
from proxy.lanes.road import Road

SPLITS_PER_MINUTE: Final = 300
"""Requests that splitting refused ones may cost an upstream: a dozen bad series among thousands, each minute."""


SPOKEN: Final = "1.0"
"""The version of remote write that is sent; what is queued of another one waits for the proxy that wrote it."""


class Queue(Protocol):
    """The durable queue of one tenant."""

    @property
    def records(self) -> int:
        """Records that are durable and not done."""
        ...

    def append(
        self, records: Sequence[QueueRecord], done: Callable[[StorageError | None], None], *, taken: bool = False
    ) -> None:
        """Call `done` once, later, when they are durable or could not be made so; `taken`: the first is under way."""
        ...

    def take(
        self, max_samples: int, max_bytes: int, taken: Callable[[tuple[QueueRecord, ...] | StorageError], None]
    ) -> None:
        """Call `taken` once, later, with the records at the head that may go in one request."""
        ...

    @property
    def taken(self) -> int:
        """Records that are under way."""
        ...

    @property
    def expired(self) -> bool:
        """Whether all that is under way has become too old to be kept."""
        ...

    def done(self) -> None:
        """What was taken has been settled."""
        ...

    def unload(self) -> None:
        """Nothing more is taken for a while: it need not be held in memory."""
        ...


@dataclass(frozen=True, slots=True)
class Outlet:
    """One tenant's."""

    road: Road
    queue: Queue
    books: TenantBooks
    splits: SplitBudget = field(default_factory=lambda: SplitBudget(SPLITS_PER_MINUTE))


@dataclass(frozen=True, slots=True)
class Means:
    """What all lanes of a proxy share for their troubles: `dice` throws evenly within [0, 1)."""

    timers: Timers
    books: Books
    dice: Callable[[], float]
    clock: Callable[[], float]
    now_ms: Callable[[], int]
