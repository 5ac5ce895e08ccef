"""`whosegpu quarantine` while no proxy runs."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.cli.stock import CARD, HOUR_MS, OWNED_MS, Folder, held

UTIL = "DCGM_FI_DEV_GPU_UTIL"
OWNED_AT, LATER = OWNED_MS + 1, OWNED_MS + 200_000


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A data folder in whose quarantine samples wait, some of which are answered by now."""
    made = Folder(tmp_path)
    made.configure()
    made.own(from_ms=OWNED_MS)
    made.fill(
        {},
        [
            held(UTIL, OWNED_MS - 1, age_ms=3 * HOUR_MS),
            held(UTIL, OWNED_AT, age_ms=2 * HOUR_MS),
            held("DCGM_FI_DEV_FB_USED", LATER, age_ms=HOUR_MS, gpu="7"),
            held(UTIL, LATER, "shared_not_split"),
        ],
    )
    return made


def run(whosegpu: Command, folder: Folder, *arguments: str) -> str:
    """What a verb prints that does what it is told."""
    result = whosegpu("quarantine", *arguments, "--config", str(folder.config), width=120)
    assert (result.status, result.err) == (0, "")
    return result.out


def test_what_waits_and_why(whosegpu: Command, folder: Folder) -> None:
    """Samples by reason, then each record with its series and why it waits by now, in order of arrival."""
    assert run(whosegpu, folder, "list", "--limit", "2") == (
        "reason            samples\n"
        "shared_not_split        1  a shared device's values are not split yet\n"
        "unknown_owner           3  nobody knows yet who owned the device\n"
        "\n"
        "2025-12-31T23:49:59.999Z  unknown_owner, 1 sample from prom-a, received 3h 0m ago\n"
        f'  {UTIL}{{UUID="{CARD}"}}\n'
        f"  node gpu-node-a knows the owner of {CARD} from 2025-12-31T23:50:00.000Z on only\n"
        "\n"
        "2025-12-31T23:50:00.001Z  unknown_owner, 1 sample from prom-a, received 2h 0m ago\n"
        f'  {UTIL}{{UUID="{CARD}"}}\n'
        "  it is answered by now, and goes with the next replay\n"
        "\n"
        "there is more; --limit shows more of it, --match and --reason what you look for\n"
    )


FOUND = [
    pytest.param([], [0, 1, 2, 3], id="all"),
    pytest.param(["--reason", "shared_not_split"], [3], id="reason"),
    pytest.param(["--match", "FB_USED"], [2], id="name"),
    pytest.param(["--match", 'gpu="7"'], [2], id="label"),
    pytest.param(["--match", "UTIL", "--reason", "unknown_owner"], [0, 1], id="both"),
    pytest.param(["--match", "nothing like that"], [], id="none"),
    pytest.param(["--limit", "0"], [], id="sums-only"),
]


@pytest.mark.parametrize(("arguments", "numbers"), FOUND)
def test_records_are_found(whosegpu: Command, folder: Folder, arguments: list[str], numbers: list[int]) -> None:
    """`--reason` and `--match` choose the records; the sums are those of all."""
    times = [OWNED_MS - 1, OWNED_AT, LATER, LATER]
    names = [UTIL, UTIL, "DCGM_FI_DEV_FB_USED", UTIL]
    found = json.loads(run(whosegpu, folder, "list", *arguments, "--json"))
    assert found["samples"] == {"shared_not_split": 1, "unknown_owner": 3}
    assert [each["series"].partition("{")[0] for each in found["shown"]] == [names[number] for number in numbers]
    assert [each["at"][11:19] for each in found["shown"]] == [
        "23:49:59" if times[number] < OWNED_MS else "23:50:00" if times[number] == OWNED_AT else "23:53:20"
        for number in numbers
    ]
    assert found["more"] == (arguments == ["--limit", "0"])


def test_nothing_found_is_said(whosegpu: Command, folder: Folder) -> None:
    """A search that finds nothing is no empty screen."""
    assert run(whosegpu, folder, "list", "--match", "x y").endswith("\n\nnone of it is what you look for\n")


def test_nothing_waits(whosegpu: Command, tmp_path: Path) -> None:
    """An empty quarantine is said to be so."""
    empty = Folder(tmp_path)
    empty.configure()
    empty.own()
    empty.fill({})
    assert run(whosegpu, empty, "list") == "nothing waits in quarantine\n"
    assert run(whosegpu, empty, "replay") == "released 0 samples\n"
    assert run(whosegpu, empty, "drop", "--all", "--yes") == "dropped 0 samples\n"


def test_hostile_labels_do_not_reach_the_terminal(whosegpu: Command, folder: Folder) -> None:
    """Whatever labels and senders are called, nothing moves the cursor."""
    folder.fill({}, [held("\x1b[2J", OWNED_AT, "\x07", evil="\u202e\r\n")])
    out = run(whosegpu, folder, "list")
    assert all(line.isprintable() for line in out.split("\n"))
    assert '{"\\x1b[2J",UUID=' in out
    assert 'evil="\\u202e\\r\\n"' in out


