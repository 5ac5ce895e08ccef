"""`whosegpu quarantine`: what waits on disk for an owner, or for a tenant."""

from functools import partial
from typing import Annotated

import typer

from cli.errors import WrongUsageError
from cli.options import NOT_DONE, ConfigOption, JsonOption, YesOption

app = typer.Typer(
    name="quarantine",
    help="What waits on disk for an owner, or for a tenant that has its owner's namespace: list, replay, drop.",
    short_help="What waits on disk for an owner.",
    epilog="Example:  whosegpu quarantine list --config config.yaml",
    rich_markup_mode=None,
    no_args_is_help=False,
)

ReasonOption = Annotated[
    str | None, typer.Option(metavar="REASON", help="Only what waits for this reason, such as unknown_owner.")
]


@app.command(
    name="list",
    short_help="Show what waits, and why.",
    epilog="""Examples:

\b
  whosegpu quarantine list --config config.yaml
  whosegpu quarantine list --match GPU-5b0c --limit 3 --config config.yaml""",
)
def list_quarantine(
    config: ConfigOption,
    reason: ReasonOption = None,
    match: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only series with this text in them, or in their owner's namespace."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, max=1000, help="Records to show.")] = 10,
    *,
    as_json: JsonOption = False,
) -> int:
    """Show what waits: samples by reason, and the first records with the reason why each still waits.

    Asks the proxy that has the data folder, and looks itself where none runs. So do all verbs of this group.
    """
    from cli.data_folder import DataFolder
    from cli.quarantine_view import show_quarantine
    from cli.terminal import tell
    from proxy.core.orders import ListQuarantine
    from proxy.core.stock import QuarantineListed

    found = DataFolder.of(config).ask(ListQuarantine(reason or None, match or None, limit), QuarantineListed)
    tell(found, partial(show_quarantine, limit=limit), as_json=as_json)
    return 0


@app.command(
    short_help="Send what has an owner by now.", epilog="Example:  whosegpu quarantine replay --config config.yaml"
)
def replay(config: ConfigOption, *, as_json: JsonOption = False) -> int:
    """Decide anew on everything that waits, and send what has an owner and a tenant by now.

    A running proxy does that by itself when it learns of an owner. Where none runs, owners are those of
    ownership.files, and what they answer goes to the tenants' queues, to be sent when the proxy starts. Exit status 1
    where a tenant could not take its part.
    """
    from cli.data_folder import DataFolder
    from cli.quarantine_view import show_replayed
    from cli.terminal import tell
    from proxy.core.orders import ReplayQuarantine
    from proxy.core.stock import QuarantineReplayed

    found = DataFolder.of(config).ask(ReplayQuarantine(), QuarantineReplayed)
    tell(found, show_replayed, as_json=as_json)
    return NOT_DONE if found.unsettled else 0


@app.command(
    short_help="Drop what waits, for good.",
    epilog="""Examples:

\b
  whosegpu quarantine drop --reason unknown_owner --older-than 2h --config config.yaml
  whosegpu quarantine drop --all --yes --config config.yaml""",
)
def drop(  # noqa: PLR0913 - one parameter for each option
    config: ConfigOption,
    reason: ReasonOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only what was received so long ago, such as 2h or 1d.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Drop all of it.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Drop what waits, for good: for a reason, of an age, or all. Asks first, on a terminal.

    What is dropped is counted in whosegpu_quarantine_dropped_total, as dropped_by_hand, by a running proxy.
    """
    if (reason is None and older_than is None) is not everything:
        raise WrongUsageError("give --reason or --older-than, or both, or --all alone")

    from cli.data_folder import DataFolder
    from cli.quarantine_view import ask_to_drop, duration, show_dropped
    from cli.terminal import tell
    from proxy.core.orders import DropQuarantined
    from proxy.core.stock import QuarantineDropped

    order = DropQuarantined(reason, None if older_than is None else duration(older_than))
    folder = DataFolder.of(config)
    if not yes:
        ask_to_drop(folder, reason, older_than)
    found = folder.ask(order, QuarantineDropped)
    tell(found, show_dropped, as_json=as_json)
    return 0
