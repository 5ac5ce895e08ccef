"""What all queues of a proxy have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.core.retention import QueueKeep


@dataclass(slots=True)
class Terms:
    """How much each queue may hold, which may change at any time, and the clock: milliseconds since the epoch."""

    keep: QueueKeep
    clock: Callable[[], int]

    @property
    def oldest_ms(self) -> int:
        """What was received before is too old."""
        return self.clock() - self.keep.age_ms
