"""From a file to settings, or to everything that is wrong with it. The only reader of the configuration file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from config.checks import faults
from config.problems import ConfigError, Place, Problem, place_text
from config.sentences import sentence
from config.settings import Settings
from config.tree import MAX_CHARACTERS, Node, compose

_LONGEST_FILE_BYTES = 4 * MAX_CHARACTERS
"""No file of MAX_CHARACTERS is longer: UTF-8 has at most four bytes for one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they stand. `line_of` is the line of a place, or of what is nearest around it."""

    settings: Settings
    source: str
    line_of: Callable[[Place], int | None]

    def problem(self, place: Place, sentence: str) -> Problem:
        """A problem that a later look at the settings has found."""
        return Problem(self.line_of(place), place_text(place), sentence, self.source)


def load(path: Path) -> Loaded:
    """The settings of a file. Raises ConfigError with every problem, also for a file that cannot be read."""
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
    return parse(text, source)


def parse(text: str, source: str) -> Loaded:
    """The settings that a text says; `source` stands before each problem. Raises ConfigError with every problem."""
    root, problems = compose(text, source)
    try:
        settings = Settings.model_validate(_or_empty(root))
    except ValidationError as e:
        errors = e.errors(include_url=False)
        raise ConfigError(
            _in_order(problems + [_problem(root, source, error["loc"], sentence(error)) for error in errors])
        ) from e
    problems += [_problem(root, source, place, text) for place, text in faults(settings)]
    if problems:
        raise ConfigError(_in_order(problems))
    return Loaded(settings, source, root.line_of)


def _or_empty(root: Node) -> object:
    plain = root.plain()
    return {} if plain is None else plain


def _problem(root: Node, source: str, place: Place, sentence: str) -> Problem:
    return Problem(root.line_of(place), place_text(place), sentence, source)


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line or 0)
