r"""Regular expressions of relabel rules: RE2, anchored as Prometheus anchors them.

R is compiled as `^(?s:R)$`: the whole text must match, and the dot takes a line break too. That is done on the text of
R, so `foo)|(bar` compiles and is anchored half on each side, there and here. RE2 matches in time linear in the text,
so no tenant's rule can stall the others. What RE2 takes and Go does not (`\C`, group names beyond ASCII) is refused;
so is one group name twice, of which RE2 tells the first only. What Go takes and RE2 does not (long names of Unicode
classes, `\p{Letter}`) does not compile.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import re2

from proxy.core.errors import RelabelError
from proxy.core.labels import is_utf8
from proxy.core.template import Template

MAX_PATTERN_BYTES = 64 * 1024  # room for a list of some thousand names; keeps one rule's memory small
MAX_GROUPS = 1000  # each match reports every group; Go's own limit of nesting
MAX_MEMORY_BYTES = 8 * 1024 * 1024  # RE2's default for one expression, program and cached states
MAX_REASON_CHARACTERS = 200  # RE2 repeats the expression in its reasons

_PLAIN = r"[^\\.+*?()|\[\]{}^$]"
_LITERALS = re.compile(rf"{_PLAIN}*(?:\|{_PLAIN}*)*")
_PREFIX = re.compile(rf"({_PLAIN}*)\.([*+])")
_ESCAPED = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)
_GROUP_NAME = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_EVERYTHING = "(.*)"
_CONTINUATION = 0b10  # UTF-8: how every byte of a character but its first begins


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    """What is used of a compiled expression of `re2`, on UTF-8."""

    @property
    def groups(self) -> int: ...
    @property
    def groupindex(self) -> Mapping[str, int]: ...
    def search(self, text: bytes, pos: int) -> _Match | None: ...


@dataclass(frozen=True, slots=True)
class Regex:
    """An anchored regular expression; made by `compile_regex`."""

    pattern: str
    names: Mapping[str, int] = field(compare=False)
    group_count: int = field(compare=False)
    matches: Callable[[str], bool] = field(compare=False)
    _compiled: _Compiled = field(compare=False, repr=False)

    def groups(self, text: str) -> tuple[str, ...] | None:
        """The text of each group, the whole match first, "" for one that took no part; None without a match."""
        if self.pattern == _EVERYTHING:
            return (text, text)
        encoded = text.encode()
        match = _search(self._compiled, encoded, 0)
        return None if match is None else self._texts(match, encoded)

    def replace_all(self, text: str, template: Template) -> str:
        """The text with each match replaced, as Go's `ReplaceAllString` does; there can be several if half anchored."""
        encoded = text.encode()
        out: list[str] = []
        end = at = 0
        while at <= len(encoded) and (match := _search(self._compiled, encoded, at)) is not None:
            start, stop = match.span()
            out.append(encoded[end:start].decode())
            if stop > end or start == 0:  # not an empty match that follows another
                out.append(template.expand(self._texts(match, encoded)))
            end = stop
            at = stop if stop > at else _next_character(encoded, at)
        out.append(encoded[end:].decode())
        return "".join(out)

    def _texts(self, match: _Match, encoded: bytes) -> tuple[str, ...]:
        """The text of each group; the span of one that took no part is (-1, -1)."""
        spans = [match.span(group) for group in range(self.group_count + 1)]
        return tuple([encoded[start:stop].decode() for start, stop in spans])


def compile_regex(pattern: str) -> Regex:
    """Compiles an expression as a rule has it; raises `RelabelError` with the reason when it is none."""
    if not is_utf8(pattern):
        raise RelabelError(f"regex is not UTF-8: {_shown(pattern)}")
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise RelabelError(f"regex is longer than {MAX_PATTERN_BYTES} bytes: {_shown(pattern)}")
    if any(escape[1] == "C" for escape in _ESCAPED.finditer(pattern)):
        raise RelabelError(rf"regex has \C, which takes half a character: {_shown(pattern)}")
    group_names = _GROUP_NAME.findall(pattern)
    if len(set(group_names)) < len(group_names):
        raise RelabelError(f"regex has two groups of one name: {_shown(pattern)}")
    compiled = _compile(pattern)
    if compiled.groups > MAX_GROUPS:
        raise RelabelError(f"regex has more than {MAX_GROUPS} groups: {_shown(pattern)}")
    names = dict(compiled.groupindex)
    if not all(name.isascii() for name in names):
        raise RelabelError(f"regex has a group name beyond A-Z, a-z, 0-9 and _: {_shown(pattern)}")
    return Regex(pattern, names, compiled.groups, _shortcut(pattern) or _searcher(compiled), compiled)


def _compile(pattern: str) -> _Compiled:
    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    options.max_mem = MAX_MEMORY_BYTES
    try:
        compiled: _Compiled = re2.compile(f"^(?s:{pattern})$", options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        sentence = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise RelabelError(f"regex does not compile: {_shown(sentence)}") from error
    return compiled


def _search(compiled: _Compiled, encoded: bytes, at: int) -> _Match | None:
    r"""The first match from a character on; as Go, and unlike RE2, it finds no `\B` between a character's bytes."""
    while (match := compiled.search(encoded, at)) is not None:
        start = match.span()[0]
        if start == len(encoded) or not _continues(encoded[start]):
            return match
        at = _next_character(encoded, start)
    return None


def _next_character(encoded: bytes, at: int) -> int:
    at += 1
    while at < len(encoded) and _continues(encoded[at]):
        at += 1
    return at


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 is not a character's first."""
    return byte >> 6 == _CONTINUATION


def _searcher(compiled: _Compiled) -> Callable[[str], bool]:
    def matches(text: str) -> bool:
        return _search(compiled, text.encode(), 0) is not None

    return matches


def _shortcut(pattern: str) -> Callable[[str], bool] | None:
    """The same answer without RE2 for the expressions that most rules have: `a|b|c`, `prefix.*` and `(.*)`."""
    if _LITERALS.fullmatch(pattern):
        return frozenset(pattern.split("|")).__contains__
    prefix = _PREFIX.fullmatch(".*" if pattern == _EVERYTHING else pattern)
    if prefix is None:
        return None
    start, least = prefix[1], len(prefix[1]) + (prefix[2] == "+")

    def matches(text: str) -> bool:
        return len(text) >= least and text.startswith(start)

    return matches


def _shown(text: str) -> str:
    """A text cut for an error, on one line."""
    cut = text[:MAX_REASON_CHARACTERS] + ("..." if len(text) > MAX_REASON_CHARACTERS else "")
    return "".join([character if character.isprintable() else "?" for character in cut])
