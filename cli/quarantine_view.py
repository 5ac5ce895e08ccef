"""How the quarantine looks on a terminal. Labels of its series come from anywhere, so each text is made printable."""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text

from cli.data_folder import DataFolder
from cli.errors import WrongUsageError
from cli.quantities import age, many, size
from cli.terminal import columns, confirm, console
from cli.text import printable
from config.durations import parse_duration
from proxy.core.orders import ListQuarantine
from proxy.core.stock import HeldRecord, QuarantineDropped, QuarantineListed, QuarantineReplayed

_REASONS: Final = {
    "unknown_owner": "nobody knows yet who owned the device",
    "unmapped_namespace": "its owner's namespace belongs to no tenant",
    "invalid_tenant": "its owner's namespace can be no tenant",
    "shared_not_split": "a shared device's values are not split yet",
}


def duration(text: str) -> int:
    """Milliseconds of `--older-than`; raises WrongUsageError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise WrongUsageError(f"--older-than: {error}") from error


def show_quarantine(found: QuarantineListed, limit: int) -> None:
    """Print samples by reason, then the records."""
    out = console()
    if found.samples:
        table = columns("reason", ">samples", "")
        for reason, samples in found.samples.items():
            table.add_row(printable(reason), f"{samples:,}", Text(_REASONS.get(reason, ""), "dim"))
        out.print(table)
    else:
        out.print("nothing waits in quarantine")
    if found.torn_bytes:
        out.print(f"{size(found.torn_bytes)} were damaged, and are kept in .torn files", style="yellow")
    for record in found.shown:
        out.print()
        for line in _lines(record):
            out.print(line, soft_wrap=True)
    if found.more and limit:
        out.print("\nthere is more; --limit shows more of it, --match and --reason what you look for", style="dim")
    elif found.samples and limit and not found.shown:
        out.print("\nnone of it is what you look for")


def show_replayed(found: QuarantineReplayed) -> None:
    """Print what became of what waited."""
    out = console()
    where = (
        ""
        if found.running or not found.released
        else "; they are in the tenants' queues, and go out when the proxy starts"
    )
    out.print(f"released {many(found.released, 'sample')}{where}", soft_wrap=True)
    if found.dropped:
        out.print(f"dropped {_by_reason(found.dropped)}", soft_wrap=True)
    if found.waiting:
        out.print(f"still waiting: {_by_reason(found.waiting)}", soft_wrap=True)
    for tenant in found.unsettled:
        out.print(f"{printable(tenant)} could not take its part, which waits on; see the proxy's log", style="yellow")


def ask_to_drop(folder: DataFolder, reason: str | None, older_than: str | None) -> None:
    """Say what would be dropped, and go on only if that is meant. Raises CommandError."""
    found = folder.ask(ListQuarantine(None, None, 0), QuarantineListed)
    samples = sum(found.samples.values()) if reason is None else found.samples.get(reason, 0)
    what = f"{many(samples, 'sample')}{'' if reason is None else f' that wait for {reason}'}"
    confirm(f"Drop {'' if older_than is None else f'what is older than {older_than} of '}{what}, for good?")


def show_dropped(found: QuarantineDropped) -> None:
    """Print what was dropped, and what is left."""
    left = f"; left: {_by_reason(found.left)}" if found.left else ""
    console().print(f"dropped {many(found.samples, 'sample')}{left}", soft_wrap=True)


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {printable(reason)}" for reason, count in counts.items())


def _lines(record: HeldRecord) -> Iterator[Text]:
    yield Text.assemble(
        (printable(record.at), "bold"),
        f"  {printable(record.reason)}, {many(record.samples, 'sample')} from {printable(record.sender)}, "
        f"received {age(record.age_seconds)} ago",
    )
    yield Text(f"  {printable(record.series) or '(not readable)'}")
    if record.why:
        yield Text(f"  {printable(record.why)}", "yellow")
