"""What a verb says when it cannot do what was asked: never a traceback for a user's mistake."""

from config.problems import ConfigError


class CommandError(Exception):
    """The text is one sentence that says what to do; `details` are lines that stand before it. Exit status 1."""

    exit_code = 1

    def __init__(self, sentence: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.details = details


class WrongUsageError(CommandError):
    """Options that do not go together. Exit status 2."""

    exit_code = 2


def unusable(error: ConfigError) -> CommandError:
    """Every problem of a configuration on a line of its own, then what to do."""
    count = len(error.problems)
    noun = "problem" if count == 1 else "problems"
    return CommandError(f"the configuration has {count} {noun}; mend it and try again", tuple(map(str, error.problems)))
