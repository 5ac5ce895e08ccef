"""Writes that are on the disk when the call returns.

What each function asks of the kernel, in this order:

- `replace`: open of a new file beside the target, write until all is taken, fsync, rename over the target, fsync of
  the folder. A reader, and whoever starts after a crash, sees the old bytes or the new ones, never a mixture.
- `create`: open with O_CREAT|O_EXCL|O_APPEND, fsync of the folder. The name is there after a crash.
- `append`: write until all is taken, fdatasync (which carries the file's size).
- `cut`: ftruncate, fsync.
- `remove`: unlink, fsync of the folder.
- `make_folder`: mkdir of each folder that is missing, fsync of each folder that one was made in.
- `overwrite`: open with O_CREAT, one pwrite at the start, and fdatasync only where asked for.

Every function raises OSError. An fsync that failed must not be repeated on the same file and then believed: the kernel
may have dropped the pages and forgotten about it (Rebello et al., "Can Applications Recover from fsync Failures?").
Files are readable by their owner only: they hold tenants' samples.
"""

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import Final

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def replace(path: Path, data: bytes) -> None:
    """The file's bytes become `data`, at once and for good."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def create(path: Path) -> int:
    """A new empty file, open for appending. Raises FileExistsError where there is one."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE)
    try:
        sync_folder(path.parent)
    except BaseException:
        os.close(fd)
        path.unlink(missing_ok=True)
        raise
    return fd


def append(fd: int, data: bytes) -> None:
    """The bytes stand at the end of the file; after an error any part of them may."""
    _write_all(fd, data)
    os.fdatasync(fd)


def cut(path: Path, size: int) -> None:
    """The file ends after `size` bytes."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """The file is gone; not an error where it never was."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """The folder is there; not an error where it was already."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    path.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    try:
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):  # so that the next attempt makes it durable, and does not find it here
            path.rmdir()
        raise


def overwrite(path: Path, data: bytes, *, sync: bool) -> None:
    """The file begins with `data`, for other processes at once, and after a crash of the machine if `sync`.

    For data that always has the same length, and that tells by itself whether it is whole.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        if os.pwrite(fd, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if sync:
            os.fdatasync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """What was created, renamed or removed in the folder stays so."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
