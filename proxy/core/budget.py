"""How many requests a tenant may have on top because its upstream refuses requests whole."""

from typing import Final

_MINUTE_SECONDS: Final = 60.0


class SplitBudget:
    """A bucket of `per_minute` requests, full at first, that fills up evenly within a minute.

    So no minute has more than twice as many, and no hour more than 61 times.
    """

    __slots__ = ("_at_s", "_left", "_per_minute")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._at_s: float | None = None

    def spend(self, now_s: float) -> bool:
        """Take one request; False if there is none. `now_s` counts seconds; a step back fills nothing."""
        if self._at_s is not None:
            gained = max(0.0, now_s - self._at_s) * self._per_minute / _MINUTE_SECONDS
            self._left = min(float(self._per_minute), self._left + gained)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
