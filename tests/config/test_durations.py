"""Durations, sizes and percentages, in the notation of the file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.durations import (
    LARGEST_BYTES,
    LONGEST_MS,
    format_duration,
    format_percent,
    format_size,
    parse_duration,
    parse_percent,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0", 0),
        ("0s", 0),
        ("500ms", 500),
        ("5s", 5_000),
        ("1m", 60_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("1y", 31_536_000_000),
        ("1y1w1d1h1m1s1ms", 31_536_000_000 + 604_800_000 + 86_400_000 + 3_600_000 + 60_000 + 1_000 + 1),
        ("007s", 7_000),
        ("9223372036854ms", LONGEST_MS),
    ],
)
def test_reads_durations_as_prometheus_does(text: str, duration_ms: int) -> None:
    """Each of Prometheus' units, alone and together."""
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "5 s",
        "1.5h",
        "-5s",
        "+5s",
        "5S",
        "1m1h",
        "1s1s",
        "5us",
        "5min",
        "5s\n",
        "\u0665s",
        "9223372036855ms",
        "293y",
        "9" * 19 + "y",
    ],
)
def test_refuses_what_prometheus_refuses_as_a_duration(text: str) -> None:
    """Missing and wrong units, wrong order, signs, fractions, and what 64 bits of nanoseconds cannot count."""
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("512B", 512),
        ("1KiB", 1024),
        ("32MiB", 32 << 20),
        ("1GiB", 1 << 30),
        ("2TiB", 2 << 40),
        ("922337203685477580", 922337203685477580),
    ],
)
def test_reads_sizes(text: str, size: int) -> None:
    """Powers of 1024, or plain bytes."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5GiB", "10KB", "10MB", "10kib", "10 MiB", "-1", "8388608TiB", "9" * 19])
def test_refuses_sizes_that_could_mean_two_things(text: str) -> None:
    """A unit that some read as 1000 and some as 1024, fractions, signs, and what 64 bits cannot count."""
    with pytest.raises(ValueError, match=r"size|64 bits"):
        parse_size(text)


@pytest.mark.parametrize(("text", "part"), [("1%", 0.01), ("0.5%", 0.005), ("100%", 1.0), ("12.5%", 0.125)])
def test_reads_percentages(text: str, part: float) -> None:
    """A percentage is a part of one."""
    assert parse_percent(text) == part


@pytest.mark.parametrize("text", ["", "1", "0.01", "0%", "0.0%", "101%", "100.1%", "-1%", "1 %", "nan%", "1e1%"])
def test_refuses_other_parts(text: str) -> None:
    """A plain number could be a part or a percentage; nothing and more than all are no step."""
    with pytest.raises(ValueError, match="is no part"):
        parse_percent(text)


@given(st.integers(0, LONGEST_MS))
def test_durations_come_back(duration_ms: int) -> None:
    """What is shown of a duration says the same duration."""
    assert parse_duration(format_duration(duration_ms)) == duration_ms


@given(st.one_of(st.integers(1, 2**59), st.integers(1, 1 << 20).map(lambda count: count << 30)))
def test_sizes_come_back(size: int) -> None:
    """What is shown of a size says the same size."""
    assert size <= LARGEST_BYTES
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 100_000).map(lambda thousandths: thousandths / 100_000))
def test_percentages_come_back(part: float) -> None:
    """What is shown of a part says the same part."""
    assert parse_percent(format_percent(part)) == pytest.approx(part, rel=1e-12)


@pytest.mark.fuzz
@given(st.text(max_size=60))
def test_any_text_is_a_quantity_or_value_error(text: str) -> None:
    """Any text: a quantity within its bounds, or ValueError with a short sentence."""
    for parse, largest in ((parse_duration, LONGEST_MS), (parse_size, LARGEST_BYTES), (parse_percent, 1)):
        try:
            assert 0 <= parse(text) <= largest
        except ValueError as e:
            assert len(str(e)) < 250
