"""Any bytes are read as a series that accounts for each of them, as the runtime reads it, or refused by our error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.prompb.types_pb2 import TimeSeries
from proxy.core.errors import InvalidUtf8Error, MalformedSeriesError, RequestError
from tests.fuzz.mutations import mutants
from tests.proxy.core.twins import Twin

pytestmark = pytest.mark.fuzz


def _check(twin: Twin, body: bytes, start: int, end: int) -> None:
    try:
        series = twin.timeseries.parse_series(body, start, end)
    except MalformedSeriesError:
        return
    pieces = [series.block, series.unknown, *(point.raw for point in series.points)]
    assert sum(len(piece) for piece in pieces) == end - start
    theirs = TimeSeries.FromString(body[start:end])
    assert series.labels == tuple((label.name, label.value) for label in theirs.labels)
    assert len(series.points) == len(theirs.samples) + len(theirs.exemplars) + len(theirs.histograms)
    again = twin.timeseries.parse_series(series.block, 0, len(series.block))
    assert (again.labels, again.points, again.unknown) == (series.labels, (), b"")
    try:
        texts = series.text_labels()
    except InvalidUtf8Error:
        return
    assert [(name.encode(), value.encode()) for name, value in texts] == list(series.labels)


@given(seed=st.integers(0, 1 << 48))
def test_entries_of_damaged_requests(twin: Twin, seed: int) -> None:
    """The entries of damaged requests, and each whole request taken for an entry."""
    for body in mutants(seed):
        _check(twin, body, 0, len(body))
        try:
            bounds = twin.wire.frames(body).bounds
        except RequestError:
            continue
        for start, end in zip(bounds[::2], bounds[1::2], strict=True):
            _check(twin, body, start, end)


@given(body=st.binary(max_size=1 << 12), cut=st.integers(0, 1 << 12))
def test_any_bytes(twin: Twin, body: bytes, cut: int) -> None:
    """Bytes that were never an entry, and a part of them."""
    _check(twin, body, 0, len(body))
    _check(twin, body, min(cut, len(body)), len(body))
