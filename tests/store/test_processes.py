"""One process writes, another reads, and any of them may be killed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from store.reading import SampleReader
from store.samples import SampleStore
from tests.store.writer import SERIES

ROOT = Path(__file__).parent.parent.parent
KILLS = 5


@contextmanager
def _writer(path: Path, first: int, *limits: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.store.writer", str(path), str(first), *map(str, limits)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _told(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)


def _numbers(path: Path) -> list[int]:
    """The appends that are in the file; each must be there for all its series."""
    found = [[at_ms for at_ms, _ in samples] for _, samples in SampleReader(path).select({}, 0, 1 << 62)]
    assert len(found) == SERIES
    assert all(times == found[0] for times in found)
    return found[0]


def test_reader_sees_what_is_committed(tmp_path: Path) -> None:
    """While another process writes, a reader sees each append that returned, whole, and never half of one."""
    path = tmp_path / "x.db"
    with _writer(path, 0) as process:
        for line, _ in zip(_told(process), range(20), strict=False):
            numbers = _numbers(path)
            assert int(line) in numbers
            assert numbers == list(range(len(numbers)))


def test_killed_writer_loses_nothing_that_returned(tmp_path: Path) -> None:
    """After kill -9 at any instant each append that returned is there, whole, and writing goes on."""
    path = tmp_path / "x.db"
    returned: list[int] = []
    for kill in range(KILLS):
        first = returned[-1] + 1000 if returned else 0
        with _writer(path, first) as process:
            told = _told(process)
            returned += [int(next(told)) for _ in range(3 + 7 * kill)]
            process.kill()
            returned += [int(line) for line in told]
        assert set(returned) <= set(_numbers(path))
    with closing(SampleStore(path)) as store:
        assert SampleReader(store.path).count() >= SERIES * len(returned)


def test_full_disk(tmp_path: Path) -> None:
    """A disk that takes no more refuses the append as one to repeat, and keeps what was appended before."""
    path = tmp_path / "x.db"
    with _writer(path, 0, 1 << 20) as process:
        *numbers, last = _told(process)
    assert last == "full"
    assert [int(number) for number in numbers] == _numbers(path)
