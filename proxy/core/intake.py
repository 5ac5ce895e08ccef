"""From the bytes of a request to what is to be done with it: the one stateful object of the core.

Used from one thread, never awaits, touches no clock. What it remembers (`SeriesCache`, outputs, who fed what) is
bounded by a budget in bytes and does not outlive the process: after a restart a stale marker goes where its series
belongs as of its own time.

- An entry's decision is replaced when ownership of its device or the tenancy changes, or when a sample lies outside its
  window. What it fed last is kept until then, so that a hand-over ends the old series (`feed`).
- A sample older than the newest of its entry that lies in another window is decided for itself and changes nothing.
- Only routed and filtered decisions are kept. What is quarantined or rejected is decided anew each time.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from ownership import DeviceKey, Fleet
from proxy.core import fields, wire
from proxy.core.again import AGAIN, Again, Earlier
from proxy.core.books import Books
from proxy.core.decisions import Decisions
from proxy.core.families import Families
from proxy.core.gathering import Gathering, Moment, Taken
from proxy.core.had import Incomplete
from proxy.core.series_cache import CacheBudget
from proxy.core.sorter import Limits, Sorter
from proxy.core.tenancy import Tenancy, Trust

SLICE: Final = 10_000
"""Entries taken in one go: what vmagent sends at most, and a second of work where each is new."""

SLICE_BYTES: Final = 1 << 20
"""Bytes likewise: 2,000 usual series fit in, and half a million of the smallest points are some seconds of work."""


class Intake:
    """Takes requests; `ownership_changed` and `retenant` void what was decided before."""

    def __init__(self, tenancy: Tenancy, fleet: Fleet, books: Books, limits: Limits, budget: CacheBudget) -> None:
        self.books = books
        self._decisions = Decisions(tenancy, fleet, books)
        self._limits = limits
        self._budget = budget
        self._sorters: dict[Trust, Sorter] = {}
        self._scans = 0

    def take(self, body: bytes, trust: Trust, moment: Moment) -> Taken:
        """What is to be done with a decoded 1.0 request; its fates are in the books when this returns.

        Raises RequestError where the body is no request: nothing is counted then, and nothing has changed.
        """
        taken = Taken()
        for some in self.take_slices(body, trust, moment):
            taken.add(some)
        return taken

    def take_slices(self, body: bytes, trust: Trust, moment: Moment, had: Incomplete | None = None) -> Iterator[Taken]:
        """As `take`, SLICE entries or SLICE_BYTES at a time, so that a caller can see to others between; at least one.

        A slice is a request of its own as far as markers and their successors are concerned. Raises RequestError at
        the first slice only. `had` is what earlier attempts have done of a request that is sent again.
        """
        self._decisions.notice_tenants()
        if had is not None:
            yield from self._take_again(body, trust, moment, had)
            return
        frames = fields.frames(body)
        sorter = self._sorter(trust)
        yield Taken(metadata=frames.metadata, fields_dropped=frames.dropped)
        for bounds in _slices(frames.bounds, SLICE):
            self._scans += 1
            gathering = sorter.gathering = Gathering(self._scans, moment, self.books)
            gathering.touched = wire.scan(body, bounds, sorter.cache, self._scans, moment.tick)
            gathering.taken.received += sorter.cache.fast_samples
            yield gathering.finish(self._decisions)

    def ownership_changed(
        self, node: str, changed: Iterable[DeviceKey], keys: Iterable[DeviceKey], until_ms: int
    ) -> None:
        """Void the decisions for `changed`; those for all `keys` of the node are good up to `until_ms`."""
        self._decisions.ownership_changed(node, changed, keys, until_ms)

    def retenant(self, tenancy: Tenancy, limits: Limits) -> None:
        """Go on with another configuration: each decision is made anew when its series next comes."""
        self._limits = limits
        for sorter in self._sorters.values():
            sorter.limits = limits
        self._decisions.retenant(tenancy)

    @property
    def tenancy(self) -> Tenancy:
        """The tenants and rules in force."""
        return self._decisions.tenancy

    @property
    def families(self) -> Families:
        """What families each tenant has, by what was decided so far."""
        return self._decisions.families

    @property
    def cached_series(self) -> int:
        """Series remembered, over all senders."""
        return sum(len(sorter.cache.entries) for sorter in self._sorters.values())

    def _take_again(self, body: bytes, trust: Trust, moment: Moment, had: Incomplete) -> Iterator[Taken]:
        """Without what earlier attempts have done, and without the metadata, which they have handed out."""
        frames = fields.frames(body)
        sorter = self._sorter(trust)
        earlier = Earlier(had)
        yield Taken(fields_dropped=frames.dropped)
        for bounds in _slices(frames.bounds, AGAIN):
            gathering = sorter.gathering = self._again(moment, earlier)
            for at in range(0, len(bounds), 2):
                if not gathering.pass_on(sorter.cache, body, bounds[at], bounds[at + 1]):
                    sorter.take(body, bounds[at], bounds[at + 1], gathering.number, gathering.touched)
            yield gathering.finish(self._decisions)
        last = self._again(moment, earlier)
        last.send_endings()
        yield last.finish(self._decisions)

    def _sorter(self, trust: Trust) -> Sorter:
        sorter = self._sorters.get(trust)
        if sorter is None:
            sorter = self._sorters[trust] = Sorter(trust, self._decisions, self._limits, self._budget)
        return sorter

    def _again(self, moment: Moment, earlier: Earlier) -> Again:
        self._scans += 1
        return Again(self._scans, moment, self._decisions, earlier)


def _slices(bounds: list[int], entries: int) -> Iterator[list[int]]:
    """Begin and end of each entry, one after the other, in slices of at least one entry."""
    first = 0
    while first < len(bounds):
        beyond = bisect_left(bounds, bounds[first] + SLICE_BYTES, first, min(first + 2 * entries, len(bounds)))
        end = max(first + 2, beyond - beyond % 2)
        yield bounds[first:end]
        first = end
