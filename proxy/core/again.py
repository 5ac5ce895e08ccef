"""What a request that is sent again still brings: what its earlier attempts have done is left out.

A sample whose tenants all have it is a duplicate. One that is durable in the quarantine already is brought to its owner
from there, whatever has become known since: only raw views, which do not wait, may still lack it.
"""

from typing import Final

from proxy.core import feed
from proxy.core.books import DUPLICATE, QUARANTINED, ROUTED
from proxy.core.decisions import Decisions
from proxy.core.errors import MalformedSeriesError
from proxy.core.gathering import Addressed, Gathering, Moment, Run, copy_of, held_entry
from proxy.core.had import Incomplete, held_mark, mark_of
from proxy.core.timeseries import framed, parse_series
from proxy.core.wire import Fate, Output, SeriesCache, Slot

AGAIN: Final = 500
"""Entries taken in one go: each takes fifty times as long as in a request that comes first, and more if it is new."""

_PLAIN: Final = (b"\x12\x10", b"\x12\x07")  # how a sample begins, with and without a value: its tag and its length


class Earlier:
    """What earlier attempts have done, while the request is taken again; `endings` are those still to be sent."""

    def __init__(self, had: Incomplete) -> None:
        self.marks = frozenset(had.marks)
        self.endings: dict[int, Addressed] = {mark_of(*ending): ending for ending in had.endings}


class Again(Gathering):
    """A slice of a request that is sent again."""

    def __init__(self, number: int, moment: Moment, decisions: Decisions, earlier: Earlier) -> None:
        super().__init__(number, moment, decisions.books)
        self._decisions = decisions
        self._earlier = earlier

    def pass_on(self, cache: SeriesCache, body: bytes, start: int, end: int) -> bool:
        """Send an entry that `wire.scan` would pass itself, at a quarter of the sorter's cost; whether it was one."""
        tail = _sample_at(body, end)
        known = cache.find(body[start:tail]) if tail > start else None
        if known is None or not known.fast:
            return False
        try:
            (point,) = parse_series(body, tail, end).points
        except MalformedSeriesError:
            return False
        run = Run(known.block, (point,), b"", known.outputs, "", (known.fate,))
        is_ending = known.device and point.stale
        if is_ending or not feed.holds(known, point.time_ms) or self._was_copy(held_entry(run)):
            return False
        known.used = self.moment.tick
        known.last_ms = max(known.last_ms, point.time_ms)
        self.send(run)
        return True

    def send(self, run: Run) -> None:
        """As for a request that comes first, but for what is done already."""
        waits = held_mark(held_entry(run)) in self._earlier.marks
        outputs = [each for each in run.outputs if not waits or self._decisions.is_raw(each)]
        sent = self._emit(outputs, run)
        holds = bool(run.held) and not waits
        if holds:
            self._hold(run)
        elif not run.outputs and not run.held:
            self.taken.exemplars_dropped += len(run.points) - len(run.fates)
        as_ever = holds or not (run.outputs or run.held)
        for fate in run.fates:
            self.count(fate if as_ever else self._fate(fate, sent=sent))

    def is_copy(self, block: bytes, tail: bytes, *, known: bool) -> bool:
        """A copy is one still where the other value is not the newest of its series any more."""
        return super().is_copy(block, tail, known=known or self._was_copy(framed(block, tail)))

    def collide(self, taken: tuple[Output, ...], tail: bytes) -> tuple[Output, ...]:
        """None: what collided has ended, and whatever else lacks its part had the first value of its time."""
        del taken, tail
        return ()

    def send_endings(self) -> None:
        """Send the markers that tenants still lack, and that the request has not brought about once more."""
        for mark, (tenant, pair, entry) in list(self._earlier.endings.items()):
            del self._earlier.endings[mark]
            if self._decisions.tenancy.tenant(tenant) is not None:
                self._add_ending(self._decisions.slot(tenant, pair), entry)

    def _fate(self, fate: Fate, *, sent: bool) -> Fate:
        if fate.kind not in (ROUTED, QUARANTINED):
            return fate
        return self._books.fate(ROUTED if sent else DUPLICATE)

    def _was_copy(self, entry: bytes) -> bool:
        return mark_of(*copy_of(entry)) in self._earlier.marks

    def _lacks(self, slot: Slot, entry: bytes) -> bool:
        mark = mark_of(slot.tenant, slot.pair, entry)
        self._earlier.endings.pop(mark, None)
        return mark not in self._earlier.marks


def _sample_at(body: bytes, end: int) -> int:
    """Where a sample begins that ends at `end`, if one does; 0 else."""
    for head in _PLAIN:
        at = end - len(head) - head[1]
        if body.startswith(head, at):
            return at
    return 0
