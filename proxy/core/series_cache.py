"""How many series are remembered: a budget in bytes over the caches of all senders.

Series come in a cycle, scrape after scrape, so the least recently used one is the one that comes next, and a cache
that drops it falls to no hits at all when it is a little too small. Here an entry is dropped only when it has lain
unused for `idle_ticks`; while there is none such, a new series is not admitted and is decided anew each time it comes.
So a cache that holds nine tenths of the series serves nine tenths of them.
"""

from collections.abc import Callable
from typing import Final

from proxy.core.sharing import Shared
from proxy.core.wire import Entry, SeriesCache

CACHE_BYTES: Final = 1 << 30
"""Of decisions at most: about 700,000 series, more than one process passes on in a scrape interval of 1 s."""

IDLE_TICKS: Final = 600
"""Seconds without use after which an entry may make room: longer than any usual scrape interval."""

ENTRY_BYTES: Final = 400
OUTPUT_BYTES: Final = 230
"""What an entry and an output take beside their label blocks: measured by the benchmark, rounded up."""

LOOKED_AT: Final = 16
"""Entries looked at for one that may go, for each new series; the hand goes round, so all are seen in time."""


def cost_of(entry: Entry) -> int:
    """Bytes of an entry with its outputs; a block that both share counts once, what outputs share counts for each."""
    cost = entry.length + ENTRY_BYTES
    for output in entry.outputs:
        cost += OUTPUT_BYTES + len(output.first) - output.skip
        if output.second is not entry.lead:
            cost += len(output.second)
    return cost


class CacheBudget:
    """Admits entries and chooses those that make room; the caller forgets what is chosen, through `forget`."""

    def __init__(self, limit_bytes: int = CACHE_BYTES, idle_ticks: int = IDLE_TICKS) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._idle_ticks = idle_ticks
        self._ring: list[Entry] = []
        self._hand = 0
        self._shared = Shared()

    def admit(self, cache: SeriesCache, entry: Entry, tick: int, forget: Callable[[Entry], None]) -> bool:
        """Put `entry` into `cache` if there is room, or room can be made; whether it is in."""
        cost = cost_of(entry)
        if self.used_bytes + cost > self.limit_bytes and not self._make_room(cost, tick, forget):
            return False
        if not cache.add(entry):
            return False
        if all(output.second is not entry.lead for output in entry.outputs):
            entry.split(entry.cut(), self._shared.one)
        entry.cost = cost
        entry.home = cache
        self.used_bytes += cost
        self._ring.append(entry)
        return True

    def recost(self, entry: Entry) -> None:
        """Account for outputs that have changed; the limit is kept by what is admitted next."""
        if entry.home is not None:
            cost = cost_of(entry)
            self.used_bytes += cost - entry.cost
            entry.cost = cost

    def _make_room(self, cost: int, tick: int, forget: Callable[[Entry], None]) -> bool:
        for _ in range(min(LOOKED_AT, len(self._ring))):
            if self._hand >= len(self._ring):
                self._hand = 0
            entry = self._ring[self._hand]
            if entry.used + self._idle_ticks > tick:
                self._hand += 1
                continue
            self._ring[self._hand] = self._ring[-1]
            self._ring.pop()
            self.used_bytes -= entry.cost
            if entry.home is not None:
                entry.home.remove(entry)
            forget(entry)
            if self.used_bytes + cost <= self.limit_bytes:
                return True
        return False
