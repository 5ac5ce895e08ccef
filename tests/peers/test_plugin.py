import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.build import FOLDER, PEERS

TESTS = """
import pytest
def test_plain(): pass
@pytest.mark.peer("prometheus")
def test_one(): raise AssertionError
@pytest.mark.peer("prometheus", "cortex")
@pytest.mark.parametrize("n", [1, 2])
def test_both(n): raise AssertionError
"""


def run(folder: Path, file: str = "test_it.py", **environ: str) -> subprocess.CompletedProcess[str]:
    """A pytest run of TESTS with the plugin, and only the peers that the folder holds."""
    (folder / "test_it.py").write_text(TESTS, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "WHOSEGPU_PEERS"}
    env |= {"XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(FOLDER.parents[1]), **environ}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.peers.plugin", "-p", "no:cacheprovider", file]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_missing_peers_are_named_in_the_last_lines(tmp_path: Path) -> None:
    """Tests of missing peers do not run, the run passes, and its last lines say what did not run and what brings it."""
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 3 deselected" in done.stdout
    assert done.stdout.splitlines()[-3:] == [
        "Not run: 2 tests with a real cortex, prometheus, not built here.",
        "Not run: 1 test with a real prometheus, not built here.",
        "`make peers` brings them (it needs Go; about a quarter of an hour the first time).",
    ]


def test_required_peers_fail_where_they_are_missing(tmp_path: Path) -> None:
    """With WHOSEGPU_PEERS=required a test of a missing peer fails and says why."""
    done = run(tmp_path, WHOSEGPU_PEERS="required")
    assert done.returncode == 1
    assert "1 passed, 3 errors" in done.stdout
    assert "not built: cortex, prometheus; `make peers` brings them" in done.stdout


@pytest.mark.parametrize("environ", [{}, {"WHOSEGPU_PEERS": "required"}], ids=["here", "required"])
def test_peers_that_are_there_are_used(tmp_path: Path, environ: dict[str, str]) -> None:
    """Where the programs are, marked tests run (these fail by their own assertion) and nothing is said below them."""
    folder = tmp_path / "whosegpu" / "peers"
    folder.mkdir(parents=True)
    for peer in PEERS:
        (folder / f"{peer.program}-{peer.version}").touch()
    done = run(tmp_path, **environ)
    assert "3 failed, 1 passed" in done.stdout
    assert "Not run" not in done.stdout


@pytest.mark.parametrize("required", ["", "required"])
def test_a_name_that_is_no_peer_is_an_error(tmp_path: Path, required: str) -> None:
    """A misspelt peer in a marker stops the run instead of taking the test out for ever."""
    (tmp_path / "test_typo.py").write_text(
        'import pytest\n@pytest.mark.peer("promethius")\ndef test_it(): pass\n', encoding="utf-8"
    )
    done = run(tmp_path, "test_typo.py", WHOSEGPU_PEERS=required)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_typo.py::test_it: there is no peer 'promethius'" in done.stdout + done.stderr
