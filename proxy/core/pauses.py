"""How long tenants that could not take their parts of a replay are left alone: from a second, doubling, to a minute."""

import math
from typing import Final

FIRST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 60.0
_DOUBLINGS: Final = 6


def pause_seconds(failures: int) -> float:
    """The pause after so many failures in a row."""
    return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, _DOUBLINGS))


class Pauses:
    """Tenants with their failures in a row, and until when each is left alone, in seconds of the caller's clock."""

    def __init__(self) -> None:
        self._tenants: dict[str, tuple[int, float]] = {}

    @property
    def next_s(self) -> float:
        """When the next pause is over; infinite where there is none."""
        return min((until_s for _, until_s in self._tenants.values()), default=math.inf)

    def paused(self, now_s: float) -> set[str]:
        """The tenants to be left alone."""
        return {tenant for tenant, (_, until_s) in self._tenants.items() if until_s > now_s}

    def over(self, now_s: float) -> set[str]:
        """The tenants to be tried again."""
        return self._tenants.keys() - self.paused(now_s)

    def tried(self, now_s: float, tenants: set[str], failed: set[str]) -> None:
        """Note who was tried again, and who failed, for the first time or once more."""
        for tenant in tenants - failed:
            self._tenants.pop(tenant, None)
        for tenant in failed:
            failures = self._tenants.get(tenant, (0, 0.0))[0] + 1
            self._tenants[tenant] = failures, now_s + pause_seconds(failures)
