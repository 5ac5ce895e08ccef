"""How verbs print: one console, one kind of table; and how they ask."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

from cli.errors import CommandError, WrongUsageError
from cli.text import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_YES: Final = frozenset({"y", "yes"})

T = TypeVar("T", bound="DataclassInstance")


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: no markup, no emoji codes, no guessed colours."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def columns(*names: str) -> Table:
    """A table without lines; a name that begins with ">" is of a column of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table


def print_json(value: Any) -> None:
    """Print JSON to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201 - what a verb is asked for


def tell(found: T, view: Callable[[T], None], *, as_json: bool) -> None:
    """Print what was found: as JSON, or as a person reads it."""
    if as_json:
        print_json(asdict(found))
    else:
        view(found)


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on a terminal that something is being done, for as long as the block takes."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    with out.status(printable(what)):
        yield


def confirm(question: str) -> None:
    """Ask on the terminal. Raises CommandError for anything but a yes, WrongUsageError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise WrongUsageError("this cannot be undone, and nobody can be asked here; say --yes if it is meant")
    print(f"{printable(question)} [y/N]: ", end="", file=sys.stderr, flush=True)  # noqa: T201 - stdout is the answer's
    if sys.stdin.readline().strip().lower() not in _YES:
        raise CommandError("nothing was dropped")
