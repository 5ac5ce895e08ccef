"""The log: what it must not do to those who write it, and to a terminal that shows it."""

import io
import logging
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest
import structlog

from proxy.logs import LogFormat, set_up


class FullDisk(io.StringIO):
    """A stream that takes nothing."""

    def write(self, _text: str, /) -> int:
        raise OSError(28, "No space left on device")


class GoneReader(io.StringIO):
    """A stream whose reader has gone; buffered, so that only flushing tells."""

    def flush(self) -> None:
        raise BrokenPipeError(32, "Broken pipe")


def closed() -> TextIO:
    """A stream that was closed."""
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    before, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    yield
    structlog.configure(**before)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("stream", [FullDisk(), GoneReader(), closed()], ids=["full", "gone", "closed"])
def test_a_log_that_cannot_be_written_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, stream: TextIO, log_format: LogFormat
) -> None:
    """While the log's disk is full, or its reader gone, whoever logs goes on, and so do libraries."""
    monkeypatch.setattr(sys, "stderr", stream)
    set_up(log_format)
    structlog.get_logger().warning("upstream in trouble", tenant="team-ml")
    logging.getLogger("uvicorn.error").warning("said by a library")  # noqa: TID251 - a library does


def test_a_console_shows_foreign_text_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store says can neither move the cursor nor begin a line that looks like one of ours."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up("console")
    structlog.get_logger().warning("upstream in trouble", said="bad\n2026", more="well\x1b[2J")
    shown = stream.getvalue()
    assert shown.count("\n") == 1
    assert "\x1b[2J" not in shown
    assert r"bad\n2026" in shown
    assert r"well\x1b[2J" in shown
