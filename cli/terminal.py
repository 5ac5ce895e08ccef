"""How verbs print: one console, one kind of table."""

from rich.console import Console
from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: no markup, no emoji codes, no guessed colours."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def columns(*names: str) -> Table:
    """A table without lines; a name that begins with ">" is of a column of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table
