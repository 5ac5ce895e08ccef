"""Any text or bytes: settings, or our error with lines that exist."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.load import parse
from config.problems import ConfigError
from config.settings import Settings
from config.tree import compose

INTERFACE = Path(__file__).parent.parent / "vectors" / "config" / "interface.yaml"


@pytest.mark.fuzz
@given(st.binary(max_size=400))
def test_any_bytes_are_settings_or_our_error(raw: bytes) -> None:
    """Any bytes: settings, or ConfigError with at least one problem."""
    _settings_or_our_error(raw.decode("utf-8", errors="surrogateescape"))


_VOCABULARY = """
proxy tenants dynamic_tenants ownership labeler signer limits listen id endpoint url headers regex modulus namespaces
view embedded senders basic_auth focus prices files null ~ yes 5s 32MiB a|b http://x/y *a &a !t << : - ? | > ' " # % @
9999999999999999999999999 .5 0x1f 1e999 nan -1 0 2026-01-01 [ ] { } , --- ...
"""
_WORDS = st.sampled_from(_VOCABULARY.split())


@pytest.mark.fuzz
@given(st.lists(st.tuples(_WORDS, st.sampled_from(["", " ", ": ", "\n", "\n  ", "\n    - ", ", "])), max_size=40))
def test_any_yaml_like_text_is_settings_or_our_error(words: list[tuple[str, str]]) -> None:
    """Text made of the words of configuration files: settings, or ConfigError with at least one problem."""
    _settings_or_our_error("".join(word + space for word, space in words))


@pytest.mark.fuzz
@given(st.data())
def test_a_damaged_file_is_settings_or_our_error(data: st.DataObject) -> None:
    """A real file with a piece cut out, doubled or replaced: settings, or ConfigError with lines that exist."""
    text = INTERFACE.read_text()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 200)))
    piece = data.draw(st.one_of(st.just(""), st.just(text[start:stop] * 2), st.text(max_size=5)))
    _settings_or_our_error(text[:start] + piece + text[stop:])


def _settings_or_our_error(text: str) -> None:
    try:
        settings = parse(text, "f.yaml").settings
        root, doubled = compose(text, "f.yaml")
        assert settings == Settings.model_validate(root.plain() or {}), "what was let in needed a repair"
        assert not doubled
    except ConfigError as e:
        assert e.problems
        lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029")
        assert all(problem.line is None or 1 <= problem.line <= lines + 1 for problem in e.problems)
        assert all(problem.sentence for problem in e.problems)
