"""`whosegpu queue` while no proxy runs."""

import json
import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cli import data_folder
from proxy.disk.data_dir import DataDir
from tests.cli.command import MODULE, ROOT, Command, environment, spawned
from tests.cli.stock import HOUR_MS, Folder, queued


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A data folder with queues of two tenants, one of which is configured no more."""
    made = Folder(tmp_path)
    made.configure()
    made.fill(
        {
            "ml": [queued(f"m{number}", age_ms=(50 - number) * HOUR_MS // 2, series=4 + number) for number in range(4)],
            "gone": [queued("old", age_ms=HOUR_MS)],
        }
    )
    return made


def test_a_table_of_all_queues(whosegpu: Command, folder: Folder) -> None:
    """Each queue with what it holds, how old that is, and why it waits; a removed tenant's is shown as such."""
    result = whosegpu("queue", "list", "--config", str(folder.config))
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "tenant  samples  records   size  oldest  state\n"
        f"gone          1        1  {size(folder, 'gone')}   1h 0m  kept: no such tenant\n"
        f"ml           22        4  {size(folder, 'ml')}   1d 1h  waits: no proxy runs\n"
    )


def size(folder: Folder, tenant: str) -> str:
    """The bytes of a queue's segments, as they are shown."""
    files = (folder.data_dir / "queue" / tenant).glob("*.wal")
    return f"{sum(path.stat().st_size for path in files)} B".rjust(5)


def test_queues_as_json(whosegpu: Command, folder: Folder) -> None:
    """`--json` has the same for machines, with exact numbers."""
    found = json.loads(whosegpu("queue", "list", "--json", "--config", str(folder.config)).out)["queues"]
    assert [each["tenant"] for each in found] == ["gone", "ml"]
    assert [each["state"] for each in found] == ["not_configured", "stopped"]
    assert (found[1]["samples"], found[1]["records"], found[1]["torn_bytes"], found[1]["why"]) == (22, 4, 0, "")
    assert found[1]["age_seconds"] == pytest.approx(25 * 3600, abs=60)
    assert found[1]["oldest"].endswith("Z")


def test_no_queue_at_all(whosegpu: Command, tmp_path: Path) -> None:
    """Where nothing is queued, that is said."""
    empty = Folder(tmp_path)
    empty.configure()
    empty.fill({"ml": []})
    result = whosegpu("queue", "list", "--config", str(empty.config))
    assert (result.status, result.out, result.err) == (0, "nothing is queued\n", "")


def test_damage_is_shown(whosegpu: Command, folder: Folder) -> None:
    """Bytes that are no record have a column of their own, and stand in the way of nothing."""
    path = next((folder.data_dir / "queue" / "ml").glob("*.wal"))
    path.write_bytes(path.read_bytes() + b"x" * 100)
    result = whosegpu("queue", "list", "--config", str(folder.config))
    lines = result.out.splitlines()
    assert lines[0].split() == ["tenant", "samples", "records", "size", "oldest", "damaged", "state"]
    assert [re.split("  +", line)[-2:] for line in lines[1:]] == [
        ["0 B", "kept: no such tenant"],
        ["100 B", "waits: no proxy runs"],
    ]
    assert result.err == ""


def test_records_from_the_oldest_on(whosegpu: Command, folder: Folder) -> None:
    """The first records are shown, each with its age, its samples, and some of its series."""
    result = whosegpu("queue", "inspect", "ml", "--limit", "2", "--config", str(folder.config))
    assert (result.status, result.err) == (0, "")
    heading, first, second = result.out.split("\n\n")
    assert heading == "ml: 4 records with 22 samples; the first 2:"
    assert first.partition("Z, ")[2] == (
        "1d 1h ago: 4 samples, 196 B, remote write 1.0\n"
        '  m0{number="0"}\n  m0{number="1"}\n  m0{number="2"}\n  and so on, 4 entries in all'
    )
    assert "1d 0h ago: 5 samples" in second


def test_what_records_are(whosegpu: Command, folder: Folder) -> None:
    """Pair, attempts, replays and what we made ourselves are told."""
    records = [
        queued("a", pair=("c1", "r1"), attempted=True, made=1, exemplars=2),
        queued("b", replay=True, version="2.0"),
    ]
    folder.fill({"nlp": records})
    out = whosegpu("queue", "inspect", "nlp", "--config", str(folder.config)).out
    assert "1 sample, 1 of them made here, 2 exemplars, " in out
    assert "\n  cluster c1, replica r1, sent already, with an unknown end\n" in out
    assert "remote write 2.0\n  from the quarantine\n" in out
    found = json.loads(whosegpu("queue", "inspect", "nlp", "--json", "--config", str(folder.config)).out)
    assert (found["tenant"], found["records"], found["samples"]) == ("nlp", 2, 2)
    assert [(each["cluster"], each["attempted"], each["replay"], each["version"]) for each in found["shown"]] == [
        ("c1", True, False, "1.0"),
        ("", False, True, "2.0"),
    ]
    assert [each["series"] for each in found["shown"]] == [['a{number="0"}'], ['b{number="0"}']]


