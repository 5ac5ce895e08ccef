"""What holds for every verb: help, usage, errors, exit status."""

import os
import subprocess
import sys

import pytest

from cli.main import app
from cli.quarantine_verbs import app as quarantine_app
from cli.queue_verbs import app as queue_app
from tests.cli.command import MODULE, ROOT, Command, environment, spawned

VERBS = ("proxy", "check-config", "explain", "demo")
GROUPS = {"queue": ("list", "inspect", "drop"), "quarantine": ("list", "replay", "drop")}
COMMANDS = [(verb,) for verb in VERBS] + [(group, verb) for group, verbs in GROUPS.items() for verb in verbs]


@pytest.mark.parametrize(("path", "verbs"), [((), (*VERBS, *GROUPS)), *(((group,), GROUPS[group]) for group in GROUPS)])
def test_verbs_that_exist_are_listed(whosegpu: Command, path: tuple[str, ...], verbs: tuple[str, ...]) -> None:
    """`--help` names each verb with a sentence that is not cut, and no other."""
    result = whosegpu(*path, "--help")
    assert result.status == 0
    listed = result.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(verbs)
    assert all(line.endswith(".") and "..." not in line for line in listed)


def test_no_verb_is_hidden() -> None:
    """Those are all that there are."""
    groups = {group.info.name: group for group in (queue_app, quarantine_app)}
    assert [group.typer_instance for group in app.registered_groups] == list(groups.values())
    assert [len(group.registered_commands) for group in (app, *groups.values())] == [
        len(VERBS),
        *(len(GROUPS[str(name)]) for name in groups),
    ]


@pytest.mark.parametrize("path", [*COMMANDS, *((group,) for group in GROUPS)], ids=" ".join)
def test_help_has_an_example(whosegpu: Command, path: tuple[str, ...]) -> None:
    """`--help` of a verb shows a command line that one could type."""
    result = whosegpu(*path, "--help")
    assert result.status == 0
    assert f"whosegpu {' '.join(path)}" in result.out.partition("Example")[2]


WRONG_USAGE = [
    pytest.param(["explian"], "No such command 'explian'. Did you mean 'explain'", "whosegpu", id="verb"),
    pytest.param(
        ["demo", "--fro", "1"], "No such option: --fro (Possible options: --for)", "whosegpu demo", id="option"
    ),
    pytest.param(["explain"], "Missing argument 'SERIES'", "whosegpu explain", id="missing-argument"),
    pytest.param(["proxy"], "Missing option '--config'", "whosegpu proxy", id="missing-option"),
    pytest.param(
        ["proxy", "--config", "x", "--log-format", "xml"],
        "Invalid value for '--log-format': 'xml' is not one of 'auto', 'json', 'console'",
        "whosegpu proxy",
        id="no-such-format",
    ),
    pytest.param(
        ["demo", "--for", "0"],
        "Invalid value for '--for': Input should be greater than or equal to 1",
        "whosegpu demo",
        id="out-of-range",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence", "command"), WRONG_USAGE)
def test_wrong_usage_is_one_sentence(whosegpu: Command, arguments: list[str], sentence: str, command: str) -> None:
    """Wrong usage exits 2 with one line on stderr that says where help is."""
    result = whosegpu(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err == f"whosegpu: {sentence}; see {command} --help\n"


def test_no_verb_is_wrong_usage(whosegpu: Command) -> None:
    """Without a verb the help is shown on stderr, and the exit status is that of wrong usage."""
    result = whosegpu()
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Usage: whosegpu")


def test_control_characters_do_not_reach_the_terminal(whosegpu: Command) -> None:
    """What a user typed comes back in an error without the power to move the cursor."""
    result = whosegpu("check-config", "\x1b[2J\u202e")
    assert result.status == 1
    assert "\x1b" not in result.err
    assert "\\x1b[2J\\u202e: cannot be read" in result.err


def test_proxy_tells_every_problem(whosegpu: Command) -> None:
    """A configuration that cannot be used ends `proxy` before it listens, with each problem on a line."""
    result = whosegpu("proxy", "--config", "/nowhere/x.yaml")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "/nowhere/x.yaml: cannot be read: No such file or directory\n"
        "whosegpu: the configuration has 1 problem; mend it and try again\n"
    )


def test_help_loads_no_service() -> None:
    """`--help` answers at once: nothing that a verb needs is imported for it."""
    program = (
        "import sys; from cli.main import run; run(['--help']);"
        "print([name for name in ('rich', 'pydantic', 'fastapi', 'google', 'asyncio', 'yaml') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=ROOT, check=True)
    assert ended.stdout.decode().splitlines()[-1] == "[]"


def test_version_or_how_to_get_one(whosegpu: Command) -> None:
    """`--version` prints the installed version; a source tree that is not installed has none, and says so."""
    result = whosegpu("--version")
    said = (result.status, result.out or result.err)
    assert said in {
        (0, "whosegpu 0.1.0\n"),
        (1, "whosegpu: runs from a source tree that is not installed; `make dev` installs it\n"),
    }


def test_a_closed_pipe_is_no_traceback() -> None:
    """A reader that goes away, as `head` does, ends the command without a word."""
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [*MODULE, "check-config", "config/examples/small.yaml"],
            stdout=write,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            check=False,
        )
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_poor_terminal_is_no_traceback() -> None:
    """Characters that stdout cannot write are replaced."""
    series = 'up{job="Größe"}'
    ended = subprocess.run(
        [*MODULE, "explain", "--config", "config/examples/small.yaml", series],
        capture_output=True,
        cwd=ROOT,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert b'up{job="Gr??e"}' in ended.stdout


def test_the_module_is_the_command() -> None:
    """`python -m cli.main` is the command itself."""
    assert spawned("demo", "--port", "70000").status == 2
