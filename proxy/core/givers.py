"""Which inbound series gave a series of a tenant its value of a time: what copies are told by in a replay."""

from collections.abc import Iterable
from typing import Final

from proxy.core.parcels import Target

GIVEN: Final = 1 << 14
"""Values that are remembered, up to twice as many: those of one scrape have one time, and so lie together."""


class Givers:
    """Remembers label blocks as they came, by series and time."""

    def __init__(self, limit: int = GIVEN) -> None:
        self._limit = limit
        self._newer: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}

    def of(self, target: Target, at_ms: int) -> bytes | None:
        """The label block under which the first value of that time came, as far as it is remembered."""
        key = hash((target, at_ms))
        return self._newer.get(key) or self._older.get(key)

    def note(self, targets: Iterable[Target], at_ms: int, block: bytes) -> None:
        """A value is given to these series."""
        if len(self._newer) >= self._limit:
            self._newer, self._older = {}, self._newer
        for target in targets:
            self._newer.setdefault(hash((target, at_ms)), block)
