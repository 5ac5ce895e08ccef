"""What is installed, and what must never be beside it."""

import re
import tomllib
from pathlib import Path

import pytest

import proto

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
NOT_INSTALLED = {"build", "deploy", "dist", "docs", "tests"}


def test_every_package_is_listed() -> None:
    """A folder with an `__init__.py` is in the wheel: nothing finds packages by itself in a flat layout."""
    found = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for init in ROOT.glob("[a-z]*/**/__init__.py")
        if init.relative_to(ROOT).parts[0] not in NOT_INSTALLED
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_top_level_package_is_under_contract() -> None:
    """The import contracts see every package that is installed."""
    top_level = {package.partition(".")[0] for package in PROJECT["tool"]["setuptools"]["packages"]}
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == top_level


def test_runtime_requirements_are_the_declared_ones() -> None:
    """The lock file that `make run` installs and the package's own metadata name the same dependencies."""
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == PROJECT["project"]["dependencies"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locks_have_hashes_and_nothing_that_takes_our_names(lock: Path) -> None:
    """Everything is pinned with a hash, no index is named, and no distribution installs a package of ours over it."""
    text = lock.read_text()
    names = re.findall(r"^([a-z0-9-]+)==[^ ]+ \\$", text, re.MULTILINE)
    ours = set(PROJECT["tool"]["importlinter"]["root_packages"]) | {"labeler", "signer", "deploy", "proto-plus"}
    assert len(names) == len(re.findall(r"^\S.*==", text, re.MULTILINE)) > 0
    assert not ours & set(names)
    assert not re.search(r"^\s*--(extra-)?(index-url|find-links|trusted-host)|://", text, re.MULTILINE)


def test_proto_is_ours() -> None:
    """proto-plus has the same import name."""
    assert Path(proto.__file__).parent == ROOT / "proto"
