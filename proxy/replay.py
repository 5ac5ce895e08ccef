"""The quarantine replays by itself: what ownership or another configuration answers goes to its tenants.

One task, `run`, does it in rounds (`replay_round.py`). What may have been answered is told by the times that wait for
each device in each segment (`core.waiting`): only where those times are answered in another way than when they were
last tried is a segment read.

- Changes of ownership are looked at within GATHER_SECONDS, those of the configuration too.
- Every SWEEP_SECONDS everything that waits is looked at, so that a record which was written while its answer came in
  is found, and a segment with too many devices to note is read.
- A tenant that could not take its parts is tried again after a pause.

By hand: `replay_now`, `records` and `drop`. They end a round that is under way; what it left is done afterwards.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog

from ownership import Changes, DeviceKey, Fleet
from proxy.clock import now_ms
from proxy.core.books import BY_HAND, Books
from proxy.core.pauses import Pauses, pause_seconds
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Replay, Verdict
from proxy.core.summary import Summary, summarise
from proxy.core.tenancy import Tenancy
from proxy.core.waiting import answered
from proxy.disk.quarantine import Quarantine
from proxy.replay_round import STEP, Deliver, Memory, Round, Totals

GATHER_SECONDS: Final = 0.5
"""Changes come in bursts: all nodes at the start, a node with each poll."""
SWEEP_SECONDS: Final = 60.0
FRUITLESS: Final = 2
"""How often a device that is answered, but not for what waits of it, is tried before it has to wait for a sweep."""

_log: Final = structlog.get_logger()

World = Callable[[], tuple[Tenancy, Fleet]]
_Where = tuple[int, DeviceKey | None]
_Due = dict[int, set[DeviceKey | None] | None]


class Replayer:
    """Replays one quarantine. `world` tells the tenants and the owners of the moment."""

    def __init__(self, quarantine: Quarantine, world: World, deliver: Deliver, books: Books) -> None:
        self._quarantine = quarantine
        self._world = world
        self._deliver = deliver
        self._books = books
        self._memory = Memory()
        self._pauses = Pauses()
        self._changed: set[DeviceKey] = set()
        self._everything = True
        self._owed: _Due = {}
        self._again = False
        self._by_hand = 0
        self._tried: dict[_Where, int] = {}
        self._fruitless: dict[_Where, int] = {}
        self._crowded = -1
        self._round: Round | None = None
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._sweep_at = 0.0
        self._tidy = False

    def ownership_changed(self, changes: Changes) -> None:
        """Look at what waits for these devices."""
        self._changed |= changes.all_keys | changes.keys
        self._wake.set()

    def reconfigured(self) -> None:
        """Look at everything anew, by the tenants that there are now; ends a round that goes by others."""
        self._everything = True
        self._tried.clear()
        self._fruitless.clear()
        self._pauses = Pauses()
        self._again = True
        self._end_round()
        self._wake.set()

    async def run(self) -> None:
        """Replay until cancelled."""
        failures = 0
        while True:
            await self._rest()
            try:
                async with self._turn:
                    await self._replay_due()
                    await self._merge_segments()
                failures = 0
            except Exception:  # noqa: BLE001 - the outermost frame of a task: what waits is tried again
                _log.exception("replay failed")
                self._everything = self._again = True
                failures += 1
                await asyncio.sleep(pause_seconds(failures))

    async def replay_now(self) -> Totals:
        """Look at every record that waits, and replay what is answered. Raises StorageError."""
        totals = Totals()
        async with self._alone():
            ended = True
            while ended:  # by another configuration
                self._pauses = Pauses()
                made = await self._replay(dict.fromkeys(await self._quarantine.segments()), set(), by_hand=True)
                totals.add(made.totals)
                ended = made.ended
        return totals

    async def records(self, limit: int, reason: str = "", text: str = "") -> list[Summary]:
        """What waits, in order of arrival: for a reason, with a text in its series or its owner's namespace.

        Raises StorageError.
        """
        found: list[Summary] = []
        for seq in await self._quarantine.segments():
            places = await self._quarantine.places(seq, shared=True)
            for at in range(0, len(places), STEP):
                lot = await self._quarantine.load(places[at : at + STEP])
                asked = [record for _, record in lot if not reason or record.reason == reason]
                summaries = [summarise(record, *self._world()) for record in asked]
                found += [each for each in summaries if text in each.series or text in each.namespace]
                if len(found) >= limit:
                    return found[:limit]
                await asyncio.sleep(0)
        return found

    async def drop(self, reason: str | None = None, older_than_ms: int | None = None) -> tuple[int, int]:
        """Drop what waits for a reason, or was received so long ago: records and samples. Raises StorageError."""
        until_ms = None if older_than_ms is None else now_ms() - older_than_ms
        records = samples = 0
        async with self._alone():
            for seq in await self._quarantine.segments():
                places = await self._quarantine.places(seq, shared=True)
                for at in range(0, len(places), STEP):
                    lot = await self._quarantine.load(places[at : at + STEP])
                    gone = [(place, _dropped(record)) for place, record in lot if _asked(record, reason, until_ms)]
                    effect = await self._quarantine.settle(gone)
                    records += len(gone)
                    samples += effect.dropped[BY_HAND]
                await self._quarantine.compact([seq])
        return records, samples

    async def _rest(self) -> None:
        """Return when there is something to look at."""
        if self._again:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(self._sweep_at, self._pauses.next_s)):
                await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)
        self._wake.clear()
        if _now_s() >= self._sweep_at:
            self._sweep_at = _now_s() + SWEEP_SECONDS
            self._everything = self._tidy = True
            self._fruitless.clear()

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        self._by_hand += 1
        if self._by_hand == 1:
            self._end_round()
        try:
            async with self._turn:
                yield
        finally:
            self._by_hand -= 1

    def _end_round(self) -> None:
        if self._round is not None:
            self._round.end()

    async def _replay_due(self) -> None:
        due, tokens = await self._answered()
        retried = self._pauses.over(_now_s())
        again, self._again = self._again or bool(retried), False
        fresh = bool(due)
        if again:
            owed, self._owed = self._owed, {}
            for seq, keys in owed.items():
                _merge(due, seq, keys)
        if not due:
            self._pauses.tried(_now_s(), retried, set())
            return
        made = await self._replay(due, retried, fresh=fresh)
        if not made.ended:
            self._note_tried(tokens, made)

    async def _merge_segments(self) -> None:
        """At each sweep: rounds end the newest segment, so that many small ones come of them."""
        if not self._tidy:
            return
        self._tidy = False
        for old, new in (await self._quarantine.merge()).items():
            if old in self._owed:
                _merge(self._owed, new, self._owed.pop(old))

    async def _answered(self) -> tuple[_Due, dict[_Where, int]]:
        """What is answered by now in another way than when it was last tried."""
        everything, self._everything = self._everything, False
        changed, self._changed = self._changed, set()
        if not self._quarantine.waiting.total():
            return {}, {}
        waits = await self._quarantine.waits(None if everything else changed)
        if everything:
            there = {seq for seq, _ in waits}
            self._tried = {where: token for where, token in self._tried.items() if where[0] in there}
        due: _Due = {}
        tokens: dict[_Where, int] = {}
        crowded: list[int] = []
        for number, (seq, span) in enumerate(waits, 1):
            if span is None:
                crowded.append(seq)
                continue
            where = seq, span.key
            times = answered(span, *self._world())
            token = hash(times)
            if times and self._tried.get(where) != token and self._fruitless.get(where, 0) < FRUITLESS:
                _merge(due, seq, {span.key})
                tokens[where] = token
            if number % STEP == 0:
                await asyncio.sleep(0)
        if everything and crowded:
            self._crowded = min((seq for seq in crowded if seq > self._crowded), default=min(crowded))
            due[self._crowded] = None
        return due, tokens

    async def _replay(self, due: _Due, retried: set[str], *, fresh: bool = True, by_hand: bool = False) -> Round:
        """A round; with nothing `fresh` it ends when all of `retried` have failed once more."""
        paused = self._pauses.paused(_now_s())
        before = frozenset(paused)
        made = self._round = Round(self._quarantine, self._deliver, self._books, self._memory)
        if self._by_hand and not by_hand:
            made.end()
        try:
            await made.run(due, Replay(*self._world(), paused, self._memory.had), paused, set() if fresh else retried)
        finally:
            self._round = None
            self._again |= made.ended or made.left_out
            for seq, keys in made.owed.items():
                _merge(self._owed, seq, keys)
        self._pauses.tried(_now_s(), retried, paused - before)
        return made

    def _note_tried(self, tokens: dict[_Where, int], made: Round) -> None:
        self._tried.update(tokens)
        for where in tokens:
            if where in made.fruitful:
                self._fruitless.pop(where, None)
            else:
                self._fruitless[where] = self._fruitless.get(where, 0) + 1


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _merge(due: _Due, seq: int, keys: set[DeviceKey | None] | None) -> None:
    known = due.setdefault(seq, set())
    due[seq] = None if known is None or keys is None else known | keys


def _asked(record: QuarantineRecord, reason: str | None, until_ms: int | None) -> bool:
    return (reason is None or record.reason == reason) and (until_ms is None or record.received_ms < until_ms)


def _dropped(record: QuarantineRecord) -> Verdict:
    return Verdict(record, (), dropped=((BY_HAND, record.samples),))
