"""Secrets from files."""

from pathlib import Path

import pytest

from config.problems import ConfigError
from config.secrets import LONGEST_BYTES, read_secret


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"hush", "hush"),
        (b"hush\n", "hush"),
        (b"hush\r\n", "hush"),
        (b" hush ", " hush "),
        ("hüsch\n".encode(), "hüsch"),
        (b"x" * (LONGEST_BYTES - 1) + b"\n", "x" * (LONGEST_BYTES - 1)),
    ],
)
def test_one_line_break_at_the_end_is_not_part_of_it(tmp_path: Path, content: bytes, secret: str) -> None:
    """What `echo` wrote is the secret, spaces included."""
    path = tmp_path / "token"
    path.write_bytes(content)
    assert read_secret(path) == secret


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\r\n", "is empty"),
        (b"hush\n\n", "line break"),
        (b"hush\nX-Scope-OrgID: b", "line break"),
        (b"hu\x00sh", "control character"),
        (b"hush\xff", "is not UTF-8 text"),
        (b"x" * LONGEST_BYTES + b"\n", "bytes, which no header can bear"),
    ],
)
def test_refuses_what_is_no_secret_and_does_not_show_it(tmp_path: Path, content: bytes, why: str) -> None:
    """The error names the file, says what to mend, and keeps the secret."""
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=why) as e:
        read_secret(path)
    assert str(e.value).startswith(f"{path}: ")
    assert "hu" not in str(e.value).removeprefix(str(path))


@pytest.mark.parametrize("name", ["absent", ".", "a\x00b"])
def test_names_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    """Absent, a folder, impossible: one sentence, no traceback of somebody else's."""
    with pytest.raises(ConfigError, match="cannot be read"):
        read_secret(tmp_path / name)
