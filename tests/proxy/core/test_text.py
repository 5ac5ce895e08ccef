import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import TextFormatError
from proxy.core.text import MAX_LINE_CHARACTERS, MAX_TIMESTAMP_MS, parse_line


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("up", {"__name__": "up"}),
        ("up{}", {"__name__": "up"}),
        ("a:b_1", {"__name__": "a:b_1"}),
        ('up{job="x"}', {"__name__": "up", "job": "x"}),
        ('up{job="x",}', {"__name__": "up", "job": "x"}),
        ('\t up { job = "x" , a="y" , } ', {"__name__": "up", "job": "x", "a": "y"}),
        ('up{b="2",a="1"}\r\n', {"__name__": "up", "a": "1", "b": "2"}),
        ('{__name__="up"}', {"__name__": "up"}),
        ('{"my.name"}', {"__name__": "my.name"}),
        ('{"my.name",a="1"}', {"__name__": "my.name", "a": "1"}),
        ('{a="1","my.name"}', {"__name__": "my.name", "a": "1"}),
        ('up{"x.y"="1","é"="2"}', {"__name__": "up", "x.y": "1", "é": "2"}),
        (r'up{a="\"\\\n"}', {"__name__": "up", "a": '"\\\n'}),
        (r'up{"\"\n"="x"}', {"__name__": "up", '"\n': "x"}),
        ('up{a="}"}', {"__name__": "up", "a": "}"}),
        ('up{a="#,= \t"}', {"__name__": "up", "a": "#,= \t"}),
        ('up{a=""}', {"__name__": "up"}),
        ("{}", {}),
        ("{ }", {}),
    ],
)
def test_labels(line: str, labels: dict[str, str]) -> None:
    """A line without a value names a series."""
    sample = parse_line(line)
    assert dict(sample.labels.pairs) == labels
    assert (sample.value, sample.at_ms) == (None, None)


@pytest.mark.parametrize(
    ("text", "value", "at_ms"),
    [
        (" 1", 1.0, None),
        ("\t-1.5e3 ", -1500.0, None),
        (" .5", 0.5, None),
        (" 5.", 5.0, None),
        (" +1E-2", 0.01, None),
        (" -0", -0.0, None),
        (" Inf", math.inf, None),
        (" +inf", math.inf, None),
        (" -Infinity", -math.inf, None),
        (" 1 1700000000000", 1.0, 1_700_000_000_000),
        (" 1  -1", 1.0, -1),
        (" 1 +0", 1.0, 0),
        (f" 1 {MAX_TIMESTAMP_MS}", 1.0, MAX_TIMESTAMP_MS),
        (f" 1 -{MAX_TIMESTAMP_MS + 1}", 1.0, -MAX_TIMESTAMP_MS - 1),
    ],
)
@pytest.mark.parametrize("series", ["up", 'up{a="1"}', '{"my.name"}'])
def test_value_and_time(series: str, text: str, value: float, at_ms: int | None) -> None:
    """A value may follow the series, and a time in milliseconds may follow the value."""
    sample = parse_line(series + text)
    assert repr(sample.value) == repr(value)
    assert sample.at_ms == at_ms


def test_nan() -> None:
    """A value may be NaN, which is no number to compare."""
    value = parse_line("up NaN").value
    assert value is not None
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("# HELP up", 1),
        ("1up", 1),
        ("é", 1),
        ("up{", 4),
        ("up{,}", 4),
        ('up{a="1",,}', 10),
        ("up{a}", 5),
        ("up{a=}", 6),
        ("up{a=1}", 6),
        ('up{a:b="1"}', 5),
        ('up{a="1" b="2"}', 10),
        ('up{a="1"', 9),
        ('up{a="1', 8),
        ('up{a="1\n"}', 8),
        (r'up{a="\t"}', 7),
        ('up{a="\\', 7),
        ('up{a="1"}}', 10),
        ('up{""="1"}', 6),
        ('{""}', 4),
        ('up{a="1",a="2"}', 16),
        ('up{"my.name"}', 14),
        ('up{__name__="up"}', 18),
        ('{"a","b"}', 10),
        ("up 1x", 4),
        ("up 1_0", 4),
        ("up 0x1p3", 4),
        ("up \u0661", 4),
        ("up +NaN", 4),
        ("up nan1", 4),
        ("up 1e999", 4),
        ("up --1", 4),
        ("up 1 1.5", 6),
        ("up 1 x", 6),
        ("up 1 \u0661", 6),
        (f"up 1 {MAX_TIMESTAMP_MS + 1}", 6),
        ("up 1 " + "9" * 10_000, 6),
        ("up 1 2 3", 8),
        ('up 1 2 # {trace_id="x"} 1', 8),
        ("up\n1", 3),
        ("up 1\nup 2", 4),
    ],
)
def test_not_a_series(line: str, column: int) -> None:
    """What is wrong is said in one line, with the column where reading stopped."""
    with pytest.raises(TextFormatError) as caught:
        parse_line(line)
    assert str(caught.value).endswith(f", column {column}")
    assert "\n" not in str(caught.value)


def test_bounds() -> None:
    """A line of the greatest length is read, one more character is too long, and a surrogate is no text."""
    longest = "a" * MAX_LINE_CHARACTERS
    assert parse_line(longest).labels.get("__name__") == longest
    for line in (longest + "a", 'up{a="\ud800"}'):
        with pytest.raises(TextFormatError):
            parse_line(line)


FRAGMENTS = st.sampled_from(["up", "{", "}", '"', "a", "=", ",", '"x"', "\\", "n", " ", "1", "-", "é", "\n", '""', ":"])


@pytest.mark.fuzz
@given(st.text(st.characters(), max_size=40) | st.lists(FRAGMENTS, max_size=16).map("".join))
def test_any_text_is_a_series_or_our_error(line: str) -> None:
    """Whatever a line says, it is a series or raises `TextFormatError`, and a series prints and reads back."""
    try:
        sample = parse_line(line)
    except TextFormatError:
        return
    assert parse_line(str(sample.labels)).labels == sample.labels
