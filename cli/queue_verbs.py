"""`whosegpu queue`: what waits on disk for tenants whose stores did not take it."""

from functools import partial
from typing import Annotated

import typer

from cli.errors import WrongUsageError
from cli.options import ConfigOption, JsonOption, YesOption

app = typer.Typer(
    name="queue",
    help="What waits on disk for tenants whose stores do not take it: list, inspect, drop.",
    short_help="What waits on disk for tenants' stores.",
    epilog="Example:  whosegpu queue list --config config.yaml",
    rich_markup_mode=None,
    no_args_is_help=False,
)

TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's id.")]


@app.command(
    name="list",
    short_help="Show what is queued, tenant by tenant.",
    epilog="Example:  whosegpu queue list --config config.yaml",
)
def list_queues(config: ConfigOption, *, as_json: JsonOption = False) -> int:
    """Show what is queued, tenant by tenant: samples, records, bytes, the oldest, and why it waits.

    Asks the proxy that has the data folder, and looks itself where none runs. So do all verbs of this group.
    """
    from cli.data_folder import DataFolder
    from cli.queue_view import show_queues
    from cli.terminal import tell
    from proxy.core.orders import ListQueues
    from proxy.core.stock import QueuesListed

    found = DataFolder.of(config).ask(ListQueues(), QueuesListed)
    tell(found, show_queues, as_json=as_json)
    return 0


@app.command(
    short_help="Show the first records of a tenant's queue.",
    epilog="Example:  whosegpu queue inspect team-ml --limit 2 --config config.yaml",
)
def inspect(
    tenant: TenantArgument,
    config: ConfigOption,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Records to show.")] = 5,
    *,
    as_json: JsonOption = False,
) -> int:
    """Show the first records of a tenant's queue: when they came, what they hold, and some of their series."""
    from cli.data_folder import DataFolder
    from cli.queue_view import show_records
    from cli.terminal import tell
    from proxy.core.orders import InspectQueue
    from proxy.core.stock import QueueInspected

    found = DataFolder.of(config).ask(InspectQueue(tenant, limit), QueueInspected)
    tell(found, show_records, as_json=as_json)
    return 0


@app.command(
    short_help="Drop records of a tenant's queue, for good.",
    epilog="""Examples:

\b
  whosegpu queue drop team-ml --oldest 10 --config config.yaml
  whosegpu queue drop team-gone --all --yes --config config.yaml""",
)
def drop(  # noqa: PLR0913 - one parameter for each option
    tenant: TenantArgument,
    config: ConfigOption,
    oldest: Annotated[int | None, typer.Option(metavar="N", min=1, help="Drop the oldest N records.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Drop all its records.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> int:
    """Drop records of a tenant's queue, for good; what a proxy is sending just now stays. Asks first, on a terminal.

    What is dropped is counted in whosegpu_samples_dropped_total, as dropped_by_hand, by a running proxy.
    """
    if (oldest is None) is not everything:
        raise WrongUsageError("give --oldest N, or --all; one of them")

    from cli.data_folder import DataFolder
    from cli.queue_view import ask_to_drop, show_dropped
    from cli.terminal import tell
    from proxy.core.orders import DropQueued
    from proxy.core.stock import QueueDropped

    folder = DataFolder.of(config)
    if not yes:
        ask_to_drop(folder, tenant, oldest)
    found = folder.ask(DropQueued(tenant, oldest), QueueDropped)
    tell(found, partial(show_dropped, everything=everything), as_json=as_json)
    return 0
