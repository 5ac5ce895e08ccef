"""One request's way until each of its entries has its end: which bytes go next, and what each reply settles.

A request is made of items (parts, or records of the queue), which are settled each on its own. As long as nothing goes
wrong it is sent as it is; no entry is looked at. Otherwise, always in order and one request after the other:

- Retryable: the same bytes again. 429 says that nothing was stored, and may mean that no request of this size will ever
  pass: it goes on in halves, and what follows is not larger until requests pass again. A size that has passed before is
  tried once more first, because then it was the rate and not the burst.
- 400 of a `whole` upstream: the items one by one (many in halves), and a refused item in halves, until each bad entry
  stands alone.
- 413: in halves; an entry that is too large alone is lost.
- Any other refusal, and the 400 of a `partial` upstream, is final for all that was in the request.

Each request that a refusal adds is taken from a budget when the refusal comes, so that an upstream that refuses
everything cannot make us send a request for each entry; what the budget does not cover is settled as refused. Requests
that a 429 adds cost nothing, because nothing may be lost for it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Final

from proxy.core.outcome import THROTTLED, Delivered, Outcome, Refusal, Refused, Retryable
from proxy.core.pieces import Piece, split_entries

ITEMS_APART: Final = 16
"""Of more items than that a refused request goes on in halves, not one by one: that finds a bad one of n in 2 log2(n)
requests, where the budget would not even reach the last item."""

_BAD_REQUEST, _TOO_LARGE = 400, 413
_REST: Final = {
    _BAD_REQUEST: Refused("upstream_400_rest", _BAD_REQUEST),
    _TOO_LARGE: Refused("upstream_413", _TOO_LARGE),
}
_TOO_OLD: Final = Refused("too_old", _BAD_REQUEST)
UNBOUNDED: Final = 1 << 62
"""A window that no request fills."""

_GROWTH: Final = 8  # a window grows by an eighth with each success: several that pass for each that is too large


@dataclass(frozen=True, slots=True)
class Item:
    """Entries (uncompressed, framed) with one end in the books; `made` of its samples are markers that we made."""

    entries: bytes
    samples: int
    made: int
    exemplars: int


@dataclass(frozen=True, slots=True)
class Settled:
    """A piece of the item with this index has ended; `made` is told with the item's first piece."""

    item: int
    samples: int
    made: int
    exemplars: int
    outcome: Delivered | Refused


_Run = list[tuple[int, Piece]]
"""What goes in one request: pieces in order, each with the index of its item; whole items, or pieces of one."""


class _Left:
    """What of an item is not settled. The last piece takes all, so that an item adds up whatever its entries say."""

    __slots__ = ("exemplars", "made", "pieces", "samples")

    def __init__(self, item: Item) -> None:
        self.samples = item.samples
        self.made = item.made
        self.exemplars = item.exemplars
        self.pieces = 1

    def take(self, pieces: Sequence[Piece]) -> tuple[int, int, int]:
        """Samples, made and exemplars of these pieces, which are settled now."""
        self.pieces -= len(pieces)
        samples, made, exemplars = self.samples, self.made, self.exemplars
        if self.pieces:
            samples = min(samples, sum(piece.samples for piece in pieces))
            exemplars = min(exemplars, sum(piece.exemplars for piece in pieces))
        self.samples -= samples
        self.made = 0
        self.exemplars -= exemplars
        return samples, made, exemplars


