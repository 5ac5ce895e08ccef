"""What a request that is sent again still brings: what its earlier attempts have done is left out.

Each entry takes the slow way. A sample whose tenants all have it is a duplicate. One that is durable in the quarantine
already is brought to its owner from there, whatever has become known since: only raw views, which do not wait, may
still lack it.
"""

from typing import Final

from proxy.core.books import DUPLICATE, QUARANTINED, ROUTED
from proxy.core.decisions import Decisions
from proxy.core.gathering import Addressed, Gathering, Moment, Run, held_entry
from proxy.core.had import Incomplete, held_mark, mark_of
from proxy.core.wire import Fate, Output, Slot

AGAIN: Final = 500
"""Entries taken in one go: the slow way takes a hundred times as long as that of a request that comes first."""


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

    def _lacks(self, slot: Slot, entry: bytes) -> bool:
        mark = mark_of(slot.tenant, slot.pair, entry)
        self._earlier.endings.pop(mark, None)
        return mark not in self._earlier.marks
