"""A queue in a process of its own, which is killed, or which may write no more."""

import asyncio
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.proxy.disk.queueing import Stock, on_disk

ROOT: Final = Path(__file__).parents[3]

_WRITER: Final = """
import asyncio, sys
from pathlib import Path
from tests.proxy.disk.queueing import Stock, record

async def append(stock, number):
    await stock.append(record(number, 300))
    print("kept", number, flush=True)

async def write_until_killed():
    stock = await Stock(Path(sys.argv[1])).open()
    for number in range(0, 1 << 30, 5):
        async with asyncio.TaskGroup() as group:
            for each in range(number, number + 5):
                group.create_task(append(stock, each))
        if number % 3 == 0:
            for each in await stock.take(3):
                print("done", each, flush=True)
            stock.queue.done()

async def fill_and_resume():
    import resource
    stock = await Stock(Path(sys.argv[1])).open()
    await append(stock, 0)
    for number in (1, 2):
        error = await stock.try_append([record(number, 9000)])
        print("refused", error.status, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    await append(stock, 3)
    await stock.close()

asyncio.run(globals()[sys.argv[2]]())
"""


def _numbers(lines: list[str], said: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(said)]


async def _delivered(folder: Path) -> list[int]:
    stock = await Stock(folder).open()
    delivered = await stock.drain()
    await stock.close()
    return delivered


@pytest.mark.parametrize("acknowledged", [1, 40, 200])
def test_killed_writer(tmp_path: Path, acknowledged: int) -> None:
    """A process that is killed with -9 while it appends and works off has lost nothing that it said was kept."""
    command = [sys.executable, "-c", _WRITER, str(tmp_path), "write_until_killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as writer:
        assert writer.stdout is not None
        lines: list[str] = []
        while len(_numbers(lines, "kept")) < acknowledged:
            line = writer.stdout.readline()
            assert line, "the writer has ended"
            lines.append(line)
        writer.send_signal(signal.SIGKILL)
        lines += [line for line in writer.stdout if line.endswith("\n")]
    delivered = asyncio.run(_delivered(tmp_path))
    assert delivered == sorted(set(delivered))
    done = _numbers(lines, "done")
    assert set(_numbers(lines, "kept")) <= {*delivered, *done}
    assert len(set(delivered) & set(done)) <= 3  # what was done in the last moment


def test_full_disk(tmp_path: Path) -> None:
    """Where the disk takes no more an append fails so that the sender comes again, keeps nothing, and later works."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, tmp_path, "fill_and_resume"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 1 << 20)),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    lines = [line for line in done.stdout.splitlines() if "queue failed" not in line]
    assert lines == ["kept 0", "refused 503", "refused 503", "kept 3"]
    assert on_disk(tmp_path / "team-a") == [0, 3]
