import math
import struct

import pytest

from proto.prompb import types_pb2
from proxy.core.gathering import SENTENCES
from proxy.core.labels import LabelSet
from proxy.core.tenancy import Tenancy
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import (
    STALE,
    Scene,
    Series,
    card,
    interval,
    owner,
    read_series,
    rules,
    tenants,
    util,
    varint,
)

ML, NLP = owner("ml"), owner("nlp")
E1 = util(pod="exporter")
HANDED_OVER = card(interval(0, 20, ML), interval(20, None, NLP))
UNKNOWN = b"\x2a\x03abc\x30\x01\x3d\x00\x00\x00\x00\x41\x00\x00\x00\x00\x00\x00\x00\x00"
GOOD = Series(util(gpu="7"), (10, 7.0))


def _tail(series: Series) -> bytes:
    """What comes after the labels of an entry, as sent."""
    whole = types_pb2.TimeSeries()
    whole.CopyFrom(series.message)
    del whole.labels[:]
    return whole.SerializeToString()


VALUES = [
    *(0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308),
    struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0],
    struct.unpack("<d", b"\x03\x00\x00\x00\x00\x00\xf0\x7f")[0],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: struct.pack("<d", value).hex())
@pytest.mark.parametrize("times", [1, 3])
def test_value_bytes_survive(value: float, times: int) -> None:
    """A sample goes out with the bytes that it came with, by the slow way and by the fast one."""
    scene = Scene(tenancy_of("raw"), HANDED_OVER)
    for at in range(times):
        series = Series(E1, (10 + at, value))
        scene.take(series)
        assert all(part.body.endswith(_tail(series)) for part in scene.taken.parts)
        assert [part.tenant for part in scene.taken.parts] == ["ml", "raw"]


def test_absent_value_and_zero() -> None:
    """A sample without a value field means 0, and goes out without one, also the fast way and as a cut run."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    plain = Series(E1, (10, 0.0), (19, 0.0), (20, 0.0))
    scene.take(plain)
    assert scene.got("nlp") == [("nlp-0", 20, 0.0)]
    for _ in range(2):
        scene.take(Series(E1, (25, 0.0)))
        assert scene.taken.parts[0].body.endswith(b"\x12\x07" + _tail(Series(E1, (25, 0.0)))[2:])
    assert scene.fast() == 1


def test_unknown_fields_survive() -> None:
    """Fields of an entry that nobody knows go out with each run that it is cut into."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    scene.take(Series(E1, (10, 1.0), (15, 1.0), (25, 2.0), unknown=UNKNOWN))
    bodies = {part.tenant: part.body for part in scene.taken.parts}
    (first, ended), (second,) = read_series(bodies["ml"]), read_series(bodies["nlp"])
    assert first.SerializeToString().endswith(_tail(Series(E1, (10, 1.0), (15, 1.0))) + UNKNOWN)
    assert second.SerializeToString().endswith(_tail(Series(E1, (25, 2.0))) + UNKNOWN)
    assert UNKNOWN not in ended.SerializeToString()


def test_unknown_fields_in_the_quarantine() -> None:
    """What waits keeps its unknown fields, and its labels as sent."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    series = Series(util(UUID="GPU-none", pod="x"), (10, 1.0), (11, 2.0), unknown=UNKNOWN)
    scene.take(series)
    assert [held.entry for held in scene.taken.held] == [series.to_bytes()]
    assert [(held.reason, held.samples) for held in scene.taken.held] == [("unknown_owner", 2)]


def test_exemplars_go_with_their_series() -> None:
    """Exemplars go out with the samples of their time, are counted by themselves, and are no units of the books."""
    scene = Scene(tenancy_of("raw"), HANDED_OVER)
    scene.take(Series(E1, (10, 1.0)).exemplar(10, 5.0, trace_id="t").exemplar(25, 6.0))
    assert [(part.tenant, part.samples, part.exemplars) for part in scene.taken.parts] == [
        ("ml", 1, 1),
        ("raw", 1, 2),
        ("nlp", 0, 1),
    ]
    assert (scene.taken.received, scene.taken.exemplars_dropped, scene.fates()) == (1, 0, {"routed": 1})


@pytest.mark.parametrize("fed_before", [True, False])
def test_exemplars_without_samples(fed_before: bool) -> None:  # noqa: FBT001 - a table's column
    """Prometheus sends exemplars in entries of their own: they go where their series goes."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    if fed_before:
        scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E1).exemplar(11, 5.0, trace_id="t"))
    assert [(part.tenant, part.samples, part.exemplars) for part in scene.taken.parts] == [("ml", 0, 1)]
    assert scene.taken.received == 0


