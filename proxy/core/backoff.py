"""How long to wait before a failed request is tried again, by what went wrong.

A fault of the network passes by itself within seconds, a rate limit when there is less to send, and a refused
credential or a moved endpoint when a person has changed something: an upstream is not asked more often than that. The
jitter keeps proxies that failed together from coming back together.
"""

from dataclasses import dataclass
from typing import Final

from proxy.core.outcome import THROTTLED, Retryable

RETRY_AFTER_SECONDS: Final = 600.0
"""The longest `Retry-After` that is honoured: one of a day would have the tenant's data dropped by age."""

_JITTER: Final = 0.2
_DOUBLINGS: Final = 16  # more than any pace needs from its first wait to its longest


@dataclass(frozen=True, slots=True)
class Pace:
    """The wait after the first failure and the longest one, both before jitter; `least` after it."""

    first_seconds: float
    longest_seconds: float
    least_seconds: float = 0.0


_FAULT: Final = Pace(0.2, 10.0)
_TO_BE_MENDED: Final = Pace(30.0, 300.0, 30.0)
_PACE_OF_REASON: Final = {
    THROTTLED: Pace(1.0, 30.0),
    "upstream_401": _TO_BE_MENDED,
    "upstream_403": _TO_BE_MENDED,
    **{f"upstream_{status}": _TO_BE_MENDED for status in range(300, 400)},
}


def wait_seconds(outcome: Retryable, failures: int, dice: float) -> float:
    """Seconds until the next attempt, after `failures` in a row (from 1); `dice` is random, from 0 to below 1.

    The upstream's `Retry-After` counts where it is longer than our own wait, up to RETRY_AFTER_SECONDS.
    """
    pace = _PACE_OF_REASON.get(outcome.reason, _FAULT)
    doublings = min(max(failures, 1) - 1, _DOUBLINGS)
    own = min(pace.first_seconds * 2.0**doublings, pace.longest_seconds)
    jittered = own * (1 + _JITTER * (2 * dice - 1))
    asked = min(outcome.retry_after_seconds or 0.0, RETRY_AFTER_SECONDS)
    return max(jittered, pace.least_seconds, asked)
