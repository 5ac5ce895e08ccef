"""The wall clock: the one place of the shell that reads the time of day; core is told it."""

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
