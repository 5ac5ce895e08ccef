"""How the services log: JSON where nobody looks, a console where somebody does. The only place that sets it up."""

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
