"""Which segments of an append-only log must go: the oldest, as far as its limits of size and age say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

SEGMENTS_PER_LIMIT: Final = 8
"""A log is cut into about so many segments, so that dropping one costs an eighth of what may be kept."""
MAX_SEGMENT_BYTES: Final = 16 << 20
"""A segment is read into memory as a whole when it is opened."""
MAX_QUEUE_SEGMENT_BYTES: Final = 4 << 20
"""The oldest segment of a queue stays in memory while it is worked off, that of each tenant in trouble."""

DropReason = Literal["full", "age"]


@dataclass(frozen=True, slots=True)
class Keep:
    """What a log may hold: bytes on disk, and the age in milliseconds that a record may reach."""

    bytes: int
    age_ms: int

    @property
    def segment_bytes(self) -> int:
        """The size at which the next segment is begun."""
        return max(1, min(self.bytes // SEGMENTS_PER_LIMIT, MAX_SEGMENT_BYTES))

    @property
    def segment_ms(self) -> int:
        """The time after which the next segment is begun."""
        return max(1, self.age_ms // SEGMENTS_PER_LIMIT)


@dataclass(frozen=True, slots=True)
class QueueKeep(Keep):
    """What the queue of one tenant may hold, and whether what comes when it is full is refused."""

    full: Literal["drop_oldest", "refuse"]

    @property
    def segment_bytes(self) -> int:
        """The size at which the next segment is begun."""
        return max(1, min(self.bytes // SEGMENTS_PER_LIMIT, MAX_QUEUE_SEGMENT_BYTES))


@dataclass(frozen=True, slots=True)
class Held:
    """One segment as it is weighed: its number, its size in bytes and when its newest record was received."""

    seq: int
    size: int
    newest_ms: int


def surplus(held: Sequence[Held], keep: Keep, now_ms: int, incoming_bytes: int = 0) -> list[tuple[int, DropReason]]:
    """The segments to drop, oldest first, so that what remains and what comes is within the limits.

    `held` is in the order of the segments. One whose newest record is too old goes, and so does all before it.
    """
    oldest_ms = now_ms - keep.age_ms
    too_old = max((at for at, segment in enumerate(held, 1) if segment.newest_ms < oldest_ms), default=0)
    total = incoming_bytes + sum(segment.size for segment in held[too_old:])
    drops: list[tuple[int, DropReason]] = [(segment.seq, "age") for segment in held[:too_old]]
    for segment in held[too_old:]:
        if total <= keep.bytes:
            break
        drops.append((segment.seq, "full"))
        total -= segment.size
    return drops


def beyond(sizes: Sequence[int], limit: int) -> int:
    """How many of the first must go so that the others are `limit` bytes at most, together."""
    total = sum(sizes)
    for at, size in enumerate(sizes):
        if total <= limit:
            return at
        total -= size
    return len(sizes)


@dataclass(frozen=True, slots=True)
class Extent:
    """One segment as it is looked at for merging: when its first and its newest record were received."""

    seq: int
    size: int
    first_ms: int
    newest_ms: int

    def with_next(self, other: "Extent") -> "Extent":
        """Both together."""
        first_ms, newest_ms = min(self.first_ms, other.first_ms), max(self.newest_ms, other.newest_ms)
        return Extent(self.seq, self.size + other.size, first_ms, newest_ms)


def mergeable(extents: Sequence[Extent], keep: Keep) -> list[list[int]]:
    """Runs of neighbours, in the order given, that could be one segment: half of one at most, in size and in time.

    Half, so that what has been merged is not rewritten again and again for a little more.
    """
    runs: list[list[int]] = []
    all_of_run = Extent(0, keep.segment_bytes, 0, 0)
    for extent in extents:
        all_of_run = all_of_run.with_next(extent)
        span_ms = all_of_run.newest_ms - all_of_run.first_ms
        if all_of_run.size <= keep.segment_bytes // 2 and span_ms <= keep.segment_ms // 2:
            runs[-1].append(extent.seq)
        else:
            runs.append([extent.seq])
            all_of_run = extent
    return [run for run in runs if len(run) > 1]
