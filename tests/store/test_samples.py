from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import BucketSpan, Exemplar, Histogram, Label, MetricMetadata
from store.errors import StoreBodyError
from store.reading import SampleReader, bits_float, float_bits
from store.samples import CACHED_SERIES, SampleStore
from tests.store.bodies import body, entry, from_bits, to_bits

EVER = (-(1 << 63), 1 << 63)
UP = {"__name__": "up", "job": "dcgm"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    """A store of its own."""
    with closing(SampleStore(tmp_path / "tenants" / "team-ml.db")) as made:
        yield made


def _samples(store: SampleStore, labels: dict[str, str]) -> list[tuple[int, float]]:
    return [
        sample
        for found, samples in SampleReader(store.path).select(labels, *EVER)
        if found == labels
        for sample in samples
    ]


BITS = {
    "stale marker": 0x7FF0000000000002,
    "NaN": 0x7FF8000000000001,
    "NaN with sign and payload": 0xFFF8DEADBEEF0001,
    "minus zero": 0x8000000000000000,
    "zero": 0,
    "infinity": 0x7FF0000000000000,
    "minus infinity": 0xFFF0000000000000,
    "smallest": 1,
    "largest": 0x7FEFFFFFFFFFFFFF,
    "a tenth": 0x3FB999999999999A,
    "one": 0x3FF0000000000000,
}


@pytest.mark.parametrize("bits", BITS.values(), ids=BITS.keys())
def test_values_keep_their_bits(store: SampleStore, bits: int) -> None:
    """A value comes back bit for bit, also where SQLite would make NULL or another zero of it."""
    store.append(body(entry(UP, (1000, from_bits(bits)))))
    [(at_ms, value)] = _samples(store, UP)
    assert (at_ms, to_bits(value)) == (1000, bits)


@given(st.integers(0, (1 << 64) - 1))
def test_bits_of_floats(bits: int) -> None:
    """Each of the 64 bits of a float is kept on the way through the database's number."""
    assert to_bits(bits_float(float_bits(from_bits(bits)))) == bits


def test_first_value_of_a_time_stays(store: SampleStore) -> None:
    """Of several values for one time the first stays, in one request and over several; the rest is not counted."""
    assert store.append(body(entry(UP, (1, 1.0), (1, 2.0)), entry(UP, (1, 3.0), (2, 4.0)))) == 2
    assert store.append(body(entry(UP, (1, 5.0), (2, 6.0), (3, 7.0)))) == 1
    assert _samples(store, UP) == [(1, 1.0), (2, 4.0), (3, 7.0)]
    assert SampleReader(store.path).count() == 3


def test_times_in_any_order(store: SampleStore) -> None:
    """Times may come in any order, from the first to the last that a sample can bear, and are read in theirs."""
    first, last = -(1 << 63), (1 << 63) - 1
    store.append(body(entry(UP, (50, 5.0), (20, 2.0))))
    store.append(body(entry(UP, (last, 9.0), (first, 0.0), (30, 3.0))))
    assert _samples(store, UP) == [(first, 0.0), (20, 2.0), (30, 3.0), (50, 5.0)]
    assert SampleReader(store.path).count() == 5


def test_labels_in_any_order_are_one_series(store: SampleStore) -> None:
    """The order of labels and labels with empty values make no other series."""
    store.append(body(entry([("job", "dcgm"), ("__name__", "up"), ("pod", "")], (1, 1.0))))
    store.append(body(entry([("__name__", "up"), ("job", "dcgm")], (2, 2.0))))
    assert list(SampleReader(store.path).series()) == [UP]
    assert _samples(store, UP) == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("my.name", "ü \U0001f600", id="beyond ASCII"),
        pytest.param("quote", "\"'\\\n{}", id="quotes"),
        pytest.param("nul", "a\0b", id="NUL"),
        pytest.param("long", "x" * 100_000, id="long"),
    ],
)
def test_any_text_is_kept(store: SampleStore, name: str, value: str) -> None:
    """Label names and values may be any text, and find their series."""
    labels = {"__name__": "up", name: value}
    store.append(body(entry(labels, (1, 1.0)), entry(UP, (1, 1.0))))
    assert list(SampleReader(store.path).series({name: value})) == [labels]


def test_series_without_samples(store: SampleStore) -> None:
    """A series is there from its first sample on."""
    assert store.append(body(entry(UP))) == 0
    assert store.append(b"") == 0
    assert list(SampleReader(store.path).series()) == []


