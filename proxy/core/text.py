r"""One series in text form, as a person types it: `name{label="value"} [value [timestamp]]`.

The grammar is that of the Prometheus text exposition format 0.0.4 with names in UTF-8 (`{"my.name", "a.b"="c"}`).
Escapes in quotes are `\\`, `\"` and `\n`; the timestamp is in milliseconds. Unlike there, name and value may be
missing. What `LabelSet` prints reads back as the same set.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from proxy.core.errors import LabelError, TextFormatError
from proxy.core.labels import METRIC_NAME, LabelSet, is_utf8, quoted

MAX_LINE_CHARACTERS = 1024 * 1024  # far above what the default limits let a series have
MAX_TIMESTAMP_MS = 2**63 - 1  # int64 on the wire

_BLANKS = re.compile(r"[ \t]*")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_UNESCAPED = re.compile(r'[^"\\\n]*')
_TOKEN = re.compile(r"[^ \t]+")
_FINITE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_TIMESTAMP = re.compile(r"[+-]?[0-9]{1,19}")
_ESCAPED: Mapping[str, str] = {"\\": "\\", '"': '"', "n": "\n"}


@dataclass(frozen=True, slots=True)
class TextSample:
    """A series, and the value and time (milliseconds) if the line has them."""

    labels: LabelSet
    value: float | None
    at_ms: int | None


def parse_line(line: str) -> TextSample:
    """Reads one line; raises `TextFormatError`, one sentence that ends with the column (from 1)."""
    if len(line) > MAX_LINE_CHARACTERS:
        raise TextFormatError(f"the line is longer than {MAX_LINE_CHARACTERS} characters")
    if not is_utf8(line):
        raise TextFormatError("the line is not UTF-8")
    cursor = _Cursor(line.rstrip("\r\n"))
    labels = _labels(cursor)
    value = _value(cursor)
    at_ms = None if value is None else _timestamp(cursor)
    if not cursor.at_end():
        raise cursor.error("unexpected text after the sample")
    return TextSample(labels, value, at_ms)


class _Cursor:
    """A line and how far it is read; blanks before a token are skipped."""

    __slots__ = ("_at", "_line")

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def error(self, what: str) -> TextFormatError:
        return TextFormatError(f"{what}, column {self._at + 1}")

    def at_end(self) -> bool:
        self.take(_BLANKS)
        return self._at == len(self._line)

    def take(self, pattern: re.Pattern[str]) -> str:
        """Reads what matches here, "" for nothing; does not skip blanks."""
        found = self.look(pattern)
        self._at += len(found)
        return found

    def look(self, pattern: re.Pattern[str]) -> str:
        """What `take` would read."""
        match = pattern.match(self._line, self._at)
        return match[0] if match else ""

    def take_token(self, pattern: re.Pattern[str]) -> str:
        self.take(_BLANKS)
        return self.take(pattern)

    def take_sign(self, sign: str) -> bool:
        """Whether the next character after blanks is this one, which is then read."""
        self.take(_BLANKS)
        if not self._line.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def take_quoted(self) -> str | None:
        """The text in quotes that starts here, None when there is no quote."""
        if not self.take_sign('"'):
            return None
        pieces = [self.take(_UNESCAPED)]
        while self._line.startswith("\\", self._at):
            escaped = self._line[self._at + 1 : self._at + 2]
            if escaped not in _ESCAPED:
                raise self.error(r"expected \\, \" or \n")
            self._at += 2
            pieces += [_ESCAPED[escaped], self.take(_UNESCAPED)]
        if not self._line.startswith('"', self._at):
            raise self.error("expected a closing quote")
        self._at += 1
        return "".join(pieces)


def _labels(cursor: _Cursor) -> LabelSet:
    name = cursor.take_token(_NAME)
    pairs = [(METRIC_NAME, name)] if name else []
    if cursor.take_sign("{"):
        pairs += _pairs(cursor)
    elif not name:
        raise cursor.error("expected a metric name or {")
    try:
        return LabelSet.of(pairs)
    except LabelError as error:
        raise cursor.error(f"{error} in the labels that end here") from error


def _pairs(cursor: _Cursor) -> list[tuple[str, str]]:
    """The labels up to the closing brace; a comma may follow the last."""
    pairs: list[tuple[str, str]] = []
    while not cursor.take_sign("}"):
        pairs.append(_pair(cursor))
        if cursor.take_sign(","):
            continue
        if not cursor.take_sign("}"):
            raise cursor.error("expected a comma or }")
        break
    return pairs


def _pair(cursor: _Cursor) -> tuple[str, str]:
    """One label, or a metric name in quotes."""
    in_quotes = cursor.take_quoted()
    name = cursor.take_token(_LABEL_NAME) if in_quotes is None else in_quotes
    if not name:
        raise cursor.error("expected a label name" if in_quotes is None else "the name in quotes before this is empty")
    if not cursor.take_sign("="):
        if in_quotes is None:
            raise cursor.error(f"expected = after the label name {name}")
        return METRIC_NAME, name
    value = cursor.take_quoted()
    if value is None:
        raise cursor.error(f"expected a value in quotes for the label {quoted(name)}")
    return name, value


def _value(cursor: _Cursor) -> float | None:
    if cursor.at_end():
        return None
    token = cursor.look(_TOKEN)
    special = _SPECIAL.fullmatch(token) is not None
    if not special and (not _FINITE.fullmatch(token) or math.isinf(float(token))):
        raise cursor.error("expected a value, a number of 64 bits")
    return float(cursor.take(_TOKEN))


def _timestamp(cursor: _Cursor) -> int | None:
    if cursor.at_end():
        return None
    token = cursor.look(_TOKEN)
    if not _TIMESTAMP.fullmatch(token) or not -MAX_TIMESTAMP_MS - 1 <= int(token) <= MAX_TIMESTAMP_MS:
        raise cursor.error("expected a time in milliseconds, a whole number of 64 bits")
    return int(cursor.take(_TOKEN))
