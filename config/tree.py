"""The file as a tree of text: the only reader of YAML.

Scalars stay text, so that `regex: 5` and `id: 007` are what was written; a plain empty value, `null` or `~` is None.
Every value knows its line. Anything that is not plain data (tags, several documents) is an error, and what a small file
can make large or deep is bounded: aliases share one value, whose size counts each time it is used.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import yaml

from config.durations import cut
from config.problems import ConfigError, Place, Problem, place_text

MAX_CHARACTERS: Final = 4 << 20
"""Room for twenty thousand tenants; PyYAML needs some ten seconds for it."""

MAX_DEPTH: Final = 32
"""Four times the depth of the deepest setting."""

MAX_VALUES: Final = 500_000
"""Values after aliases are replaced by what they stand for: as many as a file of MAX_CHARACTERS has with short keys."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # an escape can write one

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})

Plain = str | list["Plain"] | dict[str, "Plain"] | None


@dataclass(slots=True)
class Node:
    """A value of the file: text, None, or children by key or position, each with the line where it is written."""

    line: int
    text: str | None = None
    children: dict[str, tuple[int, "Node"]] | list[tuple[int, "Node"]] | None = None
    values: int = 1

    def plain(self) -> Plain:
        """The value as lists, dicts and text."""
        if isinstance(self.children, dict):
            return {key: child.plain() for key, (_, child) in self.children.items()}
        if isinstance(self.children, list):
            return [child.plain() for _, child in self.children]
        return self.text

    def line_of(self, place: Place) -> int:
        """The line of a place; where nothing is written there, that of the nearest value around it."""
        line, node = self.line, self
        for step in place:
            match node.children, step:
                case dict() as children, str() if step in children:
                    line, node = children[step]
                case list() as children, int() if 0 <= step < len(children):
                    line, node = children[step]
                case _:
                    break
        return line


def compose(text: str, source: str) -> tuple[Node, list[tuple[Place, Problem]]]:
    """The tree of a file, and what is wrong with it although it can be read: places written twice, the first kept.

    Raises ConfigError for text that is no YAML of ours. An empty file is a tree without children.
    """
    builder = _Builder(source)
    if len(text) > MAX_CHARACTERS:
        raise builder.refusal(None, f"has more than {MAX_CHARACTERS} characters")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else None
        raise builder.refusal(line, f"is no YAML: {e.problem or e.context}") from e
    except (yaml.YAMLError, UnicodeError) as e:
        raise builder.refusal(None, f"is no YAML: {_unreadable(e)}") from e
    except (ValueError, IndexError, RecursionError) as e:
        # PyYAML's scanner lets these out for a few malformed escapes and directives.
        raise builder.refusal(None, "is no YAML: it has a malformed escape or directive") from e
    return builder.root, builder.doubled


def _unreadable(error: Exception) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position} is one that no YAML file can have"
    return "it has a character that is no text"


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read. `key` is the next value's, None where a key is to come."""

    node: Node
    anchor: str | None
    key: tuple[int, str] | None = None


@dataclass(slots=True)
class _Builder:
    source: str
    root: Node = field(default_factory=lambda: Node(1))
    doubled: list[tuple[Place, Problem]] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node] = field(default_factory=dict)
    _documents: int = 0

    def refusal(self, line: int | None, sentence: str) -> ConfigError:
        problems = (problem for _, problem in self.doubled)
        return ConfigError([*problems, self._problem(line, sentence)])

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case yaml.ScalarEvent():
                self._refuse_tag(event.tag, line)
                if _SURROGATE.search(event.value):
                    raise self.refusal(line, "has half of a surrogate pair, which is no character; write it whole")
                is_null = event.style is None and event.value in _NULLS
                self._add(Node(line, text=None if is_null else event.value), event.anchor, event.value)
            case yaml.MappingStartEvent():
                self._begin(Node(line, children={}), event)
            case yaml.SequenceStartEvent():
                self._begin(Node(line, children=[]), event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                closed = self._open.pop()
                self._add(closed.node, closed.anchor, None)
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self.refusal(
                        line, "has a second document; a configuration is one, so remove what follows ---"
                    )
            case _:
                pass

    def _refuse_tag(self, tag: str | None, line: int) -> None:
        if tag is not None:
            raise self.refusal(line, f"has a tag, {cut(tag)}; write the plain value")

    def _begin(self, node: Node, event: yaml.CollectionStartEvent) -> None:
        self._refuse_tag(event.tag, node.line)
        if len(self._open) >= MAX_DEPTH:
            raise self.refusal(node.line, f"is nested more than {MAX_DEPTH} levels deep")
        if self._open and isinstance(self._open[-1].node.children, dict) and self._open[-1].key is None:
            raise self.refusal(node.line, "has a list or a mapping for a key; a key is text")
        self._open.append(_Open(node, event.anchor))

    def _alias(self, anchor: str, line: int) -> None:
        node = self._anchors.get(anchor)
        if node is None:
            raise self.refusal(line, f"names {cut('*' + anchor)}, which is not defined before it")
        self._add(Node(line, node.text, node.children, node.values), None, node.text)

    def _add(self, node: Node, anchor: str | None, scalar: str | None) -> None:
        """Puts a whole value where it belongs; in a mapping, a scalar is the next key first."""
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        match parent.node.children:
            case list() as items:
                items.append((node.line, node))
            case dict() as entries if parent.key is not None:
                self._enter(entries, parent.key, node)
                parent.key = None
            case _ if scalar is not None:
                parent.key = (node.line, scalar)
                return
            case _:
                raise self.refusal(node.line, "has a list or a mapping for a key; a key is text")
        parent.node.values += node.values
        if parent.node.values > MAX_VALUES:
            raise self.refusal(node.line, f"stands for more than {MAX_VALUES} values, its aliases counted each time")

    def _enter(self, entries: dict[str, tuple[int, Node]], key: tuple[int, str], node: Node) -> None:
        line, name = key
        if name in entries:
            sentence = f"is written twice, first in line {entries[name][0]}; keep one of them"
            self.doubled.append((tuple(self._place()), self._problem(line, sentence)))
        else:
            entries[name] = (line, node)

    def _problem(self, line: int | None, sentence: str) -> Problem:
        return Problem(line, place_text(tuple(self._place())), sentence, self.source)

    def _place(self) -> Iterator[str | int]:
        for each in self._open:
            if isinstance(each.node.children, list):
                yield len(each.node.children)
            elif each.key is not None:
                yield each.key[1]
