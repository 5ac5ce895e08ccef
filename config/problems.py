"""What is wrong with a configuration: every problem at once, each a sentence with its place in the file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

Place = tuple[str | int, ...]
"""Keys and list positions from the root of the file to a value, as `("tenants", 0, "id")`."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_LONGEST_KEY: Final = 40


class Fault(NamedTuple):
    """Something that is wrong with settings which are right each by itself."""

    place: Place
    """Where to mend it."""

    sentence: str
    """The end of a sentence that starts with the place."""

    reads: tuple[Place, ...] = ()
    """Places whose values, had they been others, would have made it good. While one of them is broken, nobody knows."""

    sought: str | None = None
    """The one value that would have made it good at any of these places; None where several would."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. `line` counts from 1, None where no line is meant; `where` is empty for the whole file."""

    line: int | None
    where: str
    sentence: str
    source: str = ""

    def __str__(self) -> str:
        file = ":".join(str(part) for part in (self.source, self.line) if part)
        return ": ".join(part for part in (file, self.where, self.sentence) if part)


class ConfigError(Exception):
    """The configuration cannot be used. `problems` is never empty, sorted by line; the text has a line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(map(str, self.problems)))


def place_text(place: Place) -> str:
    """A place as people write it: `tenants[0].endpoint.url`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step[:_LONGEST_KEY]!r}]"
    return text
