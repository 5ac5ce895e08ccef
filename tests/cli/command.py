"""Runs the command: in this process where that is enough, as a process of its own where signals and pipes matter."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import run

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests/vectors/cli"
MODULE = (sys.executable, "-m", "cli.main")


@dataclass(frozen=True)
class Result:
    """How a command ended; texts without blanks at the ends of lines."""

    status: int
    out: str
    err: str


@dataclass
class Command:
    """The command in this process, `width` columns wide."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, width: int = 80) -> Result:
        self.monkeypatch.setenv("COLUMNS", str(width))
        self.capsys.readouterr()
        status = run(arguments)
        out, err = self.capsys.readouterr()
        return Result(status, stripped(out), stripped(err))


def spawned(*arguments: str, stdin: bytes = b"") -> Result:
    """The command as a process, with an environment that could mislead it."""
    ended = subprocess.run(
        [*MODULE, *arguments], input=stdin, capture_output=True, cwd=ROOT, env=environment(), check=False
    )
    return Result(ended.returncode, stripped(ended.stdout.decode()), stripped(ended.stderr.decode()))


def environment() -> dict[str, str]:
    """The environment, 80 columns wide, with an HTTP proxy in it that nothing may use."""
    return {**os.environ, "COLUMNS": "80", "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}


def stripped(text: str) -> str:
    """Without blanks at the ends of lines, which a terminal does not show."""
    return "\n".join(line.rstrip() for line in text.split("\n"))
