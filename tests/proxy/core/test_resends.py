from array import array

import pytest

from proxy.core import resends
from proxy.core.gathering import Held, Taken
from proxy.core.had import MARKS, Complete, Ended, Had, Incomplete, had_after
from proxy.core.outcome import Retryable
from proxy.core.resends import REMEMBERED, REMEMBERED_SECONDS, Key, Resends, key_of
from proxy.core.wire import Part

DONE = Complete(3, 204, "")
KEY = key_of("prometheus", b"body")


def _open(marks: int) -> Incomplete:
    return Incomplete(array("q", range(marks)))


def _known(memory: Resends, key: Key, tick: int = 0) -> Had | None:
    attempt = memory.find(key, tick)
    return None if attempt is None else attempt.had


def test_key() -> None:
    """A request is another one by its sender, and by any byte of its body."""
    assert key_of("prometheus", bytes([*b"body"])) == KEY
    assert len({KEY, key_of("other", b"body"), key_of("prometheus", b"bodz"), key_of("prometheus", b"body\x00")}) == 4


def test_newest_attempt() -> None:
    """What an attempt ended as is known until another attempt begins, which is the one that counts from then on."""
    memory = Resends()
    assert memory.find(KEY, 0) is None
    first = memory.begin(KEY, 0)
    assert memory.find(KEY, 0) is first
    assert first.had is None
    memory.end(first, DONE)
    assert _known(memory, KEY) == DONE
    second = memory.begin(KEY, 1)
    memory.end(first, DONE)
    assert memory.find(KEY, 1) is second
    assert second.had is None


def test_forgotten() -> None:
    """An attempt of which nothing is known in the end leaves nothing behind."""
    memory = Resends()
    memory.end(memory.begin(KEY, 0), None)
    assert memory.find(KEY, 0) is None
    assert len(memory) == 0


def test_time() -> None:
    """A request is remembered for REMEMBERED_SECONDS, and takes no room after that."""
    memory = Resends()
    memory.end(memory.begin(KEY, 10), DONE)
    assert _known(memory, KEY, 10 + REMEMBERED_SECONDS) == DONE
    assert memory.find(KEY, 11 + REMEMBERED_SECONDS) is None
    memory.begin(key_of("other", b""), 11 + REMEMBERED_SECONDS)
    assert len(memory) == 1


def test_number() -> None:
    """REMEMBERED requests at most: the oldest goes first, and one that has come again is not the oldest."""
    memory = Resends()
    keys = [("prometheus", at, 0) for at in range(REMEMBERED)]
    for key in [*keys, keys[0]]:
        memory.end(memory.begin(key, 0), DONE)
    assert len(memory) == REMEMBERED
    memory.begin(KEY, 0)
    assert len(memory) == REMEMBERED
    assert memory.find(keys[1], 0) is None
    assert _known(memory, keys[0]) == DONE


def test_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """REMEMBERED_MARKS at most: what would go beyond is not remembered, until others have ended or are forgotten."""
    monkeypatch.setattr(resends, "REMEMBERED_MARKS", 10)
    memory = Resends()
    one, two = ("prometheus", 1, 0), ("prometheus", 2, 0)
    memory.end(memory.begin(one, 0), _open(6))
    memory.end(memory.begin(two, 0), _open(5))
    assert memory.find(two, 0) is None
    memory.end(memory.begin(two, 0), _open(4))
    assert memory.marks == 10
    memory.end(memory.begin(one, 0), _open(6))
    assert memory.marks == 10
    memory.end(memory.begin(one, 1), DONE)
    assert memory.marks == 4
    memory.begin(KEY, 1 + REMEMBERED_SECONDS)
    assert memory.marks == 0


def _part(entries: int) -> Part:
    part = Part("t", ())
    for at in range(entries):
        part.add(b"\x0a\x05" + at.to_bytes(5))
        part.samples += 1
    return part


def _after(taken: Taken, before: Incomplete | None = None, *, held: bool = False) -> Had | None:
    ended = Ended([("t", taken.parts[-1], Retryable("queue_full"))], held=held, status=503, text="")
    return had_after(taken, ended, before)


def test_entries_of_one_request() -> None:
    """MARKS entries at most, over all attempts and with what waits: of a larger request nothing is known."""
    back = _part(1)
    found = _after(Taken(parts=[_part(MARKS - 1), back]))
    assert isinstance(found, Incomplete)
    assert len(found.marks) == MARKS - 2  # one of them is the same entry
    assert _after(Taken(parts=[_part(MARKS), back])) is None
    assert _after(Taken(parts=[back]), Incomplete(array("q", range(MARKS)))) is None
    assert _after(Taken(parts=[_part(MARKS - 1), back], held=[Held("", 0, 1, b"")])) is None


@pytest.mark.parametrize("held", [True, False])
def test_complete(held: bool) -> None:  # noqa: FBT001 - a table's column
    """Nothing is left to do where all parts have ended and what waits is durable; then the answer is kept."""
    taken = Taken(parts=[_part(2)], held=[Held("", 0, 1, b"")], received=3)
    found = had_after(taken, Ended([], held=held, status=400, text="why"), None)
    assert found == Complete(3, 400, "why") if held else isinstance(found, Incomplete)
