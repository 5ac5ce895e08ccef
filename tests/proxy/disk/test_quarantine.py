import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.core.errors import StorageError
from proxy.core.frames import RecordError, frame, scan
from proxy.core.record import QuarantineRecord
from proxy.core.retention import Keep
from proxy.disk.quarantine import Quarantine

ROOT = Path(__file__).parents[3]
KEEP = Keep(bytes=1 << 20, age_ms=1000)
CLOCK_MS = 1_000_000


def _record(
    entry: bytes, reason: str = "unknown_owner", received_ms: int = CLOCK_MS, samples: int = 1
) -> QuarantineRecord:
    return QuarantineRecord(received_ms, "prom-a", "", reason, received_ms - 5, samples, entry)


class Clock:
    def __init__(self) -> None:
        self.now_ms = CLOCK_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
async def quarantine(tmp_path: Path) -> AsyncIterator[Quarantine]:
    """An empty quarantine whose clock stands still."""
    opened = await Quarantine.open(tmp_path, KEEP, Clock())
    yield opened
    await opened.close()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _on_disk(folder: Path) -> list[QuarantineRecord]:
    payloads = [payload for path in sorted(folder.glob("*.q")) for _, payload in scan(path.read_bytes()).records]
    return [QuarantineRecord.decode(payload) for payload in payloads]


async def test_what_was_appended_is_on_the_disk(quarantine: Quarantine, tmp_path: Path) -> None:
    """When append returns, the records are in the file, in order, and counted by reason as waiting."""
    records = [_record(b"1"), _record(b"2", "unmapped_namespace", samples=3)]
    await quarantine.append(records)
    await quarantine.append([])
    assert _on_disk(tmp_path) == records
    assert quarantine.waiting == {"unknown_owner": 1, "unmapped_namespace": 3}
    assert not quarantine.recovered


async def test_recovered_after_a_restart(tmp_path: Path) -> None:
    """The next process counts what it finds, per reason, as recovered and as waiting, and goes on in a new segment."""
    first = await Quarantine.open(tmp_path, KEEP, Clock())
    await first.append([_record(b"1"), _record(b"2", "invalid_tenant", samples=2)])
    await first.close()
    second = await Quarantine.open(tmp_path, KEEP, Clock())
    assert second.recovered == second.waiting == {"unknown_owner": 1, "invalid_tenant": 2}
    await second.append([_record(b"3")])
    assert second.recovered.total() == 3
    assert [record.entry for record in _on_disk(tmp_path)] == [b"1", b"2", b"3"]
    assert len(_files(tmp_path)) == 2
    await second.close()


