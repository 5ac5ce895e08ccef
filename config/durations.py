"""Quantities as the file writes them: durations like Prometheus' (`5s`, `1h30m`), sizes (`32MiB`), parts (`1%`)."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainSerializer

_UNIT_MS: Final = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_UNIT_BYTES: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

_DIGITS: Final = r"[0-9]{1,18}"
"""A number of more digits is above every bound below; the bound here keeps its conversion cheap."""

_DURATION: Final = re.compile("".join(rf"(?:({_DIGITS}){unit})?" for unit in _UNIT_MS))
_SIZE: Final = re.compile(rf"({_DIGITS})([A-Za-z]*)")
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")

LONGEST_MS: Final = (2**63 - 1) // 1_000_000
"""Prometheus' own bound, which counts nanoseconds in 64 bits: 292 years."""

LARGEST_BYTES: Final = 2**63 - 1


def parse_duration(text: str) -> int:
    """Milliseconds of a duration in Prometheus' notation: units from large to small, each at most once; `0` needs none.

    Raises ValueError with a sentence. Source: prometheus/common, model/time.go, ParseDuration.
    """
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        message = f"{cut(text)} is no duration; write it like 5s, 500ms, 1h30m or 7d"
        raise ValueError(message)
    total = sum(int(number) * unit for number, unit in zip(match.groups(), _UNIT_MS.values(), strict=True) if number)
    if total > LONGEST_MS:
        message = f"{cut(text)} is longer than any duration can be, which is 292 years"
        raise ValueError(message)
    return total


def parse_size(text: str) -> int:
    """Bytes of a size: a whole number, alone or with B, KiB, MiB, GiB or TiB. Raises ValueError with a sentence."""
    match = _SIZE.fullmatch(text)
    unit = match and _UNIT_BYTES.get(match[2])
    if match is None or unit is None:
        message = (
            f"{cut(text)} is no size; write a whole number with KiB, MiB, GiB or TiB (powers of 1024), or plain bytes"
        )
        raise ValueError(message)
    size = int(match[1]) * unit
    if size > LARGEST_BYTES:
        message = f"{cut(text)} is more than 64 bits can count"
        raise ValueError(message)
    return size


def parse_percent(text: str) -> float:
    """The part of one that a percentage says, over 0 % and at most 100 %. Raises ValueError with a sentence."""
    match = _PERCENT.fullmatch(text)
    part = float(match[1]) / 100 if match else 0.0
    if not 0 < part <= 1:
        message = f"{cut(text)} is no part; write a percentage over 0% and up to 100%, like 1% or 0.5%"
        raise ValueError(message)
    return part


def format_duration(duration_ms: int) -> str:
    """The shortest notation that parse_duration reads as the same milliseconds, without years and weeks."""
    if duration_ms == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, duration_ms = divmod(duration_ms, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def format_size(size: int) -> str:
    """The notation with the largest unit that parse_size reads as the same bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNIT_BYTES[unit] == 0:
            return f"{size // _UNIT_BYTES[unit]}{unit}"
    return str(size)


def format_percent(part: float) -> str:
    """The notation that parse_percent reads as the same part."""
    return f"{part * 100:.9f}".rstrip("0").rstrip(".") + "%"


def cut(text: str) -> str:
    """A value in quotes for an error sentence, shortened: nobody needs all of a value to find it in the file."""
    longest = 60
    return f'"{text}"' if len(text) <= longest else f'"{text[:longest]}..."'


def _duration(given: object) -> object:
    return parse_duration(given) if isinstance(given, str) else given


def _size(given: object) -> object:
    return parse_size(given) if isinstance(given, str) else given


def _percent(given: object) -> object:
    return parse_percent(given) if isinstance(given, str) else given


Milliseconds = Annotated[
    int,
    BeforeValidator(_duration),
    Field(ge=0, le=LONGEST_MS),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
]
"""A duration; text in the file, milliseconds in the program."""

PositiveMilliseconds = Annotated[Milliseconds, Field(gt=0)]

Bytes = Annotated[
    int,
    BeforeValidator(_size),
    Field(ge=1, le=LARGEST_BYTES),
    PlainSerializer(format_size, return_type=str, when_used="json"),
]
"""A size; text in the file, bytes in the program."""

Part = Annotated[
    float,
    BeforeValidator(_percent),
    Field(gt=0, le=1),
    PlainSerializer(format_percent, return_type=str, when_used="json"),
]
"""A part of a whole; a percentage in the file, at most 1 in the program."""
