"""The order in which records of several segments are replayed: by the time of their samples, then by arrival.

A segment is opened when the walk comes to the earliest of its samples, so that few are open at once: what came late
is the exception. Beyond PLACES in hand no more are opened; what they hold is left for another walk.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

PLACES: Final = 1 << 18
"""Of records in hand; each takes some 200 bytes. A segment of 16 MiB has 50,000 records."""


class Place(NamedTuple):
    """Where a record lies; places sort by the time of the first sample, then by arrival."""

    sample_ms: int
    seq: int
    begin: int
    end: int


class Walk:
    """One walk through segments, given with the earliest time of what they hold. `left_out` were not opened."""

    def __init__(self, starts: Mapping[int, int], limit: int = PLACES) -> None:
        self.left_out: set[int] = set()
        self._limit = limit
        self._starts = [(start_ms, seq) for seq, start_ms in starts.items()]
        self._places: list[Place] = []
        self._left: Counter[int] = Counter()
        self._emptied: list[int] = []
        heapq.heapify(self._starts)

    def next_segment(self) -> int | None:
        """A segment that has to be opened before places are taken; None where there is none."""
        if not self._starts or (self._places and self._places[0].sample_ms < self._starts[0][0]):
            return None
        if len(self._places) >= self._limit:
            self.left_out.update(seq for _, seq in self._starts)
            self._starts.clear()
            return None
        return heapq.heappop(self._starts)[1]

    def open(self, seq: int, places: Iterable[Place]) -> None:
        """Give what a segment holds."""
        found = list(places)
        self._left[seq] = len(found)
        if not found:
            self._emptied.append(seq)
        self._places += found
        heapq.heapify(self._places)

    def take(self, records: int, size: int) -> list[Place]:
        """The next places, in order: so many at most, and of so many bytes, but one at least. Empty: nothing is left.

        They end before a segment has to be opened.
        """
        until_ms = self._starts[0][0] if self._starts else None
        taken: list[Place] = []
        while self._places and len(taken) < records:
            place = self._places[0]
            size -= place.end - place.begin
            if taken and (size < 0 or (until_ms is not None and place.sample_ms >= until_ms)):
                break
            taken.append(heapq.heappop(self._places))
            self._left[place.seq] -= 1
            if not self._left[place.seq]:
                self._emptied.append(place.seq)
        return taken

    def emptied(self) -> list[int]:
        """The segments of which everything was taken since this was last asked."""
        emptied, self._emptied = self._emptied, []
        return emptied