async def test_group_commit(quarantine: Quarantine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred appends at once cost few syncs: all that come while one runs share the next."""
    syncs: list[int] = []
    fdatasync = os.fdatasync

    def counted(fd: int) -> None:
        syncs.append(fd)
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", counted)
    async with asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(quarantine.append([_record(b"%d" % number)]))
    assert quarantine.waiting.total() == 100
    assert len(syncs) <= 2


async def test_a_caller_that_gives_up_disturbs_nobody(quarantine: Quarantine, tmp_path: Path) -> None:
    """A cancelled append neither loses its records nor holds those that wait with it."""
    given_up = asyncio.ensure_future(quarantine.append([_record(b"1")]))
    other = asyncio.ensure_future(quarantine.append([_record(b"2")]))
    await asyncio.sleep(0)
    given_up.cancel()
    await other
    assert [record.entry for record in _on_disk(tmp_path)] == [b"1", b"2"]
    assert quarantine.waiting.total() == 2


async def test_bound_in_bytes(tmp_path: Path) -> None:
    """The files never exceed the limit; the oldest go first, are counted as full, and nothing is counted twice."""
    keep = Keep(bytes=8_000, age_ms=1 << 40)
    quarantine = await Quarantine.open(tmp_path, keep, Clock())
    for number in range(200):
        await quarantine.append([_record(b"%04d" % number + bytes(96), samples=2)])
        assert _size(tmp_path) <= keep.bytes
        assert quarantine.waiting.total() + quarantine.dropped.total() == 2 * (number + 1)
    await quarantine.close()
    kept = [int(record.entry[:4]) for record in _on_disk(tmp_path)]
    assert kept == list(range(kept[0], 200))
    assert quarantine.waiting.total() == 2 * len(kept)
    assert set(quarantine.dropped) == {"full"}
    assert _size(tmp_path) >= keep.bytes * 3 // 4


async def test_one_append_beyond_all_bounds(tmp_path: Path) -> None:
    """Records that could never be kept are dropped and counted; what is there already stays."""
    quarantine = await Quarantine.open(tmp_path, Keep(bytes=1000, age_ms=1 << 40), Clock())
    await quarantine.append([_record(b"small")])
    await quarantine.append([_record(bytes(2000), samples=5)])
    await quarantine.close()
    assert (quarantine.dropped, quarantine.waiting) == ({"full": 5}, {"unknown_owner": 1})
    assert [record.entry for record in _on_disk(tmp_path)] == [b"small"]


async def test_bound_in_age(tmp_path: Path) -> None:
    """What is older than the limit goes with the next append or trim, counted as age; younger records stay."""
    clock = Clock()
    quarantine = await Quarantine.open(tmp_path, KEEP, clock)
    for _ in range(4):
        await quarantine.append([_record(b"", received_ms=clock.now_ms)])
        clock.now_ms += KEEP.segment_ms
    clock.now_ms = CLOCK_MS + KEEP.age_ms
    await quarantine.trim()
    assert (quarantine.waiting.total(), quarantine.dropped) == (4, {})
    clock.now_ms += 1
    await quarantine.trim()
    assert (quarantine.waiting.total(), quarantine.dropped) == (3, {"age": 1})
    clock.now_ms += KEEP.segment_ms
    await quarantine.append([_record(b"", received_ms=clock.now_ms)])
    assert (quarantine.waiting.total(), quarantine.dropped) == (3, {"age": 2})
    clock.now_ms += KEEP.age_ms + 1
    await quarantine.trim()
    assert (quarantine.waiting.total(), quarantine.dropped) == (0, {"age": 5})
    await quarantine.close()
    assert _files(tmp_path) == []


async def test_numbers_beyond_their_range_fail_alone(quarantine: Quarantine) -> None:
    """Records that cannot be written fail their own append only."""
    good = asyncio.ensure_future(quarantine.append([_record(b"")]))
    with pytest.raises(RecordError):
        await quarantine.append([_record(b"", samples=-1)])
    await good
    assert quarantine.waiting.total() == 1


async def test_appending_after_the_end_is_an_error(quarantine: Quarantine) -> None:
    """Nobody waits for ever on a quarantine that is closed, and closing it again does nothing."""
    await quarantine.close()
    await quarantine.close()
    with pytest.raises(StorageError):
        await quarantine.append([_record(b"")])


async def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    """A file in the folder's place is said when the quarantine is opened."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be opened"):
        await Quarantine.open(tmp_path / "file", KEEP, Clock())


async def test_damage_is_counted(tmp_path: Path) -> None:
    """Bytes that are no record are counted, and every whole record is recovered."""
    (tmp_path / f"{1:020d}.q").write_bytes(
        b"junk" + frame(_record(b"1").encode()) + frame(b"not a record") + b"\xfe\x01"
    )
    quarantine = await Quarantine.open(tmp_path, KEEP, Clock())
    assert (quarantine.recovered, quarantine.torn_bytes) == ({"unknown_owner": 1}, 6 + len(frame(b"not a record")))
    await quarantine.close()


_WRITER = """
import asyncio, sys, time
from pathlib import Path
from proxy.core.errors import StorageError
from proxy.core.record import QuarantineRecord
from proxy.core.retention import Keep
from proxy.disk.quarantine import Quarantine

async def append(quarantine, number):
    await quarantine.append([QuarantineRecord(0, "s", "", "unknown_owner", 0, 1, b"%08d" % number + bytes(500))])
    print(number, flush=True)

async def write_until_killed():
    quarantine = await Quarantine.open(Path(sys.argv[1]), Keep(1 << 30, 1 << 40), lambda: 0)
    for number in range(0, 1 << 30, 7):
        async with asyncio.TaskGroup() as group:
            for each in range(number, number + 7):
                group.create_task(append(quarantine, each))

async def fill_and_resume():
    import resource
    quarantine = await Quarantine.open(Path(sys.argv[1]), Keep(1 << 30, 1 << 40), lambda: 0)
    await append(quarantine, 0)
    for number in (1, 2):
        try:
            await quarantine.append([QuarantineRecord(0, "s", "", "unknown_owner", 0, 1, bytes(9000))])
        except StorageError as error:
            print("refused", error.status, flush=True)
    print("waiting", quarantine.waiting.total(), flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    await append(quarantine, 3)
    await quarantine.close()

asyncio.run(globals()[sys.argv[2]]())
"""


async def _recovered(folder: Path) -> int:
    quarantine = await Quarantine.open(folder, Keep(1 << 30, 1 << 40), Clock())
    await quarantine.close()
    return quarantine.recovered.total()


@pytest.mark.parametrize("acknowledged", [1, 50, 200])
def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    """A writer that is killed with -9 while it writes has every record that it said was kept on the disk, once."""
    command = [sys.executable, "-c", _WRITER, str(tmp_path), "write_until_killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout if line.endswith(b"\n")]
    recovered = asyncio.run(_recovered(tmp_path))
    kept = [int(record.entry[:8]) for record in _on_disk(tmp_path)]
    assert set(said) <= set(kept)
    assert len(kept) == len(set(kept)) == recovered


def test_full_disk(tmp_path: Path) -> None:
    """Where the disk takes no more, append fails so that the sender comes again, keeps nothing, and later works."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, tmp_path, "fill_and_resume"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 1 << 20)),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    lines = [line for line in done.stdout.splitlines() if "quarantine not written" not in line]
    assert lines == ["0", "refused 503", "refused 503", "waiting 1", "3"]
    assert [int(record.entry[:8]) for record in _on_disk(tmp_path)] == [0, 3]
