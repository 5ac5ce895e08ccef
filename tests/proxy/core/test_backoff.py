import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.backoff import wait_seconds
from proxy.core.outcome import Reply, Retryable, judge

MIDDLE = 0.5  # the dice that changes nothing


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("upstream_timeout", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("upstream_500", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("upstream_503", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("upstream_408", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("upstream_600", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("storage", [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
        ("upstream_429", [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        ("upstream_401", [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]),
        ("upstream_403", [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]),
        ("upstream_300", [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]),
        ("upstream_308", [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]),
        ("upstream_399", [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]),
    ],
)
def test_waits_double_by_reason(reason: str, waits: list[float]) -> None:
    """Each kind of trouble has its own first wait, doubled up to its own longest."""
    outcome = Retryable(reason)
    assert [wait_seconds(outcome, failures, MIDDLE) for failures in range(1, len(waits) + 1)] == pytest.approx(waits)


@pytest.mark.parametrize(
    ("reason", "failures", "dice", "seconds"),
    [
        ("upstream_500", 1, 0.0, 0.16),
        ("upstream_500", 1, 0.75, 0.22),
        ("upstream_500", 50, 0.0, 8.0),
        ("upstream_429", 3, 0.0, 3.2),
        ("upstream_401", 1, 0.0, 30.0),
        ("upstream_302", 1, 0.25, 30.0),
        ("upstream_403", 1, 0.75, 33.0),
        ("upstream_403", 2, 0.0, 48.0),
    ],
)
def test_jitter(reason: str, failures: int, dice: float, seconds: float) -> None:
    """The dice moves a wait by up to a fifth; a refused credential and a redirect never wait less than 30 s."""
    assert wait_seconds(Retryable(reason), failures, dice) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("reason", "asked", "seconds"),
    [
        ("upstream_429", None, 1.0),
        ("upstream_429", 0.0, 1.0),
        ("upstream_429", 0.9, 1.0),
        ("upstream_429", 17.0, 17.0),
        ("upstream_503", 599.0, 599.0),
        ("upstream_503", 601.0, 600.0),
        ("upstream_503", float("inf"), 600.0),
        ("upstream_403", 5.0, 30.0),
        ("upstream_301", 45.0, 45.0),
    ],
)
def test_retry_after(reason: str, asked: float | None, seconds: float) -> None:
    """The upstream's wish counts where it is the longer wait, and up to ten minutes."""
    assert wait_seconds(Retryable(reason, asked), 1, MIDDLE) == seconds


@pytest.mark.parametrize("failures", [0, -5])
def test_no_failure_waits_as_the_first(failures: int) -> None:
    """A count from below 1 is no shorter wait than the first."""
    assert wait_seconds(Retryable("upstream_500"), failures, MIDDLE) == 0.2


@given(
    st.integers(0, 999),
    st.none() | st.floats(0, allow_nan=False),
    st.integers(1, 10**30),
    st.floats(0, 1, exclude_max=True),
)
def test_every_wait_is_bounded(status: int, asked: float | None, failures: int, dice: float) -> None:
    """No reply and no number of failures overflows, stops the lane for longer than ten minutes, or makes it spin."""
    outcome = judge(Reply(status), "partial", 0)
    if isinstance(outcome, Retryable):
        seconds = wait_seconds(Retryable(outcome.reason, asked), failures, dice)
        assert 0.16 - 1e-9 <= seconds <= 600.0
        assert seconds >= min(asked or 0.0, 600.0)
