import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import SplitBudget


@pytest.mark.parametrize(
    ("per_minute", "times_s", "granted"),
    [
        (0, [0.0, 60.0, 1e9], [False, False, False]),
        (1, [5.0, 5.0, 64.9, 65.0, 65.0], [True, False, False, True, False]),
        (2, [0.0, 0.0, 29.0, 30.0, 59.0, 60.0], [True, True, False, True, False, True]),
        (2, [0.0, 0.0, 1e6, 1e6, 1e6], [True, True, True, True, False]),
        (60, [0.0] * 60 + [0.5, 1.0, 1.5], [True] * 60 + [False, True, False]),
        (1, [100.0, 40.0, 100.0, 101.0], [True, False, True, False]),
        (1, [0.0, -1e9, -1e9], [True, False, False]),
    ],
)
def test_spend(per_minute: int, times_s: list[float], granted: list[bool]) -> None:
    """A full bucket is spent at once, then one request comes back after a minute's share; a step back gives nothing."""
    budget = SplitBudget(per_minute)
    assert [budget.spend(now_s) for now_s in times_s] == granted


@given(st.integers(0, 50), st.lists(st.floats(0, 30), max_size=200))
def test_no_more_than_a_full_bucket_and_what_came_in(per_minute: int, steps_s: list[float]) -> None:
    """However it is asked, it never grants more than `per_minute` and a share for the time that went by."""
    budget = SplitBudget(per_minute)
    now_s = 0.0
    granted = 0
    for step_s in steps_s:
        now_s += step_s
        granted += budget.spend(now_s)
        assert granted <= per_minute * (1 + now_s / 60) + 1e-6


def test_grants_what_it_promises_when_asked_often() -> None:
    """Asking in small steps loses nothing to rounding: an hour of asking is an hour's worth, one at most missing."""
    budget = SplitBudget(10)
    assert sum(budget.spend(tick / 10) for tick in range(36_001)) in (609, 610)
