import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.outcome import (
    DELIVERED,
    Delivered,
    Outcome,
    Refusal,
    Refused,
    Reply,
    Retryable,
    answer,
    is_too_old,
    judge,
    retry_after_seconds,
)

NOW_MS = 784111777000  # Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, DELIVERED),
        (202, DELIVERED),
        (204, DELIVERED),
        (299, DELIVERED),
        (300, Retryable("upstream_300")),
        (301, Retryable("upstream_301")),
        (307, Retryable("upstream_307")),
        (400, Refused("upstream_400_partial", 400)),
        (401, Retryable("upstream_401")),
        (403, Retryable("upstream_403")),
        (404, Refused("upstream_404", 404)),
        (408, Retryable("upstream_408")),
        (409, Refused("upstream_409", 409)),
        (413, Refused("upstream_413", 413)),
        (415, Refused("upstream_415", 415)),
        (422, Refused("upstream_422", 422)),
        (429, Retryable("upstream_429")),
        (499, Refused("upstream_499", 499)),
        (500, Retryable("upstream_500")),
        (503, Retryable("upstream_503")),
        (599, Retryable("upstream_599")),
        (101, Retryable("upstream_101")),
        (0, Retryable("upstream_0")),
        (600, Retryable("upstream_600")),
        (999, Retryable("upstream_999")),
    ],
)
def test_status_decides(status: int, expected: Outcome) -> None:
    """Each status has one meaning for a store that keeps the good series of a 400."""
    assert judge(Reply(status), "partial", NOW_MS) == expected


@pytest.mark.parametrize(("refusal", "reason"), [("partial", "upstream_400_partial"), ("whole", "upstream_400")])
def test_400_means_what_the_endpoint_says(refusal: Refusal, reason: str) -> None:
    """A 400 is counted by whether the store keeps the rest of the request."""
    assert judge(Reply(400), refusal, NOW_MS) == Refused(reason, 400)


def test_refusal_concerns_400_only() -> None:
    """Other permanent answers have one reason, whatever the endpoint's 400 means."""
    assert judge(Reply(413), "whole", NOW_MS) == judge(Reply(413), "partial", NOW_MS)


@pytest.mark.parametrize("status", [0, 204, 400])
def test_transport_error_outranks_the_status(status: int) -> None:
    """A reply that did not come whole is retried, whatever its first line said."""
    assert judge(Reply(status, error="timeout"), "partial", NOW_MS) == Retryable("upstream_timeout")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7\t", 7.0),
        ("999999999", 999999999.0),
        ("1000000000", None),
        ("9" * 5000, None),
        ("-1", None),
        ("1.5", None),
        ("+5", None),
        ("\u0661", None),
        ("", None),
        ("soon", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        ("Sun, 99 Nov 1994 08:49:00 GMT", None),
        ("Sun, 06 Nov 1994 08:49:00 CET", None),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    """A delay is read as seconds or as any of the three dates of RFC 9110, never below zero; anything else is none."""
    assert retry_after_seconds(text, NOW_MS) == seconds


def test_retry_after_comes_with_the_outcome() -> None:
    """What the upstream asked for is told to whoever plans the next attempt."""
    assert judge(Reply(503, retry_after="17"), "partial", NOW_MS) == Retryable("upstream_503", 17.0)


@pytest.mark.fuzz
@given(st.text(), st.integers(-(2**63), 2**63 - 1))
@example("Mon, 01 Jan 0001 00:00:00 GMT", 0)
def test_any_retry_after_is_a_delay_or_none(text: str, now_ms: int) -> None:
    """No header value raises, and no delay is negative."""
    seconds = retry_after_seconds(text, now_ms)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([], 204),
        ([DELIVERED], 204),
        ([DELIVERED, Refused("x", 400)], 400),
        ([Refused("x", 422), DELIVERED], 400),
        ([DELIVERED, Retryable("x"), Refused("x", 400)], 503),
        ([Refused("x", 400), Retryable("x")], 503),
    ],
)
def test_answer_precedence(outcomes: list[Outcome], status: int) -> None:
    """Retryable outranks permanent, permanent outranks success, and nothing to send is success."""
    assert answer(outcomes) == status


