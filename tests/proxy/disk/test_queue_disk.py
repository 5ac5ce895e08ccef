"""A disk that fails under the queue."""

import asyncio
import contextlib
import errno
import os
import pathlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from proxy.core.errors import StorageError
from proxy.core.retention import QueueKeep
from proxy.disk import queue
from tests.proxy.disk.queueing import Stock, on_disk, record, segments

ROOT: Final = Path(__file__).parents[3]

KEEP: Final = QueueKeep(32 << 10, 1 << 40, "drop_oldest")

CALLS: Final = ("open", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "fstat", "unlink", "mkdir", "rename")
ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EROFS)


class Disk:
    """Counts what the writer threads ask of the kernel, and lets calls fail from the `first` on, `many` of them."""

    def __init__(self, first: int, many: int) -> None:
        self.asked = 0
        self.failed: list[str] = []
        self._first = first
        self._many = many

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand before the kernel."""
        for name in CALLS:
            monkeypatch.setattr(os, name, self._before(name, getattr(os, name)))
        monkeypatch.setattr(pathlib.Path, "open", self._before("read", pathlib.Path.open))

    def _before(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            if not threading.current_thread().name.startswith("queue"):
                return call(*args, **kwargs)
            self.asked += 1
            if not 0 <= self.asked - self._first < self._many:
                return call(*args, **kwargs)
            self.failed.append(name)
            if name == "write":  # a disk that fills takes the first part
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            number = ERRORS[self.asked % len(ERRORS)]
            raise OSError(number, os.strerror(number))

        return asked


class Ledger:
    """A queue and what it said; whatever it is asked may fail, as StorageError and in no other way."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock
        self.acknowledged: list[int] = []
        self.done: list[int] = []

    @property
    def waiting(self) -> int:
        """Samples that must be queued: one for each record."""
        return len(self.acknowledged) - len(self.done) - self.stock.dropped.total()

    async def append(self, *numbers: int, size: int = 200) -> None:
        """Append a record with each number."""
        error = await self.stock.try_append([record(number, size) for number in numbers])
        if error is None:
            self.acknowledged += numbers
        self.balanced()

    async def work_off(self, samples: int) -> None:
        """Take so many, and have them done."""
        try:
            taken = await self.stock.take(samples)
        except StorageError:
            return
        self.stock.queue.done()
        self.done += taken
        self.balanced()

    async def drop(self, records: int) -> None:
        """Drop so many by hand."""
        with contextlib.suppress(StorageError):
            await self.stock.queue.drop(records)
        self.balanced()

    def balanced(self) -> None:
        """The counts say what must be there."""
        assert (self.stock.queue.samples, self.stock.queue.records) == (self.waiting, self.waiting)


async def _scenario(ledger: Ledger) -> None:
    """Everything that a queue does, with several segments, appended to before, within and after it is worked off."""
    stock = ledger.stock
    for number in range(6):
        await ledger.append(number)
    await ledger.work_off(2)
    await ledger.append(6, 7)
    await ledger.append(8, size=3000)
    await ledger.drop(1)
    await stock.queues.trim()
    await ledger.append(*range(9, 25), size=1000)
    await ledger.work_off(1)
    for number in range(25, 30):
        await ledger.append(number, size=3000)
    await ledger.drop(3)
    for _ in range(30):
        await ledger.work_off(1)


