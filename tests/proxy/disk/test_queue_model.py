"""The queue against a plain list, through everything that may happen to it, the end of the process included."""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.core import cursor
from proxy.core.cursor import Position
from proxy.core.errors import QueueFullError, StorageError
from proxy.core.frames import scan
from proxy.core.record import QueueRecord
from proxy.core.retention import QueueKeep
from tests.proxy.disk.queueing import Stock, frame_size, number_of, record, segments

FULL: Final[tuple[Literal["drop_oldest"], Literal["refuse"]]] = ("drop_oldest", "refuse")
KEEPS: Final = [
    QueueKeep(limit, age_ms, full)
    for limit in (4 << 10, 16 << 10, 1 << 20)
    for age_ms in (1000, 1 << 40)
    for full in FULL
]

KINDS: Final = st.fixed_dictionaries(
    {},
    optional={
        "samples": st.integers(1, 5),
        "attempted": st.booleans(),
        "replay": st.booleans(),
        "pair": st.sampled_from([("c", "a"), ("c", "b")]),
    },
)
RECORDS: Final = st.lists(st.tuples(st.sampled_from([0, 10, 300, 1500, 5000]), KINDS), min_size=1, max_size=4)


class Dice(NamedTuple):
    """What chance says, whatever the files hold: how appends share a write, and so the files, depends on threads."""

    where: int
    change: int
    line: bytes