def test_hostile_labels_do_not_reach_the_terminal(whosegpu: Command, folder: Folder) -> None:
    """Whatever senders called their series, replicas and clusters, nothing moves the cursor."""
    folder.fill({"nlp": [queued("\x1b[2J\u202e", pair=("\x07", "a\r\nb"))]})
    result = whosegpu("queue", "inspect", "nlp", "--config", str(folder.config))
    assert all(line.isprintable() for line in result.out.split("\n"))
    assert '{"\\x1b[2J\\u202e",number="0"}' in result.out
    assert "cluster \\x07, replica a\\r\\nb" in result.out


def test_entries_that_are_none(whosegpu: Command, folder: Folder) -> None:
    """A record whose entries cannot be read is shown as that."""
    folder.fill({"nlp": [replace(queued("x"), entries=b"\x0a\x02\xff\xff\xff")]})
    result = whosegpu("queue", "inspect", "nlp", "--config", str(folder.config))
    assert result.out.splitlines()[-2:] == ["  (not readable)", "  and so on, 2 entries in all"]


DROPS = [
    pytest.param(["--oldest", "1"], "dropped 1 record with 4 samples of ml; 3 records with 18 samples left\n", 3),
    pytest.param(["--oldest", "3"], "dropped 3 records with 15 samples of ml; 1 record with 7 samples left\n", 1),
    pytest.param(["--oldest", "9"], "dropped 4 records with 22 samples of ml\n", 0),
    pytest.param(["--all"], "dropped 4 records with 22 samples of ml\n", 0),
]


@pytest.mark.parametrize(("arguments", "said", "left"), DROPS)
def test_drop_begins_with_the_oldest(
    whosegpu: Command, folder: Folder, arguments: list[str], said: str, left: int
) -> None:
    """What is dropped is gone from the disk, told with its samples, and the rest is what came last."""
    before = folder.queued("ml")
    result = whosegpu("queue", "drop", "ml", *arguments, "--yes", "--config", str(folder.config))
    assert (result.status, result.out, result.err) == (0, said, "")
    assert folder.queued("ml") == before[len(before) - left :]
    assert len(folder.queued("gone")) == 1


def test_drop_as_json(whosegpu: Command, folder: Folder) -> None:
    """A removed tenant's queue can be dropped, and what was dropped is told to machines too."""
    result = whosegpu("queue", "drop", "gone", "--all", "--yes", "--json", "--config", str(folder.config))
    assert json.loads(result.out) == {
        "tenant": "gone",
        "records": 1,
        "samples": 1,
        "left_records": 0,
        "left_samples": 0,
    }
    assert folder.queued("gone") == []


def test_nothing_is_dropped_unasked(whosegpu: Command, folder: Folder) -> None:
    """Where nobody can be asked, `--yes` is needed."""
    result = whosegpu("queue", "drop", "ml", "--all", "--config", str(folder.config))
    said = "whosegpu: this cannot be undone, and nobody can be asked here; say --yes if it is meant\n"
    assert (result.status, result.out, result.err) == (2, "", said)
    assert len(folder.queued("ml")) == 4


ANSWERS = [
    pytest.param(b"y\n", 0, "dropped 2 records with 9 samples of ml; 2 records with 13 samples left\n", 2, id="yes"),
    pytest.param(b"n\n", 1, "", 4, id="no"),
    pytest.param(b"\n", 1, "", 4, id="enter"),
    pytest.param(b"\x04", 1, "", 4, id="end-of-input"),
    pytest.param(b"yesterday\n", 1, "", 4, id="something-else"),
]


@pytest.mark.parametrize(("answer", "status", "out", "left"), ANSWERS)
def test_who_drops_on_a_terminal_is_asked(folder: Folder, answer: bytes, status: int, out: str, left: int) -> None:
    """The question says how much it is; only a yes drops it."""
    arguments = ["queue", "drop", "ml", "--oldest", "2", "--config", str(folder.config)]
    ended, shown = on_a_terminal(arguments, answer)
    assert "Drop the oldest 2 of 4 records with 22 samples of ml, for good? [y/N]:" in shown
    assert (ended.returncode, ended.stdout.decode()) == (status, out)
    assert ("whosegpu: nothing was dropped" in shown) == bool(status)
    assert len(folder.queued("ml")) == left