def test_exemplars_that_go_nowhere() -> None:
    """Exemplars of what is held back, filtered or refused are dropped and counted."""
    scene = Scene(tenancy_of(drop="nlp"), HANDED_OVER)
    nobody, unnamed = util(UUID="GPU-none"), LabelSet.of({"job": "x"})
    for labels, at in ((nobody, 10), (E1, 25), (unnamed, 10)):
        scene.take(Series(labels, (at, 1.0)).exemplar(at, 5.0).exemplar(at, 6.0))
        assert (scene.taken.parts, scene.taken.exemplars_dropped) == ([], 2)
    scene.take(Series(nobody).exemplar(10, 5.0))
    assert (scene.taken.exemplars_dropped, scene.taken.held) == (1, [])


def test_held_without_exemplars() -> None:
    """What waits in the quarantine is samples only; a raw view gets the exemplars too."""
    scene = Scene(tenancy_of("raw"), HANDED_OVER)
    series = Series(util(UUID="GPU-none"), (10, 1.0)).exemplar(10, 5.0)
    scene.take(series)
    (held,) = scene.taken.held
    assert (len(read_series(held.entry)[0].exemplars), held.samples) == (0, 1)
    assert [(part.samples, part.exemplars) for part in scene.taken.parts] == [(1, 1)]


def test_histograms() -> None:
    """Native histograms are units like samples: cut at a hand-over, bytes unchanged."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    series = Series(E1).histogram(10, 5.0).histogram(25, 6.0)
    scene.take(series)
    assert scene.got("ml") == [("ml-0", 10, "sum 5"), ("ml-0", 20, "stale")]
    assert scene.got("nlp") == [("nlp-0", 25, "sum 6")]
    assert scene.taken.parts[1].body.endswith(series.message.histograms[1].SerializeToString())
    assert scene.fates() == {"routed": 2}


BAD = [
    pytest.param(Series({"a": "b"}, (1, 1.0)).to_bytes(), "missing_name", id="no name"),
    pytest.param(
        Series((("a", "1"), ("__name__", "x"), ("a", "2")), (1, 1.0)).to_bytes(), "duplicate_label", id="twice"
    ),
    pytest.param(Series((("__name__", "x"), ("", "2")), (1, 1.0)).to_bytes(), "empty_label_name", id="unnamed label"),
    pytest.param(
        Series({"__name__": "x", "n" * 1025: "v"}, (1, 1.0)).to_bytes(), "label_name_too_long", id="long name"
    ),
    pytest.param(
        Series({"__name__": "x", "n": "v" * 2049}, (1, 1.0)).to_bytes(), "label_value_too_long", id="long value"
    ),
    pytest.param(b"\x0a\x0a\x0a\x06\x0a\x01\xff\x12\x01x\x12\x00", "invalid_utf8", id="not UTF-8"),
    pytest.param(b"\x0a\x02\x0a\x05", "malformed_series", id="a label is cut"),
    pytest.param(b"\x0a\x03\x12\x01\x09", "malformed_series", id="a sample is cut"),
    pytest.param(b"\x0a\x02\x10\x01", "malformed_series", id="samples are no message"),
    pytest.param(b"\x0a\x01\x0b", "malformed_series", id="a group"),
    pytest.param(b"\x0a\x04\x12\x02\x08\x01", "malformed_series", id="a value of the wrong type"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_bad_series_costs_itself_only(bad: bytes, reason: str) -> None:
    """A series that cannot be taken is refused by its reason, and the rest of its request goes on."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    for _ in range(2):
        taken = scene.take_bytes(GOOD.to_bytes() + bad + GOOD.to_bytes())
        assert scene.got("ml") == [("ml-0", 10, 7.0)] * 2
        assert (taken.received, taken.refused) == (3, 1)
        assert [sentence.split(":")[0] for sentence in taken.refusals] == [reason]
        assert all("\n" not in sentence and len(sentence) < 400 for sentence in taken.refusals)
    assert scene.fates() == {"routed": 4, f"rejected:{reason}": 2}


@pytest.mark.parametrize("at", [1024, 2048])
def test_limits_are_inclusive(at: int) -> None:
    """A name of 1024 bytes and a value of 2048 bytes pass; bytes count, not characters."""
    name, value = ("n" * at, "v") if at == 1024 else ("n", "v" * at)
    scene = Scene(tenancy_of("raw"))
    scene.take(Series({"__name__": "x", name: value}, (1, 1.0)), Series({"__name__": "x", "n": "é" * 1025}, (1, 1.0)))
    assert scene.fates() == {"routed": 1, "rejected:label_value_too_long": 1}


