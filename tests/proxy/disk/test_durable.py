import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.disk import durable


def test_replace(tmp_path: Path) -> None:
    """The target holds the new bytes, is readable by its owner only, and nothing else is left in the folder."""
    target = tmp_path / "file"
    durable.replace(target, b"old")
    durable.replace(target, b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_failed_replace_leaves_the_old_bytes(tmp_path: Path) -> None:
    """When the new bytes cannot be put in place, the target is as it was and no temporary file stays."""
    target = tmp_path / "file"
    target.mkdir()
    with pytest.raises(IsADirectoryError):
        durable.replace(target, b"new")
    assert list(tmp_path.iterdir()) == [target]


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    """A file that exists is never opened for appending by accident."""
    os.close(durable.create(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        durable.create(tmp_path / "file")


def test_append_and_cut(tmp_path: Path) -> None:
    """Bytes are added at the end, also after a cut."""
    path = tmp_path / "file"
    fd = durable.create(path)
    durable.append(fd, b"one")
    durable.append(fd, b"two")
    durable.cut(path, 4)
    durable.append(fd, b"!")
    os.close(fd)
    assert path.read_bytes() == b"onet!"


def test_remove_is_repeatable(tmp_path: Path) -> None:
    """A file that is gone already is no error."""
    durable.replace(tmp_path / "file", b"")
    durable.remove(tmp_path / "file")
    durable.remove(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder that is missing is made for its owner only, and stays: the one it is in is synced."""
    synced: list[Path] = []
    sync_folder = durable.sync_folder

    def noted(folder: Path) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(durable, "sync_folder", noted)
    durable.make_folder(tmp_path / "a" / "b")
    durable.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_may_not_stay_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder around it cannot be synced a new one is not left behind, for another attempt to believe in."""

    def fail(folder: Path) -> None:
        raise OSError(errno.EIO, "broken", str(folder))

    monkeypatch.setattr(durable, "sync_folder", fail)
    with pytest.raises(OSError, match="broken"):
        durable.make_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    """What is no folder is an error."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        durable.make_folder(tmp_path / "file")


@pytest.mark.parametrize("sync", [False, True])
def test_overwrite(tmp_path: Path, *, sync: bool) -> None:
    """The file is made where it is missing, for its owner only, and its bytes are written over."""
    path = tmp_path / "file"
    durable.overwrite(path, b"old", sync=sync)
    durable.overwrite(path, b"new", sync=sync)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


_PARTIAL_WRITER = """
import os, sys
from pathlib import Path
from proxy.disk import durable
fd = durable.create(Path(sys.argv[1]))
try:
    durable.append(fd, bytes(10_000))
except OSError as error:
    print(error.errno)
"""


def test_partial_write_is_an_error(tmp_path: Path) -> None:
    """Where the disk takes only the first part of the bytes, the append fails instead of returning."""
    done = subprocess.run(
        [sys.executable, "-c", _PARTIAL_WRITER, tmp_path / "file"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == errno.EFBIG
    assert (tmp_path / "file").stat().st_size == 4096
