"""From a file to settings, or to everything that is wrong with it. The only reader of the configuration file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from config.broken import Broken
from config.checks import faults
from config.problems import ConfigError, Fault, Place, Problem, place_text
from config.repair import validate
from config.settings import Settings
from config.tree import MAX_CHARACTERS, compose

_LONGEST_FILE_BYTES = 4 * MAX_CHARACTERS
"""No file of MAX_CHARACTERS is longer: UTF-8 has at most four bytes for one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they stand. `line_of` is the line of a place, or of what is nearest around it."""

    settings: Settings
    source: str
    line_of: Callable[[Place], int | None]
    problems: tuple[Problem, ...]
    """Only what `examine` gives has problems; its settings are good for finding more, and never to run by."""

    broken: Broken
    """Places where the settings do not say what the file says, but something that is allowed."""

    def problem(self, place: Place, sentence: str) -> Problem:
        """A problem that a later look at the settings has found."""
        return Problem(self.line_of(place), place_text(place), sentence, self.source)

    def found(self, faults: Iterable[Fault]) -> list[Problem]:
        """The problems that a later look has found, without those that come of the broken places."""
        return [self.problem(fault.place, fault.sentence) for fault in faults if not self.broken.explains(fault)]


def load(path: Path) -> Loaded:
    """The settings of a file. Raises ConfigError with every problem, also for a file that cannot be read."""
    return _good(examine(path))


def parse(text: str, source: str) -> Loaded:
    """The settings that a text says; `source` stands before each problem. Raises ConfigError with every problem."""
    return _good(examine_text(text, source))


def examine(path: Path) -> Loaded:
    """What can be made of a file, be it good or not. Raises ConfigError where that is nothing."""
    source = str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise ConfigError([Problem(None, "", f"cannot be read: {reason}", source)]) from e
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw.count(b"\n", 0, e.start) + 1
        raise ConfigError([Problem(line, "", "is not UTF-8 text", source)]) from e
    return examine_text(text, source)


def examine_text(text: str, source: str) -> Loaded:
    """What can be made of a text, be it good or not. Raises ConfigError where that is nothing."""
    root, doubled = compose(text, source)
    validated = validate(root.plain(), (place for place, _ in doubled))
    settings = validated.settings
    loaded = Loaded(settings or Settings(), source, root.line_of, (), validated.broken)
    problems = [problem for _, problem in doubled]
    problems += [loaded.problem(error.place, error.sentence) for error in validated.errors]
    if settings is None:
        raise ConfigError(problems)
    problems += loaded.found(faults(settings))
    return replace(loaded, problems=tuple(problems))


def _good(loaded: Loaded) -> Loaded:
    if loaded.problems:
        raise ConfigError(loaded.problems)
    return loaded
