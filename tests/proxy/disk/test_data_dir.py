"""The data folder: one process at a time, and no more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.core.errors import StorageError
from proxy.disk.data_dir import DataDir
from proxy.service import Proxy
from tests.e2e.proxy import ROOT
from tests.proxy.running import config_of, running

EMBEDDED = [{"id": "all", "endpoint": {"embedded": True}}]
HOLDER = "import sys, pathlib; from proxy.disk.data_dir import DataDir; d = DataDir.take(pathlib.Path(sys.argv[1])); \
print('held', flush=True); sys.stdin.read()"


async def test_a_second_proxy_is_refused(tmp_path: Path) -> None:
    """Each of two proxies would move aside, as torn, what the other has acknowledged: the second does not start."""
    async with running(tmp_path, config_of(tmp_path, EMBEDDED)) as first:
        with pytest.raises(StorageError, match="another process uses it"):
            await Proxy.start(first.config_file)
    async with running(tmp_path, config_of(tmp_path, EMBEDDED)) as again:
        assert again.proxy.not_ready == ""


def test_the_folder_is_free_when_its_process_was_killed(tmp_path: Path) -> None:
    """The lock is the process', so that a killed one keeps nobody out; a lock file that lies there means nothing."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageError):
            DataDir.take(tmp_path)
        holder.kill()
        holder.wait()
        DataDir.take(tmp_path).release()


async def test_a_start_that_fails_gives_the_folder_back(tmp_path: Path) -> None:
    """A quarantine that cannot be opened leaves the folder unlocked."""
    config = config_of(tmp_path, EMBEDDED)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "quarantine").write_text("a file")
    with pytest.raises(StorageError):
        async with running(tmp_path, config):
            pass
    DataDir.take(tmp_path / "data").release()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file in the way is an error of storage, with the path."""
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StorageError, match="data"):
        DataDir.take(tmp_path / "data")
