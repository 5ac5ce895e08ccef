import struct

import pytest

from proxy.core.wire import ALWAYS_TO
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
    recorded,
    request,
    sample,
)
from tests.proxy.core.router import NO_PAIR, Part, Router, To, Way
from tests.proxy.core.twins import Twin

UP = block(("__name__", "up"), ("job", "node"))
DOWN = block(("__name__", "down"), ("job", "node"))
MINE = block(("__name__", "up"), ("tenant", "mine"))


def _warm(twin: Twin, way: Way | None = None, known: bytes = UP) -> Router:
    """A router that has seen plain samples of a series, and expects that one again and again."""
    router = Router(twin) if way is None else Router(twin, lambda *_: way)
    router.scan(request(known + sample(), known + sample()))
    return router


def _sole(block_: bytes, *points: bytes) -> list[Part]:
    """One entry for the one tenant of `as_sent`."""
    return [Part("a", NO_PAIR, request(block_ + b"".join(points)), len(points), 0)]


VALUES = {
    "zero left out": None,
    "zero": 0.0,
    "minus zero": MINUS_ZERO,
    "one": 1.0,
    "smallest": 5e-324,
    "largest": 1.7976931348623157e308,
    "infinity": INFINITY,
    "minus infinity": struct.pack("<d", float("-inf")),
    "NaN": NAN,
    "NaN with other bits": bytes.fromhex("efcdab896745f3ff"),
    "stale marker": STALE,
    "signalling NaN, negative": bytes.fromhex("010000000000f0ff"),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_values_pass_bit_by_bit(twin: Twin, value: float | bytes | None) -> None:
    """A known series with one sample is passed on by scan alone, whatever its value, and the value keeps its bits."""
    router = _warm(twin)
    point = sample(value, NOW_MS + 1)
    assert router.scan(request(UP + point)) == _sole(UP, point)
    assert router.slow == []
    assert router.cache.fast_samples == 1


DEVICE_VALUES = {
    "a value": (1.5, True),
    "zero left out": (None, True),
    "minus infinity": (struct.pack("<d", float("-inf")), True),
    "NaN, negative": (bytes.fromhex("010000000000f8ff"), True),
    "stale marker": (STALE, False),
    "NaN": (NAN, False),
    "infinity": (INFINITY, False),
    "largest": (1.7976931348623157e308, False),
}


@pytest.mark.parametrize(("value", "fast"), DEVICE_VALUES.values(), ids=DEVICE_VALUES.keys())
def test_markers_of_device_series_are_left_to_the_resolver(
    twin: Twin, value: float | bytes | None, *, fast: bool
) -> None:
    """Of a device series, whatever could be a stale marker goes the slow way, and all other values the fast one."""
    router = _warm(twin, Way((To("a", NO_PAIR, MINE),), device=True))
    point = sample(value, NOW_MS + 1)
    parts = router.scan(request(UP + point))
    assert parts == ([] if value == STALE else _sole(MINE, point))
    assert (router.slow == []) == fast
    assert router.markers == ([(UP, NOW_MS + 1)] if value == STALE else [])


TIMES = {
    "now": (NOW_MS, True),
    "the first of six bytes, in 1971": (1 << 35, True),
    "before it": ((1 << 35) - 1, False),
    "the last of six bytes, in 2109": ((1 << 42) - 1, True),
    "after it": (1 << 42, False),
    "zero": (0, False),
    "one": (1, False),
    "before 1970": (-1, False),
    "the first there is": (-(1 << 63), False),
    "the last there is": ((1 << 63) - 1, False),
}


@pytest.mark.parametrize(("at_ms", "fast"), TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("value", [None, 1.5])
def test_odd_times_are_left_to_the_resolver(twin: Twin, at_ms: int, value: float | None, *, fast: bool) -> None:
    """Times that do not take six bytes go the slow way, and no time is changed by either."""
    router = _warm(twin)
    point = sample(value, at_ms)
    assert router.scan(request(UP + point)) == _sole(UP, point)
    assert (router.slow == []) == fast
    assert router.newest[UP] == (NOW_MS if fast else max(NOW_MS, at_ms))
    assert router.cache.find(UP).last_ms == max(NOW_MS, at_ms)


WINDOW = Way((To("a", NO_PAIR, UP),), NOW_MS - 10, NOW_MS + 10)

EDGES = {
    "before from": (NOW_MS - 11, ALWAYS_TO, False),
    "at from": (NOW_MS - 10, ALWAYS_TO, True),
    "inside": (NOW_MS, ALWAYS_TO, True),
    "last": (NOW_MS + 9, ALWAYS_TO, True),
    "at to": (NOW_MS + 10, ALWAYS_TO, False),
    "before until": (NOW_MS + 4, NOW_MS + 5, True),
    "at until": (NOW_MS + 5, NOW_MS + 5, False),
    "after until": (NOW_MS + 6, NOW_MS + 5, False),
}


@pytest.mark.parametrize(("at_ms", "until_ms", "fast"), EDGES.values(), ids=EDGES.keys())
def test_a_decision_is_good_within_its_window(twin: Twin, at_ms: int, until_ms: int, *, fast: bool) -> None:
    """A decision holds from its beginning, up to before its end and before the end of its epoch; else it is asked."""
    router = _warm(twin, WINDOW)
    router.epochs[0].until_ms = until_ms
    router.scan(request(UP + sample(1.0, at_ms)))
    assert (router.slow == []) == fast


def test_each_sample_is_held_against_the_window(twin: Twin) -> None:
    """Within one request too, only the samples inside the window go the fast way, before and after one outside."""
    router = _warm(twin, WINDOW)
    times = [NOW_MS, NOW_MS + 10, NOW_MS + 9, NOW_MS - 11, NOW_MS - 10]
    parts = router.scan(request(*(UP + sample(1.0, at_ms) for at_ms in times)))
    assert router.slow == [UP + sample(1.0, NOW_MS + 10), UP + sample(1.0, NOW_MS - 11)]
    assert parts == [Part("a", NO_PAIR, request(*(UP + sample(1.0, at_ms) for at_ms in times)), 5, 0)]


def test_a_void_decision_is_asked_for_anew(twin: Twin) -> None:
    """When the generation of its epoch moves on, a decision is used no more, until it has been made again."""
    router = _warm(twin)
    router.epochs[0].generation += 1
    again = request(UP + sample(2.0))
    for slow in ([UP + sample(2.0)], []):
        assert router.scan(again) == _sole(UP, sample(2.0))
        assert router.slow == slow


def test_another_epoch_voids_nothing(twin: Twin) -> None:
    """A decision does not care for the generation of an epoch that it was not made under."""
    router = _warm(twin)
    router.epochs[1].generation += 1
    router.scan(request(UP + sample(2.0)))
    assert router.slow == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_decision_that_is_not_fast_is_asked_for(twin: Twin, *, kept: bool) -> None:
    """A series whose entry is not for scan alone goes the slow way each time, whether predicted or looked up."""
    router = _warm(twin)
    router.cache.find(UP).fast = kept
    router.scan(request(DOWN + sample(), UP + sample()))
    assert (UP + sample() in router.slow) != kept


SHAPES = {
    "no points": UP,
    "nothing": b"",
    "no labels": sample(),
    "two samples": UP + sample(1.0, NOW_MS) + sample(2.0, NOW_MS + 1),
    "two zeros": UP + sample(None, NOW_MS) + sample(None, NOW_MS + 1),
    "time before value": UP + blob(2, number(2, NOW_MS) + double(1, 1.0)),
    "value twice": UP + blob(2, double(1, 1.0) + number(2, NOW_MS) + double(1, 2.0)),
    "no time": UP + blob(2, double(1, 1.0)),
    "an empty sample": UP + blob(2, b""),
    "an exemplar": UP + exemplar(),
    "a sample and an exemplar": UP + sample() + exemplar(),
    "an exemplar and a sample": UP + exemplar() + sample(),
    "a histogram": UP + histogram(),
    "a histogram's marker": UP + histogram(STALE),
    "an unknown field": UP + number(6, NOW_MS) + sample(),
    "an unknown field at the end": UP + sample() + number(6, NOW_MS),
    "an unknown field in the sample": UP + blob(2, double(1, 1.0) + number(2, NOW_MS) + number(7, 1)),
    "a label behind": UP + sample() + label(b"z", b"1"),
    "a label more": UP + label(b"z", b"1") + sample(),
    "a padded length": UP + blob(2, double(1, 1.0) + number(2, NOW_MS), 1),
    "a padded time": UP + blob(2, double(1, 1.0) + number(2, NOW_MS, 1)),
    "another number in the place of the time": UP + blob(2, double(1, 1.0) + number(3, NOW_MS)),
    "another number in the place of the time, no value": UP + blob(2, number(3, NOW_MS)),
    "a short sample of zero and more": UP + blob(2, number(2, 1, 3)) + number(7, 1),
    "an unknown field like a sample": UP + blob(7, sample()[2:]),
    "an unknown field like a sample of zero": UP + blob(7, sample(None)[2:]),
    "a sample of 18 bytes with a short time": UP
    + blob(2, double(1, 1.0) + number(2, 1, 2) + number(7, 1) + b"\x38\x01"),
}


@pytest.mark.parametrize("entry", SHAPES.values(), ids=SHAPES.keys())
def test_other_shapes_give_what_the_slow_way_gives(twin: Twin, entry: bytes) -> None:
    """An entry of any other shape goes the slow way, between entries that go the fast one."""
    router = _warm(twin)
    body = request(UP + sample(3.0), entry, UP + sample(4.0))
    assert router.scan(body) == Router(twin, kept=False).walk(body)
    assert router.slow == [entry]
    assert router.refused == 0


def test_a_padded_time_is_a_time(twin: Twin) -> None:
    """A small time that is padded to six bytes is no other time: it goes the fast way as it is."""
    router = _warm(twin)
    point = blob(2, double(1, 1.0) + number(2, 1, 5))
    assert router.scan(request(UP + point)) == _sole(UP, point)
    assert router.slow == []
    assert router.cache.find(UP).last_ms == NOW_MS


MALFORMED = {
    "a sample cut": UP + sample()[:-1],
    "a sample that ends in a cut time": UP + blob(2, double(1, 1.0) + b"\x10" + b"\x80" * 6),
    "a sample too long": UP + b"\x12\x11" + sample()[2:],
    "a sample too short": UP + b"\x12\x0f" + sample()[2:],
    "a sample of zero with a cut time": UP + b"\x12\x05\x10" + b"\x80" * 5 + b"\x01",
    "a sample of zero, too long": UP + b"\x12\x08" + sample(None)[2:],
    "a value of four bytes": UP + b"\x12\x10\x0d" + sample()[3:],
    "a label cut": UP[:-1] + sample(),
    "one byte": b"\x0a",
    "zeros": bytes(30),
    "a wrong wire type": UP + number(2, 1),
}


@pytest.mark.parametrize("entry", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_bad_entry_is_left_to_the_resolver(twin: Twin, entry: bytes) -> None:
    """A malformed entry goes the slow way, which may refuse it; its neighbours go on the fast way in the same scan."""
    router = _warm(twin)
    parts = router.scan(request(UP + sample(1.0), entry, UP + sample(2.0), entry, UP + sample(3.0)))
    assert router.slow == [entry, entry]
    assert router.refused == 2
    assert parts == [Part("a", NO_PAIR, request(*(UP + sample(value) for value in (1.0, 2.0, 3.0))), 3, 0)]


@pytest.mark.parametrize(("first", "second"), [("prometheus-1", "prometheus-2"), ("vmagent-1", "vmagent-2")])
def test_a_real_sender_goes_the_fast_way(twin: Twin, first: str, second: str) -> None:
    """Of the second scrape of a real sender every sample goes the fast way, byte for byte as it came."""
    router = Router(twin)
    router.scan(recorded(first))
    parts = router.scan(recorded(second))
    assert router.slow == []
    assert [part.body for part in parts] == [recorded(second)]
    assert router.cache.fast_samples == parts[0].samples > 0


def test_a_real_sender_of_histograms(twin: Twin) -> None:
    """Native histograms of a real sender pass as they came, by the slow way, with its other samples on the fast one."""
    router = Router(twin)
    router.scan(recorded("prometheus-histograms-1"))
    parts = router.scan(recorded("prometheus-histograms-2"))
    assert [part.body for part in parts] == [recorded("prometheus-histograms-2")]
    assert router.cache.fast_samples == 9
    assert len(router.slow) == 8
