"""What the demo shows: where to look, how each tenant fares, and at the end the books."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.demo.books import FATES, Books, TenantBooks
from cli.demo.hardware import CARDS, NODES, PLATFORM, TEAMS, TENANTS
from cli.demo.simulation import HandOver, Pod
from cli.terminal import columns

_GOOD: Final = "\N{CHECK MARK}"


@dataclass(slots=True)
class Status:
    """How the demo stands, `seconds` after its begin: `idle` cards, `stored` series and `last` hand-over per tenant."""

    turn: int = 0
    seconds: float = 0.0
    until: float | None = None
    idle: int = 0
    books: Books = field(default_factory=Books)
    stored: dict[str, int | None] = field(default_factory=dict)
    last: dict[str, HandOver] = field(default_factory=dict)

    def note(self, change: HandOver) -> None:
        """Remember a hand-over for each tenant that lost or got a card by it; the platform team sees all."""
        for pod in (change.before, change.after):
            self.last[pod.workload.namespace if pod else PLATFORM] = change
        self.last[PLATFORM] = change


def heading(url: str, folder: str) -> RenderableType:
    """Where to look."""
    places = columns("", "")
    places.show_header = False
    places.add_row("  page", f"{url}/")
    places.add_row("  metrics", f"{url}/metrics")
    places.add_row("  push URL", f"{url}/api/v1/push")
    places.add_row("  files", folder)
    observed = [node for node in NODES if node.observed]
    cards = sum(len(node.cards) for node in observed)
    what = (
        f"whosegpu demo: {cards} simulated GPUs on {len(observed)} nodes, {len(TEAMS)} teams and a platform team. "
        f"{len(CARDS) - cards} more GPU, which no labeler observes yet: its samples wait in quarantine."
    )
    card = observed[0].cards[0].uuid
    places.add_row("  ask", f"whosegpu explain --url {url} \\")
    series = Text(f"    'DCGM_FI_DEV_GPU_UTIL{{UUID=\"{card}\"}}'")
    return Group(Text(what, "bold"), places, series, Text("Ctrl-C stops it and shows the books."), Text())


def live(status: Status) -> RenderableType:
    """One line on the whole, and a table of the tenants."""
    of = f" of {status.until:.0f}" if status.until else ""
    line = Text(
        f"{status.seconds:.0f}{of} s, {status.books.received:,} samples received, "
        f"{status.books.fates.get('quarantined', 0):,} in quarantine, {status.idle} GPUs idle"
    )
    table = columns("tenant", ">parts in", ">delivered", ">dropped", ">series", "last hand-over")
    for name in TENANTS:
        tenant = status.books.tenants.get(name, TenantBooks())
        stored = status.stored.get(name)
        change = status.last.get(name)
        table.add_row(
            name,
            f"{tenant.parts:,}",
            f"{tenant.delivered:,}",
            f"{sum(tenant.dropped.values()):,}",
            "-" if stored is None else f"{stored:,}",
            "-" if change is None else _in_two_lines(change),
        )
    return Group(line, _indented(table))


def plain(status: Status) -> str:
    """The same in one line, for what is no terminal."""
    tenants = ", ".join(
        f"{name} {status.books.tenants.get(name, TenantBooks()).delivered:,} delivered" for name in TENANTS
    )
    change = status.last.get(PLATFORM)
    last = f"; last hand-over {told(change)}" if change else ""
    return f"{status.seconds:3.0f} s  {status.books.received:,} samples received, {tenants}{last}"


def told(change: HandOver) -> str:
    """A hand-over in words."""
    return f"{_card(change)} {_pod(change.before)} -> {_pod(change.after)} at {_clock(change)}"


def _in_two_lines(change: HandOver) -> str:
    teams = [pod.workload.namespace if pod else "idle" for pod in (change.before, change.after)]
    return f"{_clock(change)} {_card(change)}\n{' -> '.join(teams)}"


def _card(change: HandOver) -> str:
    return f"{change.card.node}/{change.card.index}"


def _clock(change: HandOver) -> str:
    return f"{datetime.fromtimestamp(change.at_ms / 1000, UTC):%H:%M:%S}"


def final_books(books: Books, wrong: Sequence[str], stored: Mapping[str, int | None]) -> RenderableType:
    """The books, and the verdict."""
    fates = columns("fate of each received sample", ">samples", ">of these")
    fates.add_row("received", f"{books.received:,}")
    for fate in FATES:
        fates.add_row(f"{'=' if fate == FATES[0] else '+'} {fate}", f"{books.fates.get(fate, 0):,}")
        for said, count in books.details.get(fate, {}).items():
            fates.add_row(f"    {said}", "", f"{count:,}", style="dim")
    fates.add_row("difference", _sign(books.difference))
    tenants = columns("tenant", ">parts", ">recovered", ">delivered", ">dropped", ">queued", ">difference", ">series")
    for name in {**dict.fromkeys(TENANTS), **books.tenants}:
        tenant = books.tenants.get(name, TenantBooks())
        tenants.add_row(
            name,
            f"{tenant.parts:,}",
            f"{tenant.recovered:,}",
            f"{tenant.delivered:,}",
            f"{sum(tenant.dropped.values()):,}",
            f"{tenant.queued:,}",
            _sign(tenant.difference),
            "-" if stored.get(name) is None else f"{stored[name]:,}",
        )
    end = [Text(f"{_GOOD} The books balance, and every tenant got its samples.", "bold green")]
    if wrong:
        end = [Text(f"whosegpu: {sentence}", "bold red") for sentence in wrong]
    title = Text("The books", "bold")
    return Group(Text(), title, _indented(fates), Text(), _indented(tenants), Text(), *end)


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _sign(difference: int) -> Text:
    return Text(f"{difference:+,}", "bold red") if difference else Text(_GOOD, "green")


def _pod(pod: Pod | None) -> str:
    return f"{pod.workload.namespace}/{pod.name}" if pod else "idle"