def test_histograms_are_kept_as_they_came(store: SampleStore) -> None:
    """A native histogram is kept as a message, apart from floats, and the first of either kind stays at a time."""
    histogram = Histogram(
        count_int=3,
        sum=from_bits(BITS["stale marker"]),
        schema=3,
        zero_threshold=0.001,
        zero_count_int=1,
        positive_spans=[BucketSpan(offset=-2, length=2)],
        positive_deltas=[1, -1],
        reset_hint=Histogram.GAUGE,
        timestamp=2,
    )
    store.append(body(entry(UP, (1, 1.0), (3, 3.0), histograms=[histogram])))
    store.append(body(entry(UP, (2, 9.0), histograms=[Histogram(timestamp=3, sum=1)])))
    assert _samples(store, UP) == [(1, 1.0), (3, 3.0)]
    [(labels, histograms)] = SampleReader(store.path).select_histograms({}, *EVER)
    assert labels == UP
    assert histograms == [(2, histogram.SerializeToString())]


def test_what_is_not_kept_does_no_harm(store: SampleStore) -> None:
    """Exemplars, metadata and unknown fields are passed over, and make no other series."""
    with_exemplar = entry(UP, (1, 1.0))
    with_exemplar.exemplars.append(Exemplar(labels=[Label(name=b"trace", value=b"x")], value=1, timestamp=1))
    request = WriteRequest(
        timeseries=[with_exemplar], metadata=[MetricMetadata(metric_family_name=b"up", help=b"\xff")]
    )
    unknown = entry(UP, (2, 2.0)).SerializeToString() + b"\x7a\x01x"
    store.append(request.SerializeToString())
    store.append(b"\x0a" + bytes([len(unknown)]) + unknown)
    assert list(SampleReader(store.path).series()) == [UP]
    assert SampleReader(store.path).count() == 2


def test_metadata_alone(store: SampleStore) -> None:
    """A request of nothing but metadata is taken, and nothing of it is kept."""
    store.append(WriteRequest(timeseries=[entry(UP, (1, 1.0))]).SerializeToString())
    metadata = [
        MetricMetadata(type=MetricMetadata.COUNTER, metric_family_name=b"up", help=b"Help.", unit=b"s")
        for _ in range(3)
    ]
    assert store.append(WriteRequest(metadata=metadata).SerializeToString()) == 0
    assert list(SampleReader(store.path).series()) == [UP]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x0a\x7f", id="length past the end"),
        pytest.param(b"\xff" * 20, id="endless number"),
        pytest.param(body(entry([], (1, 1.0))), id="no labels"),
        pytest.param(body(entry([("job", "")], (1, 1.0))), id="no label with a value"),
        pytest.param(body(entry([("", "x")], (1, 1.0))), id="no name"),
        pytest.param(body(entry([("a", "x"), ("a", "x")], (1, 1.0))), id="a label twice"),
        pytest.param(body(entry([("a", "x"), ("a", "")], (1, 1.0))), id="a label twice, once empty"),
        pytest.param(body(entry([("a", b"\xff")], (1, 1.0))), id="value not UTF-8"),
        pytest.param(body(entry([(b"\xed\xa0\x80", "x")], (1, 1.0))), id="name with half a surrogate pair"),
        pytest.param(body(entry(UP, (1, 1.0)), entry([], (1, 1.0))), id="a good series before a bad one"),
    ],
)
def test_bodies_that_cannot_be_stored(store: SampleStore, raw: bytes) -> None:
    """A body with anything that cannot be stored is refused as a whole, and what comes next is stored as ever."""
    with pytest.raises(StoreBodyError, match=r"team-ml\.db"):
        store.append(raw)
    assert SampleReader(store.path).count() == 0
    assert list(SampleReader(store.path).series()) == []
    assert store.append(body(entry(UP, (1, 1.0)))) == 1
    assert _samples(store, UP) == [(1, 1.0)]


GOOD = body(entry(UP, (1, 1.0), (2, 2.0), histograms=[Histogram(timestamp=3, sum=1)]))


@pytest.mark.fuzz
@given(start=st.integers(0, len(GOOD)), end=st.integers(0, len(GOOD)), raw=st.binary(max_size=20))
def test_any_body(start: int, end: int, raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any bytes, of a request or not, are stored or refused with our own error."""
    with closing(SampleStore(tmp_path_factory.mktemp("any") / "any.db")) as store:
        try:
            stored = store.append(GOOD[:start] + raw + GOOD[end:])
        except StoreBodyError:
            stored = 0
        assert SampleReader(store.path).count() == stored


def test_more_series_than_are_remembered(store: SampleStore) -> None:
    """More label blocks than the cache holds are still told apart and told to be the same."""
    blocks = [
        entry([("__name__", "up"), ("job", "dcgm"), (f"empty_{n}", "")], (n, n)) for n in range(CACHED_SERIES + 2)
    ]
    assert store.append(body(*blocks, blocks[0])) == len(blocks)
    assert list(SampleReader(store.path).series()) == [UP]


def test_closed_store(tmp_path: Path) -> None:
    """What was appended is there for the next one that opens the file."""
    path = tmp_path / "x.db"
    for at_ms in (1, 2):
        with closing(SampleStore(path)) as store:
            store.append(body(entry(UP, (at_ms, 1.0))))
    assert SampleReader(path).count() == 2
