"""Times as people write them in queries: RFC 3339, or milliseconds since the epoch (interface 4)."""

import re
from datetime import UTC, datetime
from typing import Final

from proxy.core.errors import TextFormatError

_MILLISECONDS: Final = re.compile(r"-?[0-9]{1,18}")


def parse_time(text: str) -> int:
    """Milliseconds since the epoch; raises TextFormatError."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise TextFormatError(
            f"{text[:40]!r} is no time; write RFC 3339 with a zone, like 2026-01-01T12:00:00Z, or milliseconds"
        )
    return round(parsed.timestamp() * 1000)


def format_time(time_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds; the bare number where no calendar has the time."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
