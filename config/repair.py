"""Validation that does not end at the first errors: what is broken is replaced, and the rest is looked at again."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from config.broken import Broken
from config.problems import Fault, Place
from config.sentences import could_be_meant, sentence
from config.settings import Settings
from config.tree import Plain

MAX_ROUNDS: Final = 16
"""No setting of today needs more than five; what is left after these is told without a look at the rest."""

_MOVES: Final[tuple[Plain, ...]] = (None, "stand-in", {}, "http://stand-in/", "EUR")
"""What is done to a broken value, one a round until it is good: removed, then replaced by what one of the values that a
section or a list must have can be; what a section needs in turn comes the round after."""


@dataclass(frozen=True, slots=True)
class Validated:
    """What validation has found."""

    settings: Settings | None
    """The settings, with stand-ins for what is broken and required; None where nothing could be made of the file."""

    errors: tuple[Fault, ...]
    """All that is wrong with single values."""

    broken: Broken
    """Where these stand."""


def validate(plain: Plain, doubled: Iterable[Place]) -> Validated:
    """The settings that a tree says, and what is wrong with it; changes the tree."""
    repair = _Repair({} if plain is None else plain)
    settings = None
    for _ in range(MAX_ROUNDS):
        try:
            settings = Settings.model_validate(repair.tree)
            break
        except ValidationError as e:
            repair.take(e.errors(include_url=False))
    return Validated(settings, tuple(repair.errors), Broken(repair.broken, doubled))


@dataclass(slots=True)
class _Repair:
    tree: Plain
    errors: list[Fault] = field(default_factory=list)
    broken: dict[Place, Plain] = field(default_factory=dict)
    _moves: dict[Place, Iterator[Plain]] = field(default_factory=dict)

    def take(self, errors: list[ErrorDetails]) -> None:
        """Note errors, but for those of what stands in for something, and replace what they are about."""
        for error in errors:
            if error["type"] == "extra_forbidden":
                self._misspelt(error["loc"])
        for error in errors:
            place = error["loc"]
            if not any(place[:length] in self.broken for length in range(len(place) + 1)):
                self.errors.append(Fault(place, sentence(error)))
            self._replace(place)

    def _misspelt(self, place: Place) -> None:
        """What an unknown key could have been meant as is not absent: its value is unknown."""
        *around, key = place
        section = self._at(tuple(around))
        for meant in could_be_meant(place):
            if isinstance(section, dict) and section.get(meant) is None:
                self.broken[*around, meant] = section[str(key)]

    def _replace(self, place: Place) -> None:
        """Remove a value, or put the next stand-in for it where it is required; else do so with what is around it."""
        for length in range(len(place), 0, -1):
            here = place[:length]
            self.broken.setdefault(here, self._at(here))
            for move in self._moves.setdefault(here, iter(_MOVES)):
                if _moved(self._at(here[:-1]), here[-1], move):
                    return
        self.broken.setdefault((), self.tree)
        self.tree = {}

    def _at(self, place: Place) -> Plain:
        """The value at a place of the tree as it is now; None where there is none."""
        value = self.tree
        for step in place:
            match value, step:
                case dict(), str():
                    value = value.get(step)
                case list(), int() if 0 <= step < len(value):
                    value = value[step]
                case _:
                    return None
        return value


def _moved(holder: Plain, step: str | int, move: Plain) -> bool:
    """Whether a value could be removed from its section (None), or replaced in its section or list."""
    match holder, step:
        case dict(), str() if move is None:
            written = step in holder
            holder.pop(step, None)
            return written
        case dict(), str():
            holder[step] = copy(move)
            return True
        case list(), int() if move is not None and 0 <= step < len(holder):
            holder[step] = copy(move)
            return True
    return False
