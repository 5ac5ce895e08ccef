import pytest

from tests.cli.command import Command


@pytest.fixture
def whosegpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, in this process."""
    return Command(capsys, monkeypatch)
