import pytest

from proxy.core.errors import QueueFullError, StorageError
from proxy.core.retention import QueueKeep
from proxy.disk.appending import Call, runs
from proxy.disk.contents import Effect
from tests.proxy.disk.queueing import frame_size, number_of, record


def _nobody(_: StorageError | None) -> None:
    pass


def _call(*sizes: int, taken: bool = False) -> Call:
    return Call([record(number, size) for number, size in enumerate(sizes)], _nobody, taken)


SIZE = frame_size(record(0, 100)) + 10
"""About what a record of 100 bytes has on the disk: escapes make some a little larger."""


@pytest.mark.parametrize(
    ("sizes", "taken", "limit", "kept"),
    [
        ([100], False, SIZE, [0]),
        ([100], False, SIZE // 2, []),
        ([100], True, SIZE // 2, [0]),
        ([100, 100, 100], False, 3 * SIZE, [0, 1, 2]),
        ([100, 100, 100], False, 2 * SIZE, [1, 2]),
        ([100, 100, 100], True, 2 * SIZE, [0, 1, 2]),
        ([100, 100, 100], True, SIZE, [0, 2]),
        ([100, 5000, 100], False, SIZE, [2]),
        ([100, 100, 5000], False, SIZE, []),
    ],
)
def test_what_finds_room(sizes: list[int], *, taken: bool, limit: int, kept: list[int]) -> None:
    """The newest records are kept as far as there is room, and one that is under way in any case."""
    call = _call(*sizes, taken=taken)
    call.prepare(QueueKeep(limit, 1, "drop_oldest"), 0)
    assert ([number_of(each) for each in call.kept], call.error) == (kept, None)
    assert call.size == frame_size(*call.kept)
    assert call.overflows == (len(kept) < len(sizes))


def test_refusing() -> None:
    """A queue that refuses has room for all records of a call or for none, to the byte."""
    size = frame_size(record(0, 100), record(1, 100))
    for used, error in ((1000, type(None)), (1001, QueueFullError)):
        call = _call(100, 100)
        call.prepare(QueueKeep(size + 1000, 1, "refuse"), used)
        assert (type(call.error), len(call.kept)) == (error, 0 if call.error else 2)


def test_what_cannot_be_written() -> None:
    """A number that does not fit fails the call."""
    call = Call([record(0, samples=-1)], _nobody)
    call.prepare(QueueKeep(1 << 20, 1, "drop_oldest"), 0)
    assert type(call.error) is StorageError


def test_counting() -> None:
    """What found no room is counted as queued and as dropped, so that the books balance for who asked."""
    call = Call([record(0, 5000, samples=7), record(1, samples=2)], _nobody)
    call.prepare(QueueKeep(1000, 1, "drop_oldest"), 0)
    effect = Effect()
    call.count(effect)
    assert (call.durable, effect.records, effect.samples) == (True, 1, 2)
    assert (effect.dropped_records, effect.dropped_samples) == ({"queue_full": 1}, {"queue_full": 7})


def test_runs() -> None:
    """Calls go together up to the size of a segment, a larger one alone, and one that overflows begins anew."""
    calls = [_call(100), _call(100), _call(100), _call(5000), _call(100), _call(9000), _call(100)]
    for call in calls:
        call.prepare(QueueKeep(8000, 1, "drop_oldest"), 0)
    places = {id(call): place for place, call in enumerate(calls)}
    found = [[places[id(call)] for call in run] for run in runs(calls, 2 * SIZE)]
    assert found == [[0, 1], [2], [3], [4], [5, 6]]
    assert list(runs([], 1)) == []
