"""Templates of relabel rules: `$1`, `${1}`, `$name`, `${name}` and `$$`, as Go's `regexp.Expand` reads them.

A bare name is the longest run of letters, decimal digits and underscores, so `$1x` asks for a group called "1x". A
number has no leading zero and at most nine digits; anything else is a name. An unknown group is "", and a `$` or `${`
that starts none of these stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

MAX_NUMBER_DIGITS = 9  # Go stops reading a group's number at 1e8 and takes it for a name


@dataclass(frozen=True, slots=True)
class Template:
    """A template read for one regular expression: texts, and numbers of its groups."""

    parts: tuple[str | int, ...]

    @classmethod
    def read(cls, text: str, names: Mapping[str, int], group_count: int) -> Self:
        """Reads a template; `names` are the named groups, `group_count` is without group 0. Every text is one."""
        segments = iter(text.split("$"))
        parts: list[str | int] = [next(segments)]
        for segment in segments:
            escaped = None if segment else next(segments, None)
            if escaped is not None:
                parts += ["$", escaped]
                continue
            name, length = _reference(segment)
            parts += [_group(name, names, group_count) if name else "$", segment[length:]]
        return cls(_joined(parts))

    def expand(self, groups: tuple[str, ...]) -> str:
        """The text for one match; `groups[0]` is all of it, a group that took no part is ""."""
        return "".join([part if isinstance(part, str) else groups[part] for part in self.parts])


def _reference(segment: str) -> tuple[str, int]:
    """The group's name that follows a `$`, and how many characters it takes; ("", 0) when there is none."""
    start = 1 if segment.startswith("{") else 0
    end = start
    while end < len(segment) and _is_word(segment[end]):
        end += 1
    if end == start or (start and segment[end : end + 1] != "}"):
        return "", 0
    return segment[start:end], end + start


def _is_word(character: str) -> bool:
    return character.isalpha() or character.isdecimal() or character == "_"


def _group(name: str, names: Mapping[str, int], group_count: int) -> str | int:
    """The number of a group, or "" for one that the expression does not have."""
    if not (name.isascii() and name.isdecimal()) or (name[0] == "0" and name != "0") or len(name) > MAX_NUMBER_DIGITS:
        return names.get(name, "")
    number = int(name)
    return number if number <= group_count else ""


def _joined(parts: list[str | int]) -> tuple[str | int, ...]:
    """The parts with neighbouring texts made one and empty ones left out."""
    joined: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)
