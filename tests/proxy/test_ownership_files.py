"""Ownership files that are no files: what stands in their place must not stop the looking."""

import asyncio
import os
from pathlib import Path

import pytest

from ownership import Changes, Fleet
from proxy.ownership_files import OwnershipFiles
from tests.e2e import fleet


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "a link to itself"])
async def test_what_is_no_file_is_refused_and_looked_past(tmp_path: Path, kind: str) -> None:
    """The next file is read all the same, and so is a good one that takes the place of what was none."""
    odd = tmp_path / "odd.json"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to("/dev/zero" if kind == "device" else odd)
    good = fleet.write(tmp_path / "good.json", "node-a", [fleet.device(fleet.BARE[0])])
    changes: list[Changes] = []
    files = OwnershipFiles([odd, good], Fleet(30_000, 3_600_000), changes.append)
    async with asyncio.timeout(5):
        await files.read_changed()
    assert [each.node for each in changes] == ["node-a"]
    if kind == "folder":
        odd.rmdir()
    else:
        odd.unlink()
    fleet.write(odd, "node-b", [fleet.device(fleet.BARE[1])])
    await files.read_changed()
    assert [each.node for each in changes] == ["node-a", "node-b"]
