"""The command `whosegpu`: its verbs and their options. A verb imports its service when called, so that --help is fast.

Exit status: 0 done, 1 not done, 2 wrong usage, 130 interrupted. Errors go to stderr as one sentence.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CommandError
from cli.options import ConfigOption, JsonOption
from cli.quarantine_verbs import app as quarantine_app
from cli.queue_verbs import app as queue_app
from cli.text import printable

WRONG_USAGE = 2
INTERRUPTED = 130  # what a shell reports for a command that SIGINT ended

_TYPER_SAYS = "Value error, "  # before its own sentences

app = typer.Typer(
    name="whosegpu",
    help="Whose GPUs are these, anyway? Joins GPU series with the pod that owned the card when the sample was taken, "
    "and sends each tenant its own, and nobody else's.",
    epilog="Example:  whosegpu demo",
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class LogFormat(StrEnum):
    """How the proxy logs."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


app.add_typer(queue_app)
app.add_typer(quarantine_app)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"whosegpu {version('whosegpu')}")
        except PackageNotFoundError as error:
            raise CommandError("runs from a source tree that is not installed; `make dev` installs it") from error
        raise typer.Exit


@app.callback()
def _whosegpu(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(WRONG_USAGE)


@app.command(
    short_help="Take remote write, and send each tenant its own series.",
    epilog="Example:  whosegpu proxy --config /etc/whosegpu/config.yaml",
)
def proxy(
    config: ConfigOption,
    log_format: Annotated[
        LogFormat, typer.Option(help="How to log: auto is a console on a terminal, JSON elsewhere.")
    ] = LogFormat.AUTO,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Log more, with label values.")] = False,
) -> int:
    """Take remote write, and send each tenant its own series, until SIGINT or SIGTERM."""
    from cli.errors import unusable
    from config.problems import ConfigError
    from proxy.serve import run as serve

    try:
        return serve(config, log_format.value, debug=debug)
    except ConfigError as error:
        raise unusable(error) from error


@app.command(
    short_help="Name every error of a configuration file, with its line.",
    epilog="Example:  whosegpu check-config /etc/whosegpu/config.yaml",
)
def check_config(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
    *,
    as_json: JsonOption = False,
) -> int:
    """Name every error of a configuration file with its line, or say what it sets up. Exit status 1 for any error."""
    from cli.check_config import check

    return check(file, as_json=as_json)


@app.command(
    short_help="Show what becomes of a series, and why.",
    epilog="""Examples:

\b
  whosegpu explain 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-5b0c...",pod="x"}'
  whosegpu explain --config config.yaml --at 2026-01-01T12:00:00Z 'up{job="x"}'
  curl -s gpu-node-a:9400/metrics | whosegpu explain - --json""",
)
def explain(  # noqa: PLR0913 - one parameter for each option
    series: Annotated[
        list[str],
        typer.Argument(
            metavar="SERIES",
            help="Series in text form, each with an optional value and timestamp; - reads lines from stdin.",
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The sample's time, RFC 3339 or milliseconds since the epoch. Default: now."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Decide here, by this configuration and its ownership.files."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The proxy to ask. Default: http://127.0.0.1:9009")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the bearer token of an admin sender.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> int:
    """Show what becomes of a series: its owner, each tenant's claim, each rule's step, and the labels out."""
    from cli.explain import Question, explain_series

    return explain_series(Question(tuple(series), at, config, url, token_file), as_json=as_json)


@app.command(short_help="Run it all on this machine, with simulated GPUs.", epilog="Example:  whosegpu demo --for 20")
def demo(
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=1, help="End by itself. Default: until Ctrl-C.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The proxy's port on 127.0.0.1; 0 takes a free one.")] = 0,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep configuration, ownership and samples here. Default: a temporary one."),
    ] = None,
    *,
    live: Annotated[bool, typer.Option("--live/--no-live", help="A live table, on a terminal.")] = True,
) -> int:
    """Run it all on this machine: simulated GPU nodes, their owners, a sender, the proxy, and three teams' storage.

    At the end it shows the books. Exit status 0 only if they balance, and every tenant got samples.
    """
    from cli.demo.run import DemoOptions, run_demo

    return run_demo(DemoOptions(seconds, port, data_dir, live))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead
    try:
        status = typer.main.get_command(app).main(list(arguments), prog_name="whosegpu", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "whosegpu")
        said = error.format_message().replace(_TYPER_SAYS, "").rstrip(".?")
        return _say([f"whosegpu: {said}; see {command} --help"], error.exit_code)
    except CommandError as error:
        return _say([*error.details, f"whosegpu: {error}"], error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(status or 0)


def _say(lines: Iterable[str], status: int) -> int:
    for line in lines:
        typer.echo(printable(line), err=True)
    return status


def main() -> None:
    """Entry point."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
