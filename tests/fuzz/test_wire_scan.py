"""Any request is passed on the same with a cache that knows its series as without one, by both builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import RequestError
from proxy.core.wire import ALWAYS_TO
from tests.fuzz.mutations import corpus, mutants
from tests.proxy.core.router import NO_PAIR, Part, Router, To, Way
from tests.proxy.core.twins import Twin

pytestmark = pytest.mark.fuzz


def _two_tenants(known: bytes, at_ms: int, _router: Router) -> Way:
    """One tenant sees series as sent, another under other labels; each second is decided anew."""
    period = at_ms >> 10 << 10
    to = (To("raw", NO_PAIR, known), To("owner", ("c", str(len(known) % 2)), known[::-1]))
    return Way(to[: 1 + len(known) % 2], period, min(period + (1 << 10), ALWAYS_TO), device=len(known) % 3 == 0)


@given(seed=st.integers(0, 1 << 48))
def test_damaged_requests(both: tuple[Twin, Twin], seed: int) -> None:
    """Requests of real senders, damaged, behind the same requests undamaged."""
    routers = [Router(twin, _two_tenants) for twin in both]
    reference = Router(both[0], _two_tenants, kept=False)
    seeds = corpus()
    for body in [seeds[seed % len(seeds)], *mutants(seed)]:
        try:
            expected = reference.walk(body)
        except RequestError as error:
            for router in routers:
                with pytest.raises(type(error)):
                    router.scan(body)
            continue
        for router in routers:
            assert router.scan(body) == expected
            assert (router.refused, router.markers) == (reference.refused, reference.markers)
            assert router.fates == reference.fates


def test_the_corpus_goes_the_fast_way(twin: Twin) -> None:
    """Most of what mutants are made of goes the fast way the second time, so that its damage is met there too."""
    router = Router(twin)
    fast = slow = 0
    for body in corpus() * 2:
        try:
            parts: list[Part] = router.scan(body)
        except RequestError:
            continue
        fast += router.cache.fast_samples
        slow += sum(part.samples for part in parts) - router.cache.fast_samples
    assert fast > 2 * slow
