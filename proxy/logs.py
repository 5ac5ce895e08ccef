"""How the services log: JSON where nobody looks, a console where somebody does. The only place that sets it up.

An event is a short lower-case sentence that never changes, so that it can be searched for; what changes stands in keys
(`error`, `path`, `tenant`, `reason`).
"""

import logging
import sys
from typing import Literal

import structlog

LogFormat = Literal["auto", "json", "console"]


def set_up(log_format: LogFormat = "auto", *, debug: bool = False) -> None:
    """Send events to stderr: `auto` is a console on a terminal and JSON elsewhere; `debug` shows label values too."""
    console = sys.stderr.isatty() if log_format == "auto" else log_format == "console"
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(10 if debug else 20),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Passing()], level=logging.WARNING, force=True)


class _Passing(logging.Handler):
    """Gives what libraries say by `logging` (uvicorn, asyncio) the same form as everything else."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        structlog.get_logger().log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)