def test_replay_without_a_proxy(whosegpu: Command, folder: Folder) -> None:
    """What the ownership files answer goes to the tenant's queue, as a replay, and the rest waits on."""
    assert run(whosegpu, folder, "replay") == (
        "released 2 samples; they are in the tenants' queues, and go out when the proxy starts\n"
        "still waiting: 1 shared_not_split, 1 unknown_owner\n"
    )
    assert folder.waiting() == {"shared_not_split": 1, "unknown_owner": 1}
    (record,) = folder.queued("ml")
    assert (record.samples, record.replay, record.attempted, record.made) == (2, True, False, 0)
    assert b"trainer-0" in record.entries
    again = json.loads(run(whosegpu, folder, "replay", "--json"))
    assert again == {
        "released": 0,
        "dropped": {},
        "waiting": {"shared_not_split": 1, "unknown_owner": 1},
        "unsettled": [],
        "running": False,
    }
    assert folder.queued("ml") == [record]


def test_replay_drops_what_is_nobodys(whosegpu: Command, folder: Folder) -> None:
    """By another configuration what waited may be filtered; that is told."""
    folder.configure(proxy={"unowned": "drop"})
    assert run(whosegpu, folder, "replay") == (
        "released 2 samples; they are in the tenants' queues, and go out when the proxy starts\n"
        "dropped 1 unowned\n"
        "still waiting: 1 shared_not_split\n"
    )


def test_replay_that_a_queue_does_not_take(whosegpu: Command, folder: Folder) -> None:
    """A tenant whose queue is full keeps its samples in quarantine, and the exit status is 1."""
    folder.configure(proxy={"delivery": {"queue_bytes": "1B", "queue_full": "refuse"}})
    result = whosegpu("quarantine", "replay", "--config", str(folder.config))
    assert (result.status, result.err) == (1, "")
    assert result.out == (
        "released 0 samples\n"
        "still waiting: 1 shared_not_split, 3 unknown_owner\n"
        "ml could not take its part, which waits on; see the proxy's log\n"
    )
    assert folder.waiting() == {"shared_not_split": 1, "unknown_owner": 3}


def test_an_ownership_file_of_no_use(whosegpu: Command, folder: Folder) -> None:
    """Without its ownership files a replay would be wrong, so there is none."""
    (folder.path / "node.json").write_text("{}", encoding="utf-8")
    result = whosegpu("quarantine", "replay", "--config", str(folder.config))
    assert (result.status, result.out) == (1, "")
    assert result.err == f"whosegpu: the ownership file {folder.path}/node.json: version: is missing\n"


DROPS = [
    pytest.param(["--reason", "shared_not_split"], "dropped 1 sample; left: 3 unknown_owner\n", id="reason"),
    pytest.param(["--older-than", "90m"], "dropped 2 samples; left: 1 shared_not_split, 1 unknown_owner\n", id="age"),
    pytest.param(
        ["--older-than", "150m", "--reason", "unknown_owner"],
        "dropped 1 sample; left: 1 shared_not_split, 2 unknown_owner\n",
        id="both",
    ),
    pytest.param(["--all"], "dropped 4 samples\n", id="all"),
    pytest.param(["--reason", "no_such"], "dropped 0 samples; left: 1 shared_not_split, 3 unknown_owner\n", id="none"),
]


@pytest.mark.parametrize(("arguments", "said"), DROPS)
def test_drop(whosegpu: Command, folder: Folder, arguments: list[str], said: str) -> None:
    """What is dropped is gone from the disk, and what is left is told."""
    assert run(whosegpu, folder, "drop", *arguments, "--yes") == said
    left = folder.waiting()
    told = said.strip().partition("left: ")[2]
    assert ", ".join(f"{count} {reason}" for reason, count in sorted(left.items())) == told


def test_drop_as_json(whosegpu: Command, folder: Folder) -> None:
    """Machines are told the same."""
    found = json.loads(run(whosegpu, folder, "drop", "--reason", "unknown_owner", "--yes", "--json"))
    assert found == {"records": 3, "samples": 3, "left": {"shared_not_split": 1}}


USAGE = [
    pytest.param([], "give --reason or --older-than, or both, or --all alone", id="nothing"),
    pytest.param(["--all", "--reason", "x"], "give --reason or --older-than, or both, or --all alone", id="all-and"),
    pytest.param(
        ["--older-than", "2 hours"],
        '--older-than: "2 hours" is no duration; write it like 5s, 500ms, 1h30m or 7d',
        id="duration",
    ),
    pytest.param(["--all"], "this cannot be undone, and nobody can be asked here; say --yes if it is meant", id="yes"),
]


@pytest.mark.parametrize(("arguments", "sentence"), USAGE)
def test_nothing_is_dropped_by_mistake(whosegpu: Command, folder: Folder, arguments: list[str], sentence: str) -> None:
    """Wrong usage is a sentence, and drops nothing."""
    result = whosegpu("quarantine", "drop", *arguments, "--config", str(folder.config))
    assert (result.status, result.out, result.err) == (2, "", f"whosegpu: {sentence}\n")
    assert sum(folder.waiting().values()) == 4