class Carrying:
    """Sees the items of one request through; `spend` takes one request from the splitting budget, if there is one.

    `request` is what is to be sent now, None when all is settled; it stays the same object while it is retried.
    `attempt` says how often exactly these bytes were sent before; who made them may know of earlier ones and set it.
    `refusal` is what this upstream's 400 means. Of a `replay` what the store says is too old is settled as such.
    `window` is how many samples and exemplars a request has at most: what the last Carrying to an upstream that
    throttles has come to is a good one to begin with.
    """

    __slots__ = ("_left", "_passed", "_replay", "_runs", "_spend", "_whole", "attempt", "request", "window")

    def __init__(
        self,
        items: Sequence[Item],
        refusal: Refusal,
        spend: Callable[[], bool],
        *,
        replay: bool = False,
        window: int = UNBOUNDED,
    ) -> None:
        self.request: bytes | None = None
        self.attempt = 0
        self._whole = refusal == "whole"
        self._spend = spend
        self._replay = replay
        self._left = [_Left(item) for item in items]
        first = [(at, Piece(item.entries, item.samples, item.exemplars)) for at, item in enumerate(items)]
        self._runs: deque[_Run] = deque([first] if first else ())
        self.window = window
        self._passed = 0
        self._prepare()

    @property
    def finished(self) -> bool:
        """Whether all is settled."""
        return not self._runs

    def replied(self, outcome: Outcome, *, too_old: bool = False) -> list[Settled]:
        """What the reply to `request` settles; `too_old` tells that the store's text says so (`outcome.is_too_old`).

        To be called only while there is a request.
        """
        if isinstance(outcome, Retryable):
            self._again(outcome)
            return []
        run = self._runs.popleft()
        settled = self._divide(run, outcome) if isinstance(outcome, Refused) else None
        if settled is None:
            if isinstance(outcome, Refused) and self._replay and too_old:
                outcome = _TOO_OLD
            self._passed = max(self._passed, _weight(run))
            self.window = min(self.window + self.window // _GROWTH + 1, UNBOUNDED)
            settled = self._settle(run, outcome)
        self._prepare()
        return settled

    def rest(self) -> list[Item]:
        """What is not settled, item by item in order; `made` only of items of which nothing is settled."""
        out = []
        waiting = (each for run in self._runs for each in run)
        for at, group in groupby(waiting, key=_item):
            left = self._left[at]
            entries = b"".join([piece.entry for _, piece in group])
            out.append(Item(entries, left.samples, left.made, left.exemplars))
        return out

    def _again(self, outcome: Retryable) -> None:
        worth_waiting = _weight(self._runs[0]) <= self._passed and not self.attempt
        if outcome.reason == THROTTLED and not worth_waiting and self._halve_first():
            self.window = max(_weight(self._runs[0]), _weight(self._runs[1]))
            self._prepare()
        else:
            self.attempt += 1

    def _divide(self, run: _Run, outcome: Refused) -> list[Settled] | None:
        """Put what a refused request is divided into in front, as far as the budget goes; None if it is final."""
        if outcome.status == _TOO_LARGE:
            runs = self._halves(run)
        elif outcome.status == _BAD_REQUEST and self._whole:
            runs = self._apart(run)
        else:
            return None
        if len(runs) == 1:
            return None
        paid = sum(1 for _ in takewhile(lambda _: self._spend(), runs))
        self._runs.extendleft(reversed(runs[:paid]))
        rest = [piece for unpaid in runs[paid:] for piece in unpaid]
        return self._settle(rest, _REST[outcome.status])

    def _apart(self, run: _Run) -> list[_Run]:
        several = run[0][0] != run[-1][0]
        return [[item] for item in run] if several and len(self._left) <= ITEMS_APART else self._halves(run)

    def _halves(self, run: _Run) -> list[_Run]:
        """Two halves in order, or the run alone where it is one entry."""
        if len(run) == 1:
            at, whole = run[0]
            pieces = split_entries(whole.entry)
            if len(pieces) > 1:
                self._left[at].pieces += len(pieces) - 1
                run = [(at, piece) for piece in pieces]
        middle = (len(run) + 1) // 2
        return [half for half in (run[:middle], run[middle:]) if half]

    def _halve_first(self) -> bool:
        """Put two halves in the place of the first run; False where it is one entry."""
        halves = self._halves(self._runs.popleft())
        self._runs.extendleft(reversed(halves))
        return len(halves) > 1

    def _settle(self, run: _Run, outcome: Delivered | Refused) -> list[Settled]:
        return [
            Settled(at, *self._left[at].take([piece for _, piece in group]), outcome)
            for at, group in groupby(run, key=_item)
        ]

    def _prepare(self) -> None:
        """Make the next request, within the window."""
        self.attempt = 0
        while self._runs and _weight(self._runs[0]) > self.window and self._halve_first():
            pass
        run = self._runs[0] if self._runs else []
        self.request = b"".join([piece.entry for _, piece in run]) if run else None


def _item(piece: tuple[int, Piece]) -> int:
    return piece[0]


def _weight(run: _Run) -> int:
    """What a rate limit counts: samples and exemplars, and at least one for each piece."""
    return sum(max(1, piece.samples + piece.exemplars) for _, piece in run)
