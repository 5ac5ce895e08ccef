import signal
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from proxy.core.errors import StorageError
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Verdict
from proxy.core.retention import Keep
from proxy.core.walk import Place
from proxy.disk.quarantine import Quarantine

ROOT: Final = Path(__file__).parents[3]
KEEP: Final = Keep(bytes=1 << 20, age_ms=1000)
NOW_MS: Final = 1_000_000


def _record(entry: bytes, reason: str = "unknown_owner", sample_ms: int = 5) -> QuarantineRecord:
    return QuarantineRecord(NOW_MS, "prom-a", "", reason, sample_ms, 1, entry)


async def _open(folder: Path, keep: Keep = KEEP) -> Quarantine:
    return await Quarantine.open(folder, keep, lambda: NOW_MS)


async def _all(quarantine: Quarantine) -> list[tuple[Place, QuarantineRecord]]:
    found: list[tuple[Place, QuarantineRecord]] = []
    for seq in await quarantine.segments():
        found += await quarantine.load(await quarantine.places(seq, shared=True))
    return found


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def _entries(folder: Path) -> list[bytes]:
    """What the next process finds."""
    quarantine = await _open(folder)
    found = [record.entry for _, record in await _all(quarantine)]
    await quarantine.close()
    return found


def _gone(record: QuarantineRecord, *kept: QuarantineRecord, dropped: str = "") -> Verdict:
    count = 1 - sum(each.samples for each in kept)
    return Verdict(record, kept, 0 if dropped else count, ((dropped, count),) if dropped else ())


async def test_taken_out_of_the_middle(tmp_path: Path) -> None:
    """What has gone is counted at once and leaves the disk when its segment is compacted; the rest keeps its order."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"%d" % number) for number in range(5)])
    lot = await _all(quarantine)
    await quarantine.settle([(lot[1][0], _gone(lot[1][1])), (lot[3][0], _gone(lot[3][1], dropped="unowned"))])
    assert (quarantine.released, quarantine.dropped, quarantine.waiting) == (1, {"unowned": 1}, {"unknown_owner": 3})
    assert [record.entry for _, record in await _all(quarantine)] == [b"0", b"2", b"4"]
    await quarantine.compact()
    await quarantine.append([_record(b"5")])
    assert [record.entry for _, record in await _all(quarantine)] == [b"0", b"2", b"4", b"5"]
    await quarantine.close()
    assert await _entries(tmp_path) == [b"0", b"2", b"4", b"5"]


async def test_taken_out_twice(tmp_path: Path) -> None:
    """A record leaves once, whoever says so again."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"1"), _record(b"2")])
    lot = await _all(quarantine)
    effects = [await quarantine.settle([(lot[0][0], _gone(lot[0][1]))]) for _ in range(2)]
    assert (effects[1].released, quarantine.released, quarantine.waiting) == (0, 1, {"unknown_owner": 1})
    await quarantine.close()


async def test_what_is_left_of_a_record(tmp_path: Path) -> None:
    """What is left stands in the record's place, with another reason where it has one, also for the next process."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"1"), _record(b"2"), _record(b"3")])
    lot = await _all(quarantine)
    left = _record(b"\xfe left", "shared_not_split")
    await quarantine.settle([(lot[1][0], _gone(lot[1][1], left))])
    assert quarantine.waiting == {"unknown_owner": 2, "shared_not_split": 1}
    await quarantine.close()
    assert await _entries(tmp_path) == [b"1", b"\xfe left", b"3"]


async def test_a_segment_of_which_nothing_is_left(tmp_path: Path) -> None:
    """Its file goes, though it was the newest; appends go on in another one."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"1")])
    lot = await _all(quarantine)
    await quarantine.settle([(place, _gone(record)) for place, record in lot])
    await quarantine.compact()
    assert _names(tmp_path) == []
    assert await quarantine.load([place for place, _ in lot]) == []
    await quarantine.append([_record(b"2")])
    await quarantine.close()
    assert await _entries(tmp_path) == [b"2"]


