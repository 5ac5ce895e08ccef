"""Whatever was cached, expected or evicted: scan emits what the slow way alone emits."""

import zlib
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import RequestError
from proxy.core.wire import ALWAYS_FROM, ALWAYS_TO
from tests.proxy.core.messages import (
    INFINITY,
    MINUS_ZERO,
    NAN,
    NOW_MS,
    STALE,
    blob,
    block,
    double,
    exemplar,
    histogram,
    label,
    number,
    request,
    sample,
)
from tests.proxy.core.router import Router, To, Way
from tests.proxy.core.strategies import damaged
from tests.proxy.core.twins import Twin

PERIOD_MS: Final = 1000
"""How long a decision is good: the tenants of a series are other ones in each period."""

BLOCKS: Final = [
    *(block(("__name__", "up"), ("i", str(i))) for i in range(12)),
    block(("__name__", "up")),
    block(("__name__", "up"), ("i", "1"), ("j", "1")),
    block(("__name__", "\x12\x10\x09" + "x" * 6)),
    block(("__name__", "up"), ("z", "\x12\x07\x10")),
    block(("j", "1"), ("__name__", "up")),
]
TIMES: Final = st.one_of(
    *[st.integers(-2, 2).map(lambda periods: NOW_MS + periods * PERIOD_MS)] * 3,
    st.integers(NOW_MS - PERIOD_MS, NOW_MS + PERIOD_MS),
    st.sampled_from([NOW_MS - 1, NOW_MS + PERIOD_MS - 1, 0, -1, 1 << 35, (1 << 42) - 1, 1 << 42]),
)

pytestmark = pytest.mark.fuzz
VALUES: Final = st.sampled_from([None, 1.5, 0.0, MINUS_ZERO, NAN, INFINITY, STALE, STALE])


def _shaped(shape: str, known: bytes, value: bytes | float | None, at_ms: int) -> bytes:
    """An entry of a series, most often the way that senders write it."""
    point = sample(value, at_ms)
    shapes = {
        "two": known + point + sample(2.5, at_ms + PERIOD_MS),
        "backwards": known + blob(2, number(2, at_ms) + double(1, 2.0)),
        "exemplar": known + point + exemplar(0.5, at_ms),
        "exemplar only": known + exemplar(0.5, at_ms),
        "histogram": known + histogram(STALE if value == STALE else 1.0, at_ms),
        "late label": point + known,
        "one label more": known + label(b"z", b"1") + point,
        "unknown field": known + point + number(7, at_ms),
        "labels only": known,
        "nothing": b"",
        "refused": known + number(2, 1) + point,
        "cut": (known + point)[:-1],
    }
    return shapes.get(shape, known + point)


SHAPES: Final = ["plain"] * 12 + [
    *("two", "backwards", "exemplar", "exemplar only", "histogram", "late label", "one label more"),
    *("unknown field", "labels only", "nothing", "refused", "cut"),
]
ENTRIES: Final = st.builds(_shaped, st.sampled_from(SHAPES), st.sampled_from(BLOCKS), VALUES, TIMES)


@dataclass(frozen=True, slots=True)
class Send:
    """A request arrives."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Forget:
    """A series is evicted."""

    block: bytes


@dataclass(frozen=True, slots=True)
class Void:
    """What was decided under an epoch holds no more; its decisions are good up to a time from now on."""

    epoch: int
    until_ms: int


def _cycle(at_ms: int, picked: list[int]) -> Send:
    """A scrape: plain samples of one time, in an order that comes again and again."""
    return Send(request(*(BLOCKS[i] + sample(1.5, at_ms) for i in picked)))


STEPS: Final = st.lists(
    st.one_of(
        st.builds(_cycle, TIMES, st.sampled_from([list(range(17)), list(range(16, -1, -1)), [5, 6, 7], [12, 0, 13]])),
        st.builds(Send, st.lists(ENTRIES, max_size=12).map(lambda entries: request(*entries))),
        st.builds(Forget, st.sampled_from(BLOCKS)),
        st.builds(Void, st.integers(0, 1), st.sampled_from([1 << 62, NOW_MS, NOW_MS + 1])),
    ),
    max_size=12,
)


def _policy(known: bytes, at_ms: int, router: Router) -> Way:
    """Tenants, labels, pair and lifetime of a decision by the hash of the series, the period and the generation."""
    crc = zlib.crc32(known)
    epoch = crc >> 3 & 1
    if at_ms >= router.epochs[epoch].until_ms:
        return Way((), device=bool(crc & 1), kept=False, epoch=epoch)
    period = at_ms // PERIOD_MS
    first = crc + period + router.epochs[epoch].generation
    extra = label(b"period", str(period).encode())
    to = tuple(
        To(f"tenant {(first + i) % 4}", ("c", "ab"[crc >> 4 & 1]), known + extra if i else known)
        for i in range((crc >> 1) % 4)
    )
    window = (max(period * PERIOD_MS, ALWAYS_FROM), min((period + 1) * PERIOD_MS, ALWAYS_TO))
    return Way(to, *window, device=bool(crc & 1), kept=crc >> 5 & 7 != 0, epoch=epoch)


def _assert_equal(router: Router, reference: Router, body: bytes) -> None:
    assert router.scan(body) == reference.walk(body)
    assert router.markers == reference.markers
    assert router.refused == reference.refused
    assert router.fates == reference.fates
    for entry in router.cache.entries.values():
        assert entry.last_ms == reference.newest.get(entry.block, entry.last_ms)
    assert router.cache.fast_samples <= sum(router.fates.values())


@given(steps=STEPS)
def test_the_cache_changes_nothing(twin: Twin, steps: list[Send | Forget | Void]) -> None:
    """Whatever came before, and in whatever order, each tenant gets the bytes that it would get without."""
    router = Router(twin, _policy)
    reference = Router(twin, _policy, kept=False)
    for step in steps:
        match step:
            case Send():
                _assert_equal(router, reference, step.body)
            case Forget():
                router.forget(step.block)
                reference.forget(step.block)
            case Void():
                for each in (router, reference):
                    each.epochs[step.epoch].generation += 1
                    each.epochs[step.epoch].until_ms = step.until_ms


@given(
    steps=st.lists(st.lists(ENTRIES, min_size=1, max_size=12).map(lambda entries: request(*entries)), max_size=5),
    last=damaged(st.lists(ENTRIES, max_size=12).map(lambda entries: request(*entries))),
)
def test_damage_is_seen_through_a_warm_cache(twin: Twin, steps: list[bytes], last: bytes) -> None:
    """A damaged request gives the same through a cache that knows its series as without one."""
    router = Router(twin, _policy)
    reference = Router(twin, _policy, kept=False)
    for body in steps:
        _assert_equal(router, reference, body)
    try:
        twin.wire.frames(last)
    except RequestError:
        return
    _assert_equal(router, reference, last)


def test_the_policy_is_worth_its_name() -> None:
    """Among the series are device series and others, of both epochs and pairs, kept or not, with 0 to 3 tenants."""
    hashes = [zlib.crc32(each) for each in BLOCKS]
    kinds = {(crc & 1, crc >> 3 & 1, crc >> 4 & 1, crc >> 5 & 7 != 0, (crc >> 1) % 4) for crc in hashes}
    assert [set(column) for column in zip(*kinds, strict=True)] == [{0, 1}] * 4 + [{0, 1, 2, 3}]
