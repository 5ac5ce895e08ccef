"""Disks that are full when a test says so, without any privilege.

`limited` lets the process write no byte to any file (RLIMIT_FSIZE; EFBIG, or a part of what was to be written), and
works everywhere. `small` is a file system of a few megabytes in a user and mount namespace of its own, filled to the
last byte (ENOSPC), where the kernel lets anybody make one.
"""

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.faults.scene import Scene
from tests.peers.processes import Process, Program

_SMALL: Final = "4m"
_PIECE: Final = b"\0" * 4096
_LEFT_BYTES: Final = 37
"""What a limited file may still have: less than any record, so that writes are torn."""


class Disk(Protocol):
    """The disk that a scene's proxy has its data on."""

    def fill(self) -> None:
        """No room is left from now on."""

    def free(self) -> None:
        """There is room again."""


class _Limited:
    def __init__(self, scene: Scene) -> None:
        self._process = scene.proxy.process

    def fill(self) -> None:
        self._limit(_LEFT_BYTES)

    def free(self) -> None:
        if self._process.alive:  # the next life has no limit
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


class _Small:
    def __init__(self, filler: Path) -> None:
        self._filler = filler

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(_PIECE):
                pass

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def limited(scene: Scene) -> Iterator[Disk]:
    """See the module; for a scene whose proxy has not started. Its log goes through a pipe, which is no file."""
    _wrap(scene, ["bash", "-c", 'exec "$@" > >(exec cat) 2>&1', "bash"])
    yield _Limited(scene)


@contextmanager
def small(scene: Scene) -> Iterator[Disk]:
    """See the module; for a scene whose proxy has not started."""
    folder = scene.proxy.data_dir
    folder.mkdir(parents=True)
    mount = f"mount -t tmpfs -o size={_SMALL} whosegpu '{folder}' && echo mounted && exec cat"
    with _holding(mount) as pid:
        _wrap(scene, ["nsenter", "--target", str(pid), "--user", "--mount", "--preserve-credentials", "--"])
        yield _Small(Path(f"/proc/{pid}/root{folder}/filler"))


@contextmanager
def _holding(script: str) -> Iterator[int]:
    """A process that holds new namespaces until the block ends; raises OSError where there can be none."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            if holder.stdout.readline() != b"mounted\n":
                raise OSError("no file system of one's own here")
            yield holder.pid
        finally:
            holder.stdin.close()


def _wrap(scene: Scene, before: list[str]) -> None:
    """Start the proxy's process by another command, which becomes it."""
    program = scene.proxy.process.program
    scene.proxy.process = Process(Program([*before, *program.command], program.log, program.ready, program.env))


def _can_mount() -> bool:
    try:
        with _holding("mount -t tmpfs whosegpu /mnt && echo mounted && exec cat"):
            return True
    except OSError:
        return False


DISKS: Final = (limited, small) if _can_mount() else (limited,)
