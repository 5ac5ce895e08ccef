"""Secrets come from files, never from the configuration or the environment."""

from pathlib import Path
from typing import Final

from config.problems import ConfigError, Problem

LONGEST_BYTES: Final = 16 << 10
"""More than any header that a server takes: nginx and Go stop at 8 KiB and 1 MiB for all headers together."""


def read_secret(path: Path) -> str:
    """The secret in a file, without one line break at its end.

    Raises ConfigError that names the file and never shows what is in it: unreadable, empty, too long, not text, or with
    a control character, which could end a header.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_BYTES + 1)
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _refusal(path, "is not UTF-8 text") from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise _refusal(path, f"cannot be read: {reason}") from e
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise _refusal(path, "is empty; write the secret into it")
    if len(raw) > LONGEST_BYTES:
        raise _refusal(path, f"has more than {LONGEST_BYTES} bytes, which no header can bear")
    if not secret.isprintable():
        raise _refusal(path, "has a line break or another control character inside the secret")
    return secret


def _refusal(path: Path, sentence: str) -> ConfigError:
    return ConfigError([Problem(None, "", sentence, str(path))])
