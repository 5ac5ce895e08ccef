"""Which tenants were made from data, over the lives of a process."""

from pathlib import Path

import pytest

from proxy.disk.made_tenants import MadeTenants


def test_who_was_made_is_known_in_the_next_life(tmp_path: Path) -> None:
    """What is noted is there again, once, and nobody else is."""
    made = MadeTenants(tmp_path)
    for tenant_id in ("team-a", "team-b", "team-a"):
        made.note(tenant_id)
    again = MadeTenants(tmp_path)
    assert ["team-a" in again, "team-b" in again, "team-c" in again] == [True, True, False]
    assert (tmp_path / "made_tenants").read_text().count("team-a") == 1


@pytest.mark.parametrize("damage", [b"team-b\nteam-", b"\xff\x00", b"../x\n..\n", b"a" * 200, b"team|x"])
def test_a_damaged_file_costs_nobody_else(tmp_path: Path, damage: bytes) -> None:
    """A line that a crash cut, or that is no tenant's id, swallows none that comes later."""
    (tmp_path / "made_tenants").write_bytes(damage)
    MadeTenants(tmp_path).note("team-a")
    again = MadeTenants(tmp_path)
    assert "team-a" in again
    assert not {"../x", "..", "team|x"} & {each for each in ("../x", "..", "team|x") if each in again}


def test_a_disk_that_fails_costs_the_note(tmp_path: Path) -> None:
    """Where nothing can be written a tenant is known for this life, and the proxy goes on."""
    made = MadeTenants(tmp_path / "gone")
    made.note("team-a")
    assert "team-a" in made
    assert "team-a" not in MadeTenants(tmp_path / "gone")