def on_a_terminal(arguments: list[str], typed: bytes) -> tuple[subprocess.CompletedProcess[bytes], str]:
    """The command with a terminal for stdin and stderr, at which this is typed; how it ended, and what it showed."""
    master, slave = pty.openpty()
    try:
        os.write(master, typed)
        ended = subprocess.run(
            [*MODULE, *arguments],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            cwd=ROOT,
            env=environment(),
            check=False,
            start_new_session=True,
        )
        return ended, os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
        os.close(slave)


USAGE = [
    pytest.param([], id="neither"),
    pytest.param(["--all", "--oldest", "3"], id="both"),
]


@pytest.mark.parametrize("arguments", USAGE)
def test_how_much_has_to_be_said(whosegpu: Command, folder: Folder, arguments: list[str]) -> None:
    """`drop` wants to be told how much, once."""
    result = whosegpu("queue", "drop", "ml", *arguments, "--config", str(folder.config))
    assert (result.status, result.err) == (2, "whosegpu: give --oldest N, or --all; one of them\n")


@pytest.mark.parametrize("verb", [["inspect"], ["drop", "--all", "--yes"]], ids=["inspect", "drop"])
def test_a_tenant_without_a_queue(whosegpu: Command, folder: Folder, verb: list[str]) -> None:
    """A name that was mistyped, or could be a path, is a sentence, and makes no folder."""
    before = sorted((folder.data_dir / "queue").iterdir())
    result = whosegpu("queue", verb[0], "../ml", *verb[1:], "--config", str(folder.config))
    said = "whosegpu: nothing is queued for '../ml'; `whosegpu queue list` shows for whom there is\n"
    assert (result.status, result.out, result.err) == (1, "", said)
    assert sorted((folder.data_dir / "queue").iterdir()) == before


def test_no_data_folder(whosegpu: Command, tmp_path: Path) -> None:
    """A folder that is not there is not made."""
    nowhere = Folder(tmp_path)
    nowhere.configure()
    result = whosegpu("queue", "list", "--config", str(nowhere.config))
    said = (
        f"whosegpu: there is no data folder {tmp_path}/data; check proxy.data_dir, "
        "which goes by the folder that the proxy was started in\n"
    )
    assert (result.status, result.out, result.err) == (1, "", said)
    assert not nowhere.data_dir.exists()


def test_a_folder_of_something_else(whosegpu: Command, tmp_path: Path) -> None:
    """A folder that no proxy has used is left as it is."""
    other = Folder(tmp_path)
    other.configure()
    other.data_dir.mkdir()
    result = whosegpu("queue", "list", "--config", str(other.config))
    said = f"whosegpu: {tmp_path}/data is no data folder of a proxy that has ever run; check proxy.data_dir\n"
    assert (result.status, result.out, result.err) == (1, "", said)
    assert list(other.data_dir.iterdir()) == []


def test_another_user(whosegpu: Command, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not the proxy's user would leave files that the proxy cannot read; root too."""
    monkeypatch.setattr(os, "geteuid", lambda: (folder.data_dir / "lock").stat().st_uid + 1)
    result = whosegpu("queue", "list", "--config", str(folder.config))
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"whosegpu: {folder.data_dir} belongs to the proxy's user, ")


def test_a_bad_configuration(whosegpu: Command, folder: Folder) -> None:
    """Its problems are told, with their lines."""
    folder.config.write_text("proxy: {listn: x}\n", encoding="utf-8")
    result = whosegpu("queue", "list", "--config", str(folder.config))
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"{folder.config}:1: proxy.listn: is no setting")


def test_somebody_else_has_the_folder(whosegpu: Command, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not given back, by one who takes no orders, is a sentence after a while."""
    monkeypatch.setattr(data_folder, "TURN_SECONDS", 0.2)
    other = DataDir.take(folder.data_dir)
    try:
        result = whosegpu("queue", "list", "--config", str(folder.config))
    finally:
        other.release()
    said = (
        f"whosegpu: another process has {folder.data_dir} and takes no orders: a proxy that starts or stops, "
        "or a command like this one; try again\n"
    )
    assert (result.status, result.out, result.err) == (1, "", said)


def test_commands_take_turns(folder: Folder) -> None:
    """Two commands at once both get their answer, one after the other."""
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: spawned("queue", "list", "--config", str(folder.config)), range(2)))
    assert [result.status for result in results] == [0, 0]
    assert results[0] == results[1]