class QueueMachine(RuleBasedStateMachine):
    """`waiting` is what the queue must hold, oldest first, of which the first `taken` are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.stock = Stock(Path(self.folder.name) / "queue")
        self.waiting: list[QueueRecord] = []
        self.taken = 0
        self.ended: list[int] = []  # numbers of what was done or dropped, and must not come back unless a cursor is old
        self.number = 0
        self.dropped = 0

    @initialize(keep=st.sampled_from(KEEPS))
    def begin(self, keep: QueueKeep) -> None:
        self.stock = Stock(Path(self.folder.name) / "queue", keep)
        self.runner.run(self.stock.open())

    def teardown(self) -> None:
        self.runner.run(self.stock.close())
        self.runner.close()
        self.folder.cleanup()

    # -- what lanes and people do --------------------------------------------------------------------------------------

    @rule(calls=st.lists(RECORDS, min_size=1, max_size=4))
    def append(self, calls: list[list[tuple[int, dict[str, object]]]]) -> None:
        """Several appends at once."""
        made = [[self._record(size, kind) for size, kind in call] for call in calls]
        errors = self.runner.run(self._append(made))
        refuses = self.stock._keep.full == "refuse"
        for records, error in zip(made, errors, strict=True):
            if error is None:
                self.waiting += records
            else:
                assert refuses
                assert isinstance(error, QueueFullError)
                assert self.stock.queue.bytes + frame_size(*records) > self.stock._keep.bytes
        self._drop_told()
        self._bounded()

    async def _append(self, calls: list[list[QueueRecord]]) -> Sequence[StorageError | None]:
        return await asyncio.gather(*(self.stock.try_append(records) for records in calls))

    @precondition(lambda self: not self.waiting)
    @rule(call=RECORDS)
    def park(self, call: list[tuple[int, dict[str, object]]]) -> None:
        """An append whose first record is under way."""
        records = [self._record(size, kind) for size, kind in call]
        if self.runner.run(self.stock.try_append(records, taken=True)) is None:
            self.waiting += records
            self.taken = 1
            self._drop_told()

    @rule(max_samples=st.integers(0, 20), max_bytes=st.integers(0, 20_000))
    def take(self, max_samples: int, max_bytes: int) -> None:
        """What is taken comes first, is of one kind, within the bounds and young enough, and the same until done."""
        records = list(self.runner.run(self.stock.take_records(max_samples, max_bytes)))
        self._drop_told()
        assert records == self.waiting[: len(records)]
        assert bool(records) == bool(self.waiting)
        if self.taken:
            assert len(records) == self.taken
            return
        self.taken = len(records)
        if self.taken > 1:
            assert sum(each.samples for each in records) <= max_samples
            assert sum(len(each.entries) for each in records) <= max_bytes
            assert len({(each.pair, each.replay) for each in records}) == 1
            assert not any(each.attempted for each in records)
        oldest_ms = self.stock.now_ms - self.stock._keep.age_ms
        assert all(each.received_ms >= oldest_ms for each in records)

    @precondition(lambda self: self.taken)
    @rule()
    def done(self) -> None:
        """What was taken is gone, at once."""
        self.runner.run(self._done())
        self._end(self.waiting[: self.taken])
        self.waiting = self.waiting[self.taken :]
        self.taken = 0

    @rule(requests=st.integers(1, 4))
    def work_off(self, requests: int) -> None:
        """Some requests that all end well."""
        for _ in range(requests):
            self.take(20, 20_000)
            if self.taken:
                self.done()

    async def _done(self) -> None:
        self.stock.queue.done()

    @rule()
    def unload(self) -> None:
        """What is let go of in memory is read again from the disk."""
        self.runner.run(self._unload())

    async def _unload(self) -> None:
        self.stock.queue.unload()

    @rule(records=st.one_of(st.none(), st.integers(0, 6)))
    def drop(self, records: int | None) -> None:
        """The oldest go, but for those that are taken, and it is told how many."""
        expected = self.waiting[self.taken :][:records]
        found = self.runner.run(self.stock.queue.drop(records))
        assert found == (len(expected), sum(each.samples for each in expected))
        self._drop_told()

    @rule(limit=st.integers(0, 50))
    def inspect(self, limit: int) -> None:
        """Looking shows the first records, and changes nothing."""
        assert self.runner.run(self.stock.queue.inspect(limit)) == self.waiting[:limit]

    @rule(milliseconds=st.sampled_from([0, 1, 60, 130, 990, 1001]))
    def trim(self, milliseconds: int) -> None:
        """After some time: nothing too old is left, but behind what is taken."""
        self.stock.now_ms += milliseconds
        self.runner.run(self.stock.queues.trim())
        self._drop_told()
        oldest_ms = self.stock.now_ms - self.stock._keep.age_ms
        assert self.taken or all(each.received_ms >= oldest_ms for each in self.waiting)
        self._bounded()

    @rule(keep=st.sampled_from(KEEPS))
    def keep(self, keep: QueueKeep) -> None:
        """Other bounds."""
        self.stock.keep(keep)

    # -- what happens to processes and machines ------------------------------------------------------------------------

    @precondition(lambda self: self.number)
    @rule()
    def restart(self) -> None:
        """Stopped in order and started again: all is there, and nothing else."""
        self.runner.run(self.stock.close())
        self._open(self.waiting)

    @precondition(lambda self: self.number)
    @rule(
        dice=st.builds(Dice, st.integers(0, 1 << 20), st.integers(1, 255), st.binary(max_size=60)),
        harm=st.sampled_from(["nothing", "cut", "flip", "no cursor", "bad cursor", "old cursor"]),
    )
    def crash(self, dice: Dice, harm: str) -> None:
        """Killed and started again, after harm was done to the files or not."""
        self.stock.crash()
        files = segments(self.stock.files)
        lost: list[int] = []
        if files:
            lost = self._harms()[harm](dice, files)
        self._open([each for each in self.waiting if number_of(each) not in lost])

    def _harms(self) -> dict[str, Callable[[Dice, list[Path]], list[int]]]:
        """What may be done to the files; each returns the numbers of the records that it costs."""
        return {
            "nothing": lambda _dice, _files: [],
            "cut": self._cut,
            "flip": self._flip,
            "no cursor": lambda _dice, _files: self._write_cursor(None),
            "bad cursor": lambda dice, _files: self._write_cursor(dice.line),
            "old cursor": self._old_cursor,
        }

    def _cut(self, dice: Dice, files: list[Path]) -> list[int]:
        """The newest segment ends anywhere, as after a write that was not finished."""
        content = files[-1].read_bytes()
        at = dice.where % (len(content) + 1)
        files[-1].write_bytes(content[:at])
        return [number for number, _, end in _spans(content) if end > at]

    def _flip(self, dice: Dice, files: list[Path]) -> list[int]:
        """One byte changes, anywhere."""
        path = files[dice.where % len(files)]
        content = bytearray(path.read_bytes())
        at = dice.where % len(content)
        hit = [number for number, begin, end in _spans(bytes(content)) if begin <= at < end]
        content[at] ^= dice.change
        path.write_bytes(content)
        return hit

    def _old_cursor(self, dice: Dice, files: list[Path]) -> list[int]:
        """The machine crashed: the last moves of the cursor never reached the disk."""
        number = int(files[0].name[:20])
        path = self.stock.files / "cursor"
        now = cursor.decode(path.read_bytes()) if path.exists() else None
        offset = now.offset if now is not None and now.seq == number else 0
        ends = [0, *(end for end in scan(files[0].read_bytes()).ends if end <= offset)]
        return self._write_cursor(cursor.encode(Position(number, ends[dice.where % len(ends)])))

    def _write_cursor(self, line: bytes | None) -> list[int]:
        path = self.stock.files / "cursor"
        if line is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(line)
        return []

    def _open(self, expected: list[QueueRecord]) -> None:
        """All of the expected records must be there, in order; before them may be some that were done or dropped."""
        self.runner.run(self.stock.open())
        assert self.stock.dropped.total() == self.dropped
        found = self.runner.run(self.stock.queue.inspect(1 << 20))
        numbers = [number_of(each) for each in found]
        assert numbers == sorted(numbers)
        again = [each for each in found if number_of(each) in self.ended]
        assert [each for each in found if each not in again] == expected
        self.ended = [number for number in self.ended if number not in numbers]
        assert self.stock.queues.recovered() == ({"team-a": self.stock.queue.samples} if found else {})
        self.waiting, self.taken = found, 0

    # -- what must always hold -----------------------------------------------------------------------------------------

    @invariant()
    def totals_agree(self) -> None:
        """The counts are those of the list, to the sample, and so is what is idle."""
        if self.stock._queues is None:
            return
        queue = self.stock.queue
        assert queue.samples == sum(each.samples for each in self.waiting)
        assert queue.records == len(self.waiting)
        assert queue.idle == (not self.waiting)
        oldest_ms = queue.oldest_ms
        assert (oldest_ms is None) == (not self.waiting)
        assert oldest_ms is None or oldest_ms <= self.waiting[0].received_ms

    def _bounded(self) -> None:
        """The files are within the bounds, but for what is taken and the last append."""
        self.runner.run(self.stock.at_rest())
        size = sum(path.stat().st_size for path in segments(self.stock.files))
        assert self.stock.queue.bytes == size
        if self.stock._keep.full == "drop_oldest":
            assert self.taken or size <= self.stock._keep.bytes

    def _record(self, size: int, kind: dict[str, object]) -> QueueRecord:
        self.number += 1
        return record(self.number, size, received_ms=self.stock.now_ms, **kind)

    def _without(self, numbers: list[int]) -> list[QueueRecord]:
        return [each for each in self.waiting if number_of(each) not in numbers]

    def _end(self, records: list[QueueRecord]) -> None:
        self.ended += [number_of(each) for each in records]

    def _drop_told(self) -> None:
        """What was told as dropped was the oldest that is not taken, whole records of it."""
        told = self.stock.dropped.total() - self.dropped
        self.dropped += told
        assert "torn" not in self.stock.dropped
        gone: list[QueueRecord] = []
        while sum(each.samples for each in gone) < told:
            gone.append(self.waiting.pop(self.taken))
        assert sum(each.samples for each in gone) == told
        self._end(gone)


def _spans(content: bytes) -> list[tuple[int, int, int]]:
    """The number of each record of a segment, where it begins and where it ends."""
    found = scan(content)
    return [
        (number_of(QueueRecord.decode(payload)), begin, end)
        for (begin, payload), end in zip(found.records, found.ends, strict=True)
    ]


@pytest.mark.fuzz
class TestQueue(QueueMachine.TestCase):  # type: ignore[misc, valid-type]
    """Hypothesis' case for the machine."""

    settings = settings(stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None)