async def test_shared_records_are_passed_over(tmp_path: Path) -> None:
    """Samples of shared devices are found only when asked for."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"1", "shared_not_split"), _record(b"2")])
    (seq,) = await quarantine.segments()
    assert len(await quarantine.places(seq)) == 1
    assert len(await quarantine.places(seq, shared=True)) == 2
    await quarantine.close()


async def test_merged(tmp_path: Path) -> None:
    """Small neighbours become one segment with all they hold, in order, and it is told where that lies by now."""
    for number in range(3):
        quarantine = await _open(tmp_path)
        await quarantine.append([_record(b"%d" % (2 * number)), _record(b"%d" % (2 * number + 1))])
        await quarantine.close()
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"6")])
    assert await quarantine.merge() == {2: 1, 3: 1}
    assert [record.entry for _, record in await _all(quarantine)] == [b"%d" % number for number in range(7)]
    assert (quarantine.waiting, len(_names(tmp_path))) == ({"unknown_owner": 7}, 2)
    await quarantine.close()
    assert await _entries(tmp_path) == [b"%d" % number for number in range(7)]


async def test_lost_by_the_disk(tmp_path: Path) -> None:
    """A record that rots while it waits is passed over, and counted as torn when its segment is rewritten."""
    quarantine = await _open(tmp_path)
    await quarantine.append([_record(b"1"), _record(b"spoilt"), _record(b"3")])
    lot = await _all(quarantine)
    (path,) = tmp_path.glob("*.q")  # noqa: ASYNC240 - a test's own folder
    path.write_bytes(path.read_bytes().replace(b"spoilt", b"spoilT"))
    assert [record.entry for _, record in await quarantine.load([place for place, _ in lot])] == [b"1", b"3"]
    await quarantine.settle([(lot[0][0], _gone(lot[0][1]))])
    await quarantine.compact()
    assert (quarantine.released, quarantine.dropped, quarantine.waiting) == (1, {"torn": 1}, {"unknown_owner": 1})
    assert quarantine.torn_bytes > 0
    await quarantine.close()
    (aside,) = tmp_path.glob("*.torn")  # noqa: ASYNC240 - a test's own folder
    assert b"spoilT" in aside.read_bytes()


async def test_after_the_end(tmp_path: Path) -> None:
    """What is asked of a closed quarantine is an error of ours, not of the thread that is gone."""
    quarantine = await _open(tmp_path)
    await quarantine.close()
    with pytest.raises(StorageError):
        await quarantine.segments()


async def test_a_segment_that_has_to_go_first(tmp_path: Path) -> None:
    """Records of a segment that went for its age are counted as that, and cannot be released afterwards."""
    quarantine = await Quarantine.open(tmp_path, KEEP, lambda: NOW_MS + 10 * KEEP.age_ms)
    await quarantine.append([_record(b"1"), _record(b"2")])
    lot = await _all(quarantine)
    await quarantine.settle([(lot[0][0], _gone(lot[0][1]))])
    await quarantine.trim()
    await quarantine.settle([(lot[1][0], _gone(lot[1][1]))])
    await quarantine.compact()
    assert (quarantine.released, quarantine.dropped, quarantine.waiting.total()) == (1, {"age": 1}, 0)
    await quarantine.close()


_REPLAYER: Final = """
import asyncio, sys
from pathlib import Path
from proxy import replay, replay_round
from proxy.core.books import Books
from proxy.core.record import QuarantineRecord
from proxy.core.retention import Keep
from proxy.disk.quarantine import Quarantine
from proxy.replay import Replayer
from tests.proxy.core.held import got_of, held_back
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import Series, card, fleet_of, interval, owner, util

replay.GATHER_SECONDS, replay_round.SLICE = 0.01, 20

async def deliver(parts):
    for got in got_of(parts):
        print("got", int(got.value), flush=True)
    return ()

async def main():
    quarantine = await Quarantine.open(Path(sys.argv[1]), Keep(1 << 20, 1 << 40), lambda: 0)
    fleet = fleet_of(card(interval(0, None, owner("ml"))), until=1 << 20)
    replayer = Replayer(quarantine, lambda: (tenancy_of(), fleet), deliver, Books())
    task = asyncio.create_task(replayer.run())
    number = int(sys.argv[2])
    while number < int(sys.argv[2]) + 400:
        some = [Series(util(), (at, at)) for at in range(number, number + 5)]
        await quarantine.append(held_back(tenancy_of(), *some))
        print("kept", *range(number, number + 5), flush=True)
        number += 5
        replayer.reconfigured()
    while quarantine.waiting.total():
        replayer.reconfigured()
        await asyncio.sleep(0.1)
    print("done", flush=True)
    task.cancel()
    await asyncio.wait([task])
    await quarantine.close()

asyncio.run(main())
"""


def _run(folder: Path, first: int, lines: int | None) -> list[str]:
    """What a process says that replays while it appends, until it is killed after some lines, or to its end."""
    command = [sys.executable, "-c", _REPLAYER, str(folder), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        said = list(islice(process.stdout, lines))
        process.send_signal(signal.SIGKILL if lines else 0)
        said += list(process.stdout)
    return [line for line in said if line.endswith("\n")]


def test_killed_while_it_replays(tmp_path: Path) -> None:
    """Whenever the process is killed, those that follow deliver what it said was kept, and nothing else but a rest."""
    kept: set[int] = set()
    got: Counter[int] = Counter()
    stops = [30, 90, 150, 300, None]
    for number, lines in enumerate(stops):
        for line in _run(tmp_path, 1000 * number, lines):
            what, *numbers = line.split()
            if what == "kept":
                kept.update(map(int, numbers))
            elif what == "got":
                got.update(map(int, numbers))
    assert kept <= set(got)
    assert len(set(got) - kept) <= 5 * (len(stops) - 1)
    assert max(got.values()) <= len(stops)
