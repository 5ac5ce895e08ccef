import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.core.errors import StorageError
from proxy.disk.queues import Queues
from proxy.disk.terms import Terms
from tests.proxy.disk.queueing import KEEP, Stock, record


@pytest.fixture
async def stock(tmp_path: Path) -> AsyncIterator[Stock]:
    """Queues without anything in them."""
    opened = await Stock(tmp_path / "data" / "queue").open()
    yield opened
    await opened.close()


async def test_each_tenant_has_its_own(stock: Stock) -> None:
    """A queue is the folder with its tenant's id, for its owner only, and is the same however often it is asked for."""
    await stock.append(record(1))
    assert stock.queues.queue("team-a") is stock.queue
    assert stock.queues.queue("team-b").idle
    assert dict(stock.queues.all()) == {"team-a": stock.queue, "team-b": stock.queues.queue("team-b")}
    assert [path.name for path in stock.folder.iterdir()] == ["team-a"]
    assert stock.files.stat().st_mode & 0o777 == 0o700


async def test_all_folders_are_recovered(stock: Stock) -> None:
    """After a restart each folder is a queue again, whoever is configured, and told with its samples."""
    for tenant, count in (("team-a", 1), ("gone", 2), ("empty", 1)):
        queue = stock.queues.queue(tenant)
        ended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        queue.append([record(number) for number in range(count)], ended.set_result)
        assert await ended is None
    await stock.queues.queue("empty").drop()
    await stock.close()
    await stock.open()
    assert stock.queues.recovered() == {"team-a": 1, "gone": 2}
    assert [*stock.queues.all()] == ["empty", "gone", "team-a"]
    assert stock.queues.all()["gone"].records == 2
    await stock.append(record(9))
    assert stock.queues.recovered()["team-a"] == 1


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_what_is_no_queue_is_left_alone(tmp_path: Path) -> None:
    """Files, and folders with names that no tenant has, stay as they are and are nobody's queue."""
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "team-a").write_text("no folder")
    (tmp_path / "a b").mkdir()
    (tmp_path / "__mimir_cluster").mkdir()
    (tmp_path / ("x" * 151)).mkdir()
    (tmp_path / "a b" / f"{1:020d}.wal").write_bytes(b"x")
    names = _names(tmp_path)
    stock = await Stock(tmp_path).open()
    assert dict(stock.queues.all()) == {}
    await stock.close()
    assert _names(tmp_path) == names


@pytest.mark.parametrize("tenant", ["", ".", "..", "../up", "a/b", "a\0b", "__mimir_cluster", "x" * 151])
async def test_names_that_are_no_folder(stock: Stock, tenant: str) -> None:
    """No tenant id leads out of the folder."""
    with pytest.raises(StorageError):
        stock.queues.queue(tenant)


@pytest.mark.parametrize("place", ["queue", "queue/team-a/cursor", f"queue/team-a/{1:020d}.wal"])
async def test_what_cannot_be_opened(tmp_path: Path, place: str) -> None:
    """A folder that cannot be used is said at the start, with its path; a cursor is not needed."""
    at = tmp_path / place
    at.parent.mkdir(parents=True, exist_ok=True)
    if place == "queue":
        at.touch()
    else:
        at.mkdir()
    if place.endswith("cursor"):
        stock = await Stock(tmp_path / "queue").open()
        await stock.close()
    else:
        with pytest.raises(StorageError, match=str(at)):
            await Stock(tmp_path / "queue").open()


async def test_threads_are_there_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the threads cannot be started the queues do not open; later none is started that could fail."""
    start, count = threading.Thread.start, 0

    def fail(thread: threading.Thread) -> None:
        nonlocal count
        count += 1
        if count > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(StorageError, match="can't start new thread"):
            await Stock(tmp_path / "queue").open()
    stock = await Stock(tmp_path / "queue").open()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        for tenant in range(20):
            stock.queues.queue(f"tenant-{tenant}").append([record(1)], lambda _: None)
        await stock.append(record(1))
    await stock.close()


async def test_trimming_goes_on(stock: Stock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue whose disk fails keeps what it has, and the others are trimmed all the same."""
    for tenant in ("team-a", "team-b"):
        ended: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        stock.queues.queue(tenant).append([record(1)], ended.set_result)
        assert await ended is None
    stock.now_ms += KEEP.age_ms + 1
    unlink = Path.unlink

    def fail(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent.name == "team-a":
            raise OSError(5, "Input/output error", str(path))
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        await stock.queues.trim()
    assert (stock.queue.samples, stock.queues.queue("team-b").samples) == (1, 0)
    await stock.queues.trim()
    assert (stock.queue.samples, stock.dropped) == (0, {"queue_age": 2})


async def test_closing(stock: Stock) -> None:
    """Whoever closes waits until all that was appended is durable, also the second; nothing is taken afterwards."""
    ended: list[StorageError | None] = []
    for tenant in range(20):
        stock.queues.queue(f"tenant-{tenant}").append([record(1)], ended.append)
    await asyncio.gather(stock.close(), stock.close())
    assert ended == [None] * 20
    late = stock.queues.queue("late")
    late.append([record(1)], ended.append)
    await asyncio.sleep(0)
    assert type(ended[-1]) is StorageError


async def test_closing_is_not_given_up(stock: Stock) -> None:
    """Who gives up waiting for the end does not keep it from coming."""
    ended: list[StorageError | None] = []
    stock.queue.append([record(1)], ended.append)
    closing = asyncio.ensure_future(stock.close())
    await asyncio.sleep(0)
    closing.cancel()
    await stock.close()
    assert ended == [None]


def test_terms() -> None:
    """What is too old follows from the clock and the bound, whatever they have become."""
    terms = Terms(KEEP, lambda: 5000)
    assert terms.oldest_ms == 5000 - KEEP.age_ms


async def test_open_by_hand(tmp_path: Path) -> None:
    """Opening makes nothing on the disk."""
    queues = await Queues.open(tmp_path / "queue", KEEP, lambda: 0, lambda _tenant, _reason, _samples: None)
    await queues.close()
    assert _names(tmp_path) == []
