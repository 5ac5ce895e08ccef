"""How queues look on a terminal. Labels of records may come from anywhere, so each text is made printable."""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from cli.data_folder import DataFolder
from cli.quantities import age, many, size
from cli.terminal import columns, confirm, console
from cli.text import printable
from proxy.core.orders import InspectQueue
from proxy.core.stock import QueuedRecord, QueueDropped, QueueInspected, QueuesListed, QueueStock, State

_STATES: Final[dict[State, tuple[str, str]]] = {
    "delivering": ("is being sent", "green"),
    "waiting": ("waits", "yellow"),
    "stopped": ("waits: no proxy runs", ""),
    "not_configured": ("kept: no such tenant", "magenta"),
    "not_seen": ("kept: no owner of this namespace seen yet", "magenta"),
}


def show_queues(found: QueuesListed) -> None:
    """Print a table."""
    out = console()
    if not found.queues:
        out.print("nothing is queued")
        return
    damaged = any(queue.torn_bytes for queue in found.queues)
    table = columns("tenant", ">samples", ">records", ">size", ">oldest", *([">damaged"] if damaged else []), "state")
    for queue in found.queues:
        oldest = "-" if queue.age_seconds is None else age(queue.age_seconds)
        torn = [size(queue.torn_bytes)] if damaged else []
        name, counts = printable(queue.tenant), (f"{queue.samples:,}", f"{queue.records:,}", size(queue.bytes))
        table.add_row(name, *counts, oldest, *torn, _state(queue))
    out.print(table)


def show_records(found: QueueInspected) -> None:
    """Print the records, oldest first."""
    out = console()
    shown = "" if len(found.shown) == found.records else f"; the first {len(found.shown)}:"
    out.print(
        f"{printable(found.tenant)}: {many(found.records, 'record')} with {many(found.samples, 'sample')}{shown}",
        style="bold",
    )
    for record in found.shown:
        out.print()
        for line in _lines(record):
            out.print(line, soft_wrap=True)


def ask_to_drop(folder: DataFolder, tenant: str, oldest: int | None) -> None:
    """Say what would be dropped, and go on only if that is meant. Raises CommandError."""
    found = folder.ask(InspectQueue(tenant, 1), QueueInspected)
    what = f"{many(found.records, 'record')} with {many(found.samples, 'sample')}"
    first = f"the oldest {oldest:,} of " if oldest is not None and oldest < found.records else ""
    confirm(f"Drop {first}{what} of {tenant}, for good?")


def show_dropped(found: QueueDropped, *, everything: bool) -> None:
    """Print what was dropped, and what is left."""
    left = f"{many(found.left_records, 'record')} with {many(found.left_samples, 'sample')}"
    if not found.left_records:
        end = ""
    elif everything:
        end = f"; {left} left, which the proxy is sending just now; drop again for that too"
    else:
        end = f"; {left} left"
    dropped = f"{many(found.records, 'record')} with {many(found.samples, 'sample')}"
    console().print(f"dropped {dropped} of {printable(found.tenant)}{end}", soft_wrap=True)


def _state(queue: QueueStock) -> Text:
    words, style = _STATES[queue.state]
    return Text(f"{words}: {printable(queue.why)}" if queue.why else words, style)


def _lines(record: QueuedRecord) -> Iterator[Text]:
    made = f", {record.made:,} of them made here" if record.made else ""
    exemplars = f", {many(record.exemplars, 'exemplar')}" if record.exemplars else ""
    yield Text(
        f"{printable(record.received)}, {age(record.age_seconds)} ago: "
        f"{many(record.samples, 'sample')}{made}{exemplars}, {size(record.bytes)}, "
        f"remote write {printable(record.version)}"
    )
    notes = [
        f"cluster {printable(record.cluster)}" if record.cluster else "",
        f"replica {printable(record.replica)}" if record.replica else "",
        "sent already, with an unknown end" if record.attempted else "",
        "from the quarantine" if record.replay else "",
    ]
    if any(notes):
        yield Text(f"  {', '.join(note for note in notes if note)}", "dim")
    for series in record.series:
        yield Text(f"  {printable(series) or '(not readable)'}")
    if record.entries > len(record.series):
        yield Text(f"  and so on, {record.entries:,} entries in all", "dim")
