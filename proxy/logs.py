"""How the services log: JSON where nobody looks, a console where somebody does. The only place that sets it up.

An event is a short lower-case sentence that never changes, so that it can be searched for; what changes stands in keys
(`error`, `path`, `tenant`, `reason`).
"""

import contextlib
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

LogFormat = Literal["auto", "json", "console"]


def set_up(log_format: LogFormat = "auto", *, debug: bool = False, quiet: bool = False) -> None:
    """Send events to stderr: `auto` is a console on a terminal and JSON elsewhere.

    `debug` shows label values too, `quiet` errors only.
    """
    console = sys.stderr.isatty() if log_format == "auto" else log_format == "console"
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(repr_native_str=True)  # or what a store says could move the cursor
        if console
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(40 if quiet else 10 if debug else 20),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Lenient(sys.stderr))),
        cache_logger_on_first_use=not quiet,
    )
    logging.basicConfig(handlers=[_Passing()], level=logging.WARNING, force=True)


class _Lenient:
    """A stream whose failure stops nobody: samples must pass also while the log's disk is full or its reader gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed, or a character that it cannot encode
            self._stream.write(text)

    def flush(self) -> None:
        """Likewise."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _Passing(logging.Handler):
    """Gives what libraries say by `logging` (uvicorn, asyncio) the same form as everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        structlog.get_logger().log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)
