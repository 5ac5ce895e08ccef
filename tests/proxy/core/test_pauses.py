import math

import pytest

from proxy.core.pauses import Pauses, pause_seconds


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (5000, 60)])
def test_pauses_double(failures: int, seconds: float) -> None:
    """From a second to a minute, however often somebody fails."""
    assert pause_seconds(failures) == seconds


def test_paused_until_over() -> None:
    """A tenant that failed is left alone for its pause; failing once more makes that longer, success ends it."""
    pauses = Pauses()
    assert (pauses.paused(0), pauses.over(0), pauses.next_s) == (set(), set(), math.inf)
    pauses.tried(10, set(), {"a", "b"})
    assert (pauses.paused(10.9), pauses.over(10.9), pauses.next_s) == ({"a", "b"}, set(), 11)
    assert (pauses.paused(11), pauses.over(11)) == (set(), {"a", "b"})
    pauses.tried(11, {"a", "b"}, {"b"})
    assert (pauses.paused(12.9), pauses.over(13), pauses.next_s) == ({"b"}, {"b"}, 13)
    pauses.tried(13, {"b"}, set())
    assert pauses.next_s == math.inf
    pauses.tried(20, set(), {"b"})
    assert pauses.next_s == 21
