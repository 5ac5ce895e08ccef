"""Parts of one tenant that go out in one request."""

from collections.abc import Hashable
from typing import Final

from proxy.core.carrying import Item
from proxy.core.record import QueueRecord
from proxy.core.wire import Part

GROUP_BYTES: Final = 4 << 20
"""Uncompressed bytes of a request after which no further part joins: an eighth of what Prometheus takes (32 MiB)."""
GROUP_SAMPLES: Final = 10_000
"""Samples likewise: what vmagent sends at once, below the burst that Cortex and Mimir allow a tenant (50,000)."""

NO_PAIR: Final = ("", "")


def lot_of(part: Part) -> Hashable:
    """What parts must have in common to travel together.

    A store that removes the duplicates of a highly available sender looks at a request's first series only, so all of
    them have one (cluster, replica) pair. What comes from the quarantine, and metadata, travel by themselves.
    """
    return (part.pair, part.replay, part.metadata > 0) if part.replay or part.metadata else part.pair


class Group:
    """The parts of one request: `attempt` is that of the first, `since` when it came, by a clock in seconds."""

    __slots__ = ("attempt", "exemplars", "lot", "made", "metadata", "parts", "samples", "since", "size")

    def __init__(self, lot: Hashable, attempt: int, since: float) -> None:
        self.lot = lot
        self.attempt = attempt
        self.since = since
        self.parts: list[Part] = []
        self.samples = 0
        self.made = 0
        self.exemplars = 0
        self.metadata = 0
        self.size = 0

    def has_room(self, part: Part) -> bool:
        """Whether the part may join, as far as size goes."""
        return self.samples + part.samples <= GROUP_SAMPLES and self.size + part.size <= GROUP_BYTES

    def add(self, part: Part) -> None:
        """Put a part behind the others."""
        self.parts.append(part)
        self.samples += part.samples
        self.size += part.size
        self.made += part.made
        self.exemplars += part.exemplars
        self.metadata += part.metadata

    @property
    def replay(self) -> bool:
        """Whether it comes from the quarantine."""
        return self.parts[0].replay

    def message(self) -> bytes:
        """The request."""
        pieces: list[bytes] = []
        for part in self.parts:
            pieces += part.chunks
        return b"".join(pieces)

    def items(self) -> list[Item]:
        """Each part as what the upstream may be asked to take by itself."""
        return [item_of(part) for part in self.parts]


def item_of(part: Part) -> Item:
    """A part as what the upstream may be asked to take."""
    return Item(part.body, part.samples, part.made, part.exemplars)


def record_of(part: Part, items: list[Item], received_ms: int, *, attempted: bool) -> QueueRecord:
    """What is kept of `items` in the queue, which are of the lot of `part`."""
    pair = part.pair if isinstance(part.pair, tuple) else NO_PAIR
    return QueueRecord(
        received_ms,
        pair,
        sum(item.samples for item in items),
        sum(item.made for item in items),
        sum(item.exemplars for item in items),
        b"".join(item.entries for item in items),
        attempted=attempted,
        replay=part.replay,
    )