async def _through(folder: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The scenario on such a disk, which then works again: so does the queue, and it loses nothing."""
    ledger = Ledger(await Stock(folder / "queue", KEEP).open())
    with monkeypatch.context() as patch:
        disk.watch(patch)
        await _scenario(ledger)
    await ledger.append(100)
    assert ledger.acknowledged[-1] == 100
    return ledger


@pytest.mark.parametrize(("many", "step"), [(1, 1), (3, 5), (1 << 20, 5)], ids=["one", "some", "all from then on"])
async def test_whatever_call_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, step: int) -> None:
    """Whichever calls of the kernel fail, what was acknowledged is delivered, or told as dropped; the books balance."""
    first = 1 - step
    while True:
        first += step
        disk = Disk(first, many)
        folder = tmp_path / str(first)
        ledger = await _through(folder, disk, monkeypatch)
        stock = ledger.stock
        if not disk.failed:
            await stock.close()
            break
        if first % 2:
            ledger.done += await stock.drain()
            ledger.balanced()
            assert (stock.queue.idle, ledger.waiting) == (True, 0), disk.failed
        else:
            await stock.close()
            await stock.open()
            delivered = await stock.drain()
            assert delivered == sorted(set(delivered))
            missing = set(ledger.acknowledged) - set(ledger.done) - set(delivered)
            assert len(missing) <= stock.dropped.total(), (disk.failed, missing)
        await stock.close()
    assert first > 100


async def test_an_fsync_that_failed_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a sync failed its append is an error, its records are gone, and that file is not written any more."""
    stock = await Stock(tmp_path / "queue").open()
    await stock.append(record(1))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        error = await stock.try_append([record(2)])
    assert (type(error), error and error.status) == (StorageError, 503)
    assert (on_disk(stock.files), stock.queue.records) == ([1], 1)
    await stock.append(record(3))
    assert [path.name for path in segments(stock.files)] == [f"{number:020d}.wal" for number in (1, 2)]
    assert await stock.drain() == [1, 3]
    await stock.close()


async def test_the_cursor_is_synced_before_a_segment_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only when the disk holds that a segment is done is it removed; each other move of the cursor is not synced."""
    stock = await Stock(tmp_path / "queue").open()
    await stock.append(record(1), record(2))
    asked: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def asking(*args: Any, **kwargs: Any) -> Any:
            asked.append(name)
            return call(*args, **kwargs)

        return asking

    for name in ("pwrite", "fdatasync", "unlink", "fsync"):
        monkeypatch.setattr(os, name, noted(name))
    assert await stock.take(1) == [1]
    stock.queue.done()
    await stock.at_rest()
    assert asked == ["pwrite"]
    assert await stock.take(1) == [2]
    stock.queue.done()
    await stock.at_rest()
    assert asked[1:] == ["pwrite", "fdatasync", "unlink"]
    await stock.append(record(3), record(4))
    assert await stock.take(1) == [3]
    stock.queue.done()
    await stock.at_rest()
    asked.clear()
    await stock.close()
    assert asked == ["pwrite", "fdatasync"]


async def test_a_segment_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done stays done, also where its file could not be removed."""
    stock = await Stock(tmp_path / "queue").open()
    await stock.append(record(1))

    def fail(_path: object, **_options: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        assert await stock.drain() == [1]
        await stock.append(record(2))
    assert on_disk(stock.files) == [1, 2]
    await stock.close()
    await stock.open()
    assert await stock.drain() == [2]
    await stock.close()


async def test_who_shares_a_write_shares_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a write fails all appends of it fail, and nobody waits."""
    stock = await Stock(tmp_path / "queue").open()

    def fail(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    errors = await asyncio.gather(*(stock.try_append([record(number)]) for number in range(5)))
    assert [type(error) for error in errors] == [StorageError] * 5
    assert (stock.queue.idle, segments(stock.files)) == (True, [])
    await stock.close()


async def test_a_full_disk_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes nothing is logged when it begins, and again only after it took something meanwhile."""
    stock = await Stock(tmp_path / "queue").open()
    await stock.append(*(record(number) for number in range(9)))

    def fail(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    told: list[str] = []
    monkeypatch.setattr(queue, "_log", SimpleNamespace(error=lambda event, **_: told.append(event)))
    for _ in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            for _ in range(3):
                assert await stock.try_append([record(9)]) is not None
                assert await stock.take(1) == [0]
        await stock.append(record(10))
    assert told == ["queue failed"] * 2
    await stock.close()


async def test_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that has become read-only what waits is delivered all the same."""
    stock = await Stock(tmp_path / "queue", KEEP).open()
    for number in range(9):
        await stock.append(record(number, 3000))
    assert len(segments(stock.files)) > 3

    def fail(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        for name in ("open", "write", "pwrite", "unlink", "rename", "mkdir", "ftruncate"):
            patch.setattr(os, name, fail)
        assert await stock.drain() == [*range(9)]
        assert isinstance(await stock.try_append([record(9)]), StorageError)
    await stock.close()
