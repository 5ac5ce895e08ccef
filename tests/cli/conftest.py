import logging
from collections.abc import Iterator

import pytest
import structlog

from tests.cli.command import Command


@pytest.fixture
def whosegpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The command, in this process; how a verb sets up logging, to the stderr of this test, is taken back."""
    handlers, level = list(logging.root.handlers), logging.root.level
    yield Command(capsys, monkeypatch)
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
