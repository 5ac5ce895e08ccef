"""From a file to settings, or to what is wrong with the file."""

from pathlib import Path

import pytest

from config.load import load, parse
from config.problems import ConfigError
from config.settings import Settings


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "{}", "~", "proxy:\ntenants:\nsigner: null\n", "proxy: {listen: , limits: }"]
)
def test_empty_is_the_default(text: str) -> None:
    """What is left empty, from a value to the whole file, is its default."""
    assert parse(text, "f.yaml").settings == Settings()


def test_reads_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    """An editor's byte order mark is no part of the first key."""
    path = tmp_path / "whosegpu.yaml"
    path.write_bytes(b"\xef\xbb\xbfproxy: {workers: 1}\n")
    assert load(path).source == str(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("absent", None, ": cannot be read: No such file or directory", id="absent"),
        pytest.param(".", None, ": cannot be read: Is a directory", id="folder"),
        pytest.param("f", b"a: b\nc: \xff\n", ":2: is not UTF-8 text", id="latin-1"),
        pytest.param("f", b"\xff\xfea\x00:\x00", ":1: is not UTF-8 text", id="utf-16"),
        pytest.param("f", b"\x00" * 10, ": is no YAML: character 0 is one that no YAML file can have", id="zeros"),
    ],
)
def test_names_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
    """A file that is no text, or none at all, is one problem with the file's name."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as e:
        load(path)
    assert str(e.value) == f"{path}{problem}"


def test_a_path_with_a_zero_byte_is_a_problem() -> None:
    """Not even an impossible path gets anything but our own error out."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\x00b"))


def test_input_stays_out_of_tracebacks() -> None:
    """A header's value is nowhere in the error, its causes included: it can be a secret all the same."""
    text = 'tenants: [{id: "a|b", endpoint: {url: http://s/p, headers: {X-Token: hush, X-Bad: "hu\\nsh"}}}]'
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    error: BaseException | None = e.value
    assert len(e.value.problems) == 2
    while error is not None:
        assert "hush" not in str(error)
        assert "hu\\nsh" not in str(error)
        error = error.__cause__ or error.__context__
