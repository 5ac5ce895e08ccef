"""Every way to break one place of a good file that has one problem, and no other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from config.problems import Place, place_text
from config.tree import compose

LEANING: Final = Path(__file__).parent.parent / "vectors" / "config" / "leaning.yaml"
_FREE: Final = frozenset({"headers", "prices"})


def breakages() -> Iterator[tuple[str, str, str]]:
    """What was done, the text of the file after it, and the place that is then wrong."""
    tree = compose(LEANING.read_text(), "leaning.yaml")[0].plain()
    for place, value in _places(tree, ()):
        where = place_text(place)
        wrong = ["wrong"] if isinstance(value, str) else "wrong"
        yield f"{where}: another kind of value", _with(tree, place, wrong), where
        if isinstance(place[-1], str) and place[-2:-1] not in {(free,) for free in _FREE}:
            yield f"{where}: misspelt", _misspelt(tree, place), f"{where}x"
            yield f"{where}: twice", _twice(tree, place), where


def _places(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if place:
        yield place, value
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield from _places(inner, (*place, step))


def _with(tree: Any, place: Place, value: Any) -> str:
    copy, holder = _copy(tree, place)
    holder[place[-1]] = value
    return json.dumps(copy, indent=1)


def _misspelt(tree: Any, place: Place) -> str:
    copy, holder = _copy(tree, place)
    holder[f"{place[-1]}x"] = holder.pop(place[-1])
    return json.dumps(copy, indent=1)


def _twice(tree: Any, place: Place) -> str:
    """The key of a place comes once more at the end of its section, with nothing in it."""
    copy, holder = _copy(tree, place)
    holder["@again"] = None
    return json.dumps(copy, indent=1).replace('"@again"', json.dumps(place[-1]))


def _copy(tree: Any, place: Place) -> tuple[Any, Any]:
    """A copy of a tree, and what in it holds a place."""
    copy = json.loads(json.dumps(tree))
    holder = copy
    for step in place[:-1]:
        holder = holder[step]
    return copy, holder
