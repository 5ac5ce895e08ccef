from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.reading import SampleReader
from store.samples import SampleStore
from tests.store.bodies import body, entry

A = {"__name__": "util", "gpu": "0", "pod": "a"}
B = {"__name__": "util", "gpu": "1"}
C = {"__name__": "power", "gpu": "0"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    """Three series with samples of the times 10, 20, 30, at first of B only."""
    with closing(SampleStore(tmp_path / "x.db")) as made:
        made.append(body(entry(B, (10, 1.0))))
        made.append(body(*(entry(labels, (30, 3.0), (20, 2.0), (10, 9.0)) for labels in (A, B, C))))
        yield made


@pytest.mark.parametrize(
    ("matchers", "found"),
    [
        pytest.param({}, [B, A, C], id="all"),
        pytest.param({"__name__": "util"}, [B, A], id="by name"),
        pytest.param({"gpu": "0"}, [A, C], id="by label"),
        pytest.param({"__name__": "util", "gpu": "0"}, [A], id="by both"),
        pytest.param({"gpu": "0", "__name__": "util", "pod": "a"}, [A], id="by all"),
        pytest.param({"pod": ""}, [B, C], id="without a label"),
        pytest.param({"pod": "", "gpu": "0"}, [C], id="with one, without another"),
        pytest.param({"gpu": ""}, [], id="all have it"),
        pytest.param({"gpu": "2"}, [], id="no such value"),
        pytest.param({"card": "0"}, [], id="no such label"),
        pytest.param({"gpu": "' OR 1 --"}, [], id="no way into the query"),
        pytest.param({"": "0"}, [], id="no label has no name"),
    ],
)
def test_matchers(store: SampleStore, matchers: dict[str, str], found: list[dict[str, str]]) -> None:
    """Series are found by exact values, "" for a label that is absent, in the order in which they first came."""
    assert list(SampleReader(store.path).series(matchers)) == found
    assert [labels for labels, _ in SampleReader(store.path).select(matchers, 0, 100)] == found


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "times"),
    [
        pytest.param(0, 100, [10, 20, 30], id="all"),
        pytest.param(10, 30, [10, 20], id="from is in, to is not"),
        pytest.param(11, 31, [20, 30], id="between"),
        pytest.param(21, 30, [], id="none"),
        pytest.param(30, 10, [], id="backwards"),
        pytest.param(-(1 << 70), 1 << 70, [10, 20, 30], id="beyond what the database can count"),
    ],
)
def test_ranges(store: SampleStore, from_ms: int, to_ms: int, times: list[int]) -> None:
    """A range has its start and not its end; a series without samples in it is left out."""
    assert [at_ms for _, samples in SampleReader(store.path).select(A, from_ms, to_ms) for at_ms, _ in samples] == times
    assert len(list(SampleReader(store.path).select(A, from_ms, to_ms))) == bool(times)


def test_a_select_is_one_moment(store: SampleStore) -> None:
    """What is appended while a select is being read is not in it, and is in the next one."""
    more = {"__name__": "more"}
    with closing(SampleReader(store.path).select({}, 0, 100)) as reading:
        first = next(reading)
        store.append(body(entry(more, (15, 1.0))))
        rest = list(reading)
    assert [labels for labels, _ in [first, *rest]] == [B, A, C]
    assert [labels for labels, _ in SampleReader(store.path).select({}, 0, 100)] == [B, A, C, more]


def test_a_select_that_is_given_up(store: SampleStore) -> None:
    """A select that is closed early holds nothing: the file can be read and written as before."""
    with closing(SampleReader(store.path).select({}, 0, 100)) as reading:
        next(reading)
    store.append(body(entry(A, (40, 1.0))))
    assert [at_ms for _, samples in SampleReader(store.path).select(A, 0, 100) for at_ms, _ in samples] == [
        10,
        20,
        30,
        40,
    ]
