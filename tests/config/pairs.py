"""Two mistakes in one file: the files of two rows put together, tenants beside tenants, senders beside senders."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from config.problems import ConfigError
from config.tree import compose

Told = list[tuple[str, str]]
"""Place and sentence of each problem, sorted."""

_NAMES: Final = frozenset({"id", "name", "username", "namespaces", "bearer_token_file"})
_APPENDED: Final = frozenset({"tenants", "senders"})
_EITHER: Final = {"embedded", "url"}
_ITEM: Final = re.compile(r"(tenants|senders)\[(\d+)\]")


@dataclass(frozen=True)
class Row:
    """One mistake, the file that it is in, and what is told of it; the twin has other names for everything."""

    id: str
    tree: Any
    told: Told
    twin: Any
    told_of_twin: Told


class NoPairError(Exception):
    """Two files say something else at the same place."""


def rows(table: Sequence[pytest.ParameterSet], read: Callable[[str], object]) -> list[Row]:
    """The rows of a table whose first column is the text of a file."""
    found = []
    for row in table:
        tree = compose(str(row.values[0]), "f.yaml")[0].plain()
        twin = renamed(tree)
        found.append(Row(str(row.id), tree, told(read, tree), twin, told(read, twin)))
    return found


def told(read: Callable[[str], object], tree: Any) -> Told:
    """The problems that reading a tree finds, which must be in the order of the file."""
    try:
        read(json.dumps(tree, indent=1))
    except ConfigError as e:
        lines = [problem.line or 0 for problem in e.problems]
        assert lines == sorted(lines)
        return sorted((problem.where, problem.sentence) for problem in e.problems)
    return []


def beside(first: Any, second: Any) -> Any:
    """Both files in one, the second one's tenants and senders after the first one's. Raises NoPairError."""
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() | second.keys() >= _EITHER:
            raise NoPairError
        return {key: _both(key, first, second) if key in first else second[key] for key in first | second}
    if first == second:
        return first
    raise NoPairError


def _both(key: str, first: dict[str, Any], second: dict[str, Any]) -> Any:
    if key not in second:
        return first[key]
    if key in _APPENDED and isinstance(first[key], list) and isinstance(second[key], list):
        return first[key] + second[key]
    return beside(first[key], second[key])


def renamed(tree: Any, key: str = "") -> Any:
    """The same file with other names for its tenants and senders, and of what each must have for itself."""
    match tree:
        case dict():
            return {inner: renamed(value, inner) for inner, value in tree.items()}
        case list():
            return [renamed(value, key) for value in tree]
        case str() if tree and key in _NAMES:
            return f"{tree}2"
    return tree


def behind(problems: Told, first: Any) -> Told:
    """The problems of a file whose tenants and senders come after those of another."""
    proxy = first.get("proxy") if isinstance(first, dict) else None
    before = {
        "tenants": first.get("tenants") if isinstance(first, dict) else None,
        "senders": proxy.get("senders") if isinstance(proxy, dict) else None,
    }

    def shifted(item: re.Match[str]) -> str:
        items = before[item[1]]
        return f"{item[1]}[{int(item[2]) + (len(items) if isinstance(items, list) else 0)}]"

    return [(_ITEM.sub(shifted, where), sentence) for where, sentence in problems]


def both(first: Row, second: Row) -> tuple[Any, Told]:
    """One file with both mistakes, and what is to be told of it; raises NoPairError."""
    together = beside(first.tree, second.twin)
    return together, sorted(first.told + behind(second.told_of_twin, first.tree))
