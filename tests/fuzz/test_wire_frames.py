"""Any bytes are taken apart into entries that lie inside them, in order and apart, or refused by our own error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import MislabelledVersionError, RequestError
from tests.fuzz.mutations import corpus, mutants
from tests.proxy.core.messages import blob
from tests.proxy.core.twins import Twin

pytestmark = pytest.mark.fuzz


def _check(twin: Twin, body: bytes) -> None:
    try:
        found = twin.wire.frames(body)
    except RequestError as error:
        assert type(error) is not RequestError
        return
    at = 0
    taken = sum(len(blob(3, raw)) for raw in found.metadata)
    for start, end in zip(found.bounds[::2], found.bounds[1::2], strict=True):
        assert at < start <= end <= len(body)
        taken += len(blob(1, body[start:end]))
        at = end
    assert taken + 2 * found.dropped <= len(body)


@given(seed=st.integers(0, 1 << 48))
def test_damaged_requests(twin: Twin, seed: int) -> None:
    """Requests of real senders, damaged."""
    for body in mutants(seed):
        _check(twin, body)


@given(body=st.binary(max_size=1 << 12))
def test_any_bytes(twin: Twin, body: bytes) -> None:
    """Bytes that were never a request."""
    _check(twin, body)


def test_the_corpus_is_taken(twin: Twin) -> None:
    """What mutants are made of is well formed, so that their damage is near to what passes."""
    for body in corpus():
        try:
            twin.wire.frames(body)
        except MislabelledVersionError:
            assert body.startswith(blob(4, b""))
