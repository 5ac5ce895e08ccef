"""The compiled build and the plain one give the same answer to the same bytes, or the same type of error."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import CorruptRequestError, ProxyError, SeriesError
from tests.proxy.core.messages import BITS_64, NOW_MS, block, request, sample, varint
from tests.proxy.core.router import Router
from tests.proxy.core.strategies import HOSTILE, TRAPS, damaged, loose_requests
from tests.proxy.core.twins import Twin

pytestmark = pytest.mark.fuzz

Both = tuple[Twin, Twin]

MESSY: Final = st.one_of(st.lists(st.sampled_from(TRAPS)).map(b"".join), st.binary(max_size=40), damaged())


def _answer(ask: Callable[..., object], *given_to: object) -> object:
    """What was answered, or the type of our error; any other error is a failure of the test."""
    try:
        return ask(*given_to)
    except ProxyError as error:
        return type(error)


def _frames(twin: Twin, body: bytes) -> object:
    found = twin.wire.frames(body)
    return found.bounds, found.metadata, found.dropped


def _series(twin: Twin, entry: bytes) -> object:
    """All that is read of an entry, and its labels as text, or why they are none."""
    series = twin.timeseries.parse_series(entry, 0, len(entry))
    points = [(point.kind, point.time_ms, point.stale, point.raw) for point in series.points]
    return series.block, series.labels, points, series.unknown, _answer(series.text_labels)


@given(body=HOSTILE)
def test_frames_agree(both: Both, body: bytes) -> None:
    """Both builds find the same entries, metadata and other fields in any bytes, or refuse them alike."""
    pure, compiled = both
    answer = _answer(_frames, pure, body)
    assert answer == _answer(_frames, compiled, body)


@given(body=HOSTILE)
def test_entries_agree(both: Both, body: bytes) -> None:
    """Both builds read the same from each entry, and from the whole body taken for one; refused is it alone."""
    pure, compiled = both
    entries = [body]
    try:
        bounds = pure.wire.frames(body).bounds
    except ProxyError:
        bounds = []
    entries += [body[bounds[i] : bounds[i + 1]] for i in range(0, len(bounds), 2)]
    for entry in entries:
        answer = _answer(_series, pure, entry)
        assert answer == _answer(_series, compiled, entry)
        assert not isinstance(answer, type) or issubclass(answer, SeriesError)


@given(bodies=st.lists(st.one_of(loose_requests(), damaged()), min_size=1, max_size=4))
def test_scans_agree(both: Both, bodies: list[bytes]) -> None:
    """Both builds emit the same, in the same order, and ask for the same, request after request, damaged or not."""
    routers = [Router(twin) for twin in both]
    for body in bodies * 2:
        results = []
        for router in routers:
            parts = _answer(router.scan, body)
            results.append((parts, router.slow, router.refused, router.markers, router.fates, _remembered(router)))
        assert results[0] == results[1]


def _remembered(router: Router) -> object:
    """What the cache knows, and in which order it expects its series."""
    entries = router.cache.entries.values()
    expected: dict[bytes, bytes] = {entry.block: entry.next.block for entry in entries if entry.next}
    return expected, {entry.block: (entry.last_ms, entry.fast, entry.used) for entry in entries}


@given(raw=MESSY, at=st.integers(0, 45), end=st.integers(0, 45))
def test_fields_agree(both: Both, raw: bytes, at: int, end: int) -> None:
    """Both builds read the same varint and the same field at any place within any bytes, or refuse it alike."""
    end = min(end, len(raw))
    at = min(at, end)
    for name in ("read_varint", "read_field"):
        answers = [_answer(getattr(twin.wire, name), raw, at, end) for twin in both]
        assert answers[0] == answers[1]
        if isinstance(answers[0], tuple):
            assert at < answers[0][-1] <= end


@given(value=st.integers(0, BITS_64 - 1))
def test_varints_round_trip(both: Both, value: int) -> None:
    """Every number of 64 bits is written as the same varint by both builds, and read back from it."""
    for twin in both:
        raw: bytes = twin.wire.varint(value)
        assert raw == varint(value)
        assert twin.wire.read_varint(raw, 0, len(raw)) == (value, len(raw))


@given(length=st.integers(0, 1 << 40))
def test_frames_of_any_length(both: Both, length: int) -> None:
    """The frame before an entry is the same from both builds."""
    assert [twin.wire.frame(length) for twin in both] == [b"\x0a" + varint(length)] * 2


@given(body=HOSTILE, warm=st.booleans())
def test_only_our_errors_come_out(twin: Twin, body: bytes, *, warm: bool) -> None:
    """Any bytes are scanned to the end, with a cold cache or a warm one, or refused by our own error as a whole."""
    router = Router(twin)
    known = block(("__name__", "up"))
    if warm:
        router.scan(request(known + sample()))
    before = sum(router.fates.values())
    try:
        parts = router.scan(request(known + sample(None, NOW_MS)) + body)
    except ProxyError as error:
        assert isinstance(_answer(twin.wire.frames, body), type), error
    else:
        assert parts[0].body.startswith(request(known + sample(None, NOW_MS)))
        assert sum(part.samples for part in parts) == sum(router.fates.values()) - before


@given(body=st.binary(max_size=64))
def test_arbitrary_bytes_are_corrupt_or_a_request(twin: Twin, body: bytes) -> None:
    """Entries found in arbitrary bytes lie inside them, in order and apart; else the bytes are refused."""
    answer = _answer(_frames, twin, body)
    if isinstance(answer, tuple):
        bounds = answer[0]
        assert bounds == sorted(bounds)
        assert all(0 < bound <= len(body) for bound in bounds)
    else:
        assert isinstance(answer, type)
        assert issubclass(answer, ProxyError)
        assert answer is not ProxyError
        assert issubclass(answer, CorruptRequestError) or answer.__name__ == "MislabelledVersionError"