@given(st.lists(st.sampled_from([Delivered(), Refused("x", 400), Retryable("x")])))
def test_answer_does_not_depend_on_the_order(outcomes: list[Outcome]) -> None:
    """The answer is that of the worst outcome, wherever it stands."""
    assert answer(outcomes) == answer(reversed(outcomes)) == max((answer([each]) for each in outcomes), default=204)


def test_code_is_the_status_or_the_error() -> None:
    """The metrics' label is bounded: a status, or one of our own words."""
    assert (Reply(503).code, Reply(0, error="refused").code) == ("503", "refused")


_CORTEX = b"maxFailure (quorum) on a given error family, addr=127.0.0.1:9095 state=ACTIVE zone=, rpc error: "
_CORTEX += b"code = Code(400) desc = user=T: err: %b. timestamp=2026-11-30T21:00:00Z, series={__name__=%b}\n"
_MIMIR = (
    b"failed pushing to ingester: user=T: the sample has been rejected because %b (err-mimir-%b). The affected sample"
)
_FUTURE = b"out of bounds: timestamp is too far in the future"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"out of order sample\n", True),
        (b"too old sample\n", True),
        (b"out of bounds\n", True),
        (b"Out Of Order Sample", True),
        (b"duplicate sample for timestamp\n", True),
        (b"duplicate sample for timestamp 1796048877470; overrides not allowed: existing 1, new value 2\n", True),
        (b'timestamp too old: 1796048877470 metric: "m"\n', True),
        (_CORTEX % (b"out of order sample", b'"m"'), True),
        (_CORTEX % (b"out of bounds", b'"m"'), True),
        (_CORTEX % (b"too old sample", b'"m"'), True),
        (
            _CORTEX % (b"duplicate sample for timestamp 17; overrides not allowed: existing 1, new value 2", b'"m"'),
            True,
        ),
        (_MIMIR % (b"its timestamp is too old", b"sample-timestamp-too-old"), True),
        (_MIMIR % (b"it is beyond the out-of-order time window of 2h", b"sample-timestamp-too-old"), True),
        (_MIMIR % (b"out-of-order samples are not allowed", b"sample-out-of-order"), True),
        (_MIMIR % (b"another value has been ingested", b"sample-duplicate-timestamp"), True),
        (b"2 errors: add 1 samples: out of order sample; add 3 samples: too old sample", True),
        (_FUTURE + b"\nout of order sample\n", True),
        (b'label value too long: "\\\\" then out of bounds', True),
        (b"", False),
        (b"bad request", False),
        (_FUTURE, False),
        (b'timestamp too new: 1796056737470 metric: "m"\n', False),
        (b"received a sample whose timestamp is too far in the future (err-mimir-too-far-in-future).", False),
        (b'label value too long for metric (actual: 2049, limit: 2048) metric: "m" label name: "k"', False),
        (b"ingestion rate limit (5) exceeded while adding 6 samples and 0 metadata", False),
        (b"user=T: per-user series limit of 5 exceeded, please contact administrator to raise it", False),
        (b"out of order exemplar", False),
        (b"labels out of order", False),
        (b'duplicate label name: "k" metric "m{k=\\"x\\", k=\\"x\\"}"', False),
        (b'sample invalid label: "out of order sample" metric "too old sample"', False),
        (b'sample invalid label: "a\\" out of bounds \\" b"', False),
        (b'label value too long for metric: "out of bounds', False),
    ],
)
def test_is_too_old(body: bytes, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    """Each store's text for a sample that comes too late is known, whatever its case; a label's value says nothing."""
    assert is_too_old(body) is expected


@given(st.binary())
def test_any_text_is_too_old_or_not(body: bytes) -> None:
    """No body raises, and what is quoted never decides."""
    assert is_too_old(body) in (True, False)
    quoted = body.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    assert not is_too_old(b'label value too long: "' + quoted + b"out of order sample" + b'"')
