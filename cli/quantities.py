"""Numbers as people read them."""

from typing import Final

_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def age(seconds: float) -> str:
    """A time in its two largest units, as `2d 3h` or `45s`."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, name in _AGES:
        count, left = divmod(left, unit)
        if count or (parts and len(parts) < 2):  # noqa: PLR2004 - two units
            parts.append(f"{count}{name}")
    return " ".join(parts[:2]) or "0s"


def size(count: float) -> str:
    """Bytes in the largest unit of which there is one, as `12.1 MiB`."""
    unit = 0
    while count >= _STEP and unit + 1 < len(_SIZES):
        count /= _STEP
        unit += 1
    return f"{count:.1f} {_SIZES[unit]}" if unit else f"{count:.0f} B"


def many(count: int, noun: str) -> str:
    """A count of things, as `1 record` or `1,200 samples`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