def test_ten_sentences() -> None:
    """A sender is told ten reasons at most, each once, and how many samples they concern."""
    scene = Scene(tenancy_of())
    bad = [Series({"a": f"{at % 15}"}, (1, 1.0), (2, 1.0)) for at in range(30)]
    taken = scene.take(*bad)
    assert len(taken.refusals) == len(set(taken.refusals)) == SENTENCES
    assert (taken.refused, taken.received, scene.fates()) == (60, 60, {"rejected:missing_name": 60})


def test_rejected_for_want_of_an_owner() -> None:
    """With `unowned: reject` the sender is told of each sample, and nothing waits."""
    scene = Scene(tenancy_of(unowned="reject"), HANDED_OVER)
    taken = scene.take(Series(util(UUID="GPU-none"), (10, 1.0), (11, 1.0)), GOOD)
    assert (taken.held, taken.refused, len(taken.refusals)) == ([], 2, 1)
    assert taken.refusals[0].startswith("unknown_owner: ")
    assert scene.fates() == {"rejected:unknown_owner": 2, "routed": 1}


def test_too_many_labels() -> None:
    """Where a tenant would get too many labels its part is dropped and the sender told; others have theirs."""
    many = rules(*(Written(target_label=f"l{at}", replacement="x") for at in range(30)))
    made = tenants(("ml", "owned", many), ("joined", "joined"))
    scene = Scene(Tenancy(made, {"ml": made[0]}), HANDED_OVER)
    for at in (10, 11):
        scene.take(Series(E1, (at, 1.0)))
        assert (scene.got("ml"), scene.got("joined")) == ([], [("ml-0", at, 1.0)])
        assert (scene.taken.refused, scene.taken.refusals[0].split(":")[0]) == (1, "labels_per_series")
    scene.take(Series(E1, (25, 1.0)))
    assert scene.got("joined") == [("ml-0", 20, "stale"), ("nlp-0", 25, 1.0)]
    assert scene.books.tenants["ml"].dropped == {"labels_per_series": 2}
    assert scene.fates() == {"routed": 3}


def test_entry_without_points() -> None:
    """An entry that has labels only brings nothing and is no error."""
    scene = Scene(tenancy_of(*ALL), HANDED_OVER)
    taken = scene.take(Series(E1), Series({}))
    assert (taken.received, taken.parts, scene.intake.cached_series) == (0, [], 0)


@pytest.mark.parametrize("time_ms", [-(1 << 63), -1, 0, (1 << 62) - 1, 1 << 62, (1 << 63) - 1])
def test_times_out_of_this_world(time_ms: int) -> None:
    """Any 64-bit time is taken: of a device nobody knows the owner, other series go as sent, markers too."""
    scene = Scene(tenancy_of("joined"), HANDED_OVER)
    for labels in (E1, LabelSet.of({"__name__": "up"})):
        for value in (1.0, 2.0, STALE):
            series = Series(labels, (0, value))
            series.message.samples[0].timestamp = time_ms
            for _ in range(2):
                scene.take(series)
    assert scene.fates() == {"quarantined:unknown_owner": 4, "filtered:stale": 2, "routed": 6}


def test_late_labels_and_repeated_fields() -> None:
    """Labels may stand after the samples and apart, and fields be repeated: a strict decoder reads the same."""
    label = b"\x0a\x0b\x0a\x01b\x0a\x01a\x12\x00\x12\x01v"
    name = b"\x0a" + varint(14) + b"\x0a\x08__name__\x12\x02up"
    sample = b"\x12\x04\x10\x05\x10\x07"
    entry = sample + label + sample + name
    scene = Scene(tenancy_of("raw"))
    scene.take_bytes(b"\x0a" + varint(len(entry)) + entry)
    (series,) = read_series(scene.taken.parts[0].body)
    assert [(one.name, one.value) for one in series.labels] == [(b"__name__", b"up"), (b"a", b"v")]
    assert [(one.timestamp, one.value) for one in series.samples] == [(7, 0.0), (7, 0.0)]
    assert series.SerializeToString() == name + b"\x0a\x06\x0a\x01a\x12\x01v" + b"\x12\x02\x10\x07" * 2


def test_samples_and_histograms_of_one_entry_are_sent_apart() -> None:
    """An entry that has both is cut where the kind changes, in order; an exemplar stays with what was before it."""
    series = Series({"__name__": "m"}, (21, 1.0)).histogram(22, 3.0).exemplar(22, 0.5, trace="a").histogram(23, 4.0)
    scene = Scene(tenancy_of("raw"))
    scene.take(series)
    sent = read_series(scene.taken.parts[0].body)
    assert [(len(one.samples), len(one.histograms), len(one.exemplars)) for one in sent] == [(1, 0, 1), (0, 2, 0)]
