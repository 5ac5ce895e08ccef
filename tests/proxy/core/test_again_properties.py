from collections import Counter
from collections.abc import Hashable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.books import QUARANTINED
from proxy.core.labels import LabelSet
from proxy.core.route import decide
from proxy.core.tenancy import Tenancy, Trust
from proxy.core.wire import Part
from tests.proxy.core.attempts import Attempts
from tests.proxy.core.ledger import World
from tests.proxy.core.scene import Document, labels_of, ms, points_of, read_series
from tests.proxy.core.worlds import (
    BAD,
    COPIES,
    DEVICES,
    DOCUMENTS,
    FEW_TIMES,
    OTHERS,
    TIMES,
    TRUSTS,
    Request,
    requests,
    tenancies,
)

pytestmark = pytest.mark.fuzz

EVERYTHING = ["value", "value", "histogram", "stale", "exemplar"]
SAMPLES = ["value", "value", "histogram"]
DISTINCT = [*DEVICES, *OTHERS, *BAD]
TENANTS = ["t0", "t1", "t2", "t3", "t4", "ml", "nlp", "stray"]

Change = tuple[list[Document], int] | Tenancy
Try = tuple[frozenset[str], bool]
"""The tenants that hand their parts back, and whether the disk takes what is quarantined."""
Got = tuple[str, Hashable, LabelSet, float, float | str]

TRIES = st.lists(st.tuples(st.frozensets(st.sampled_from(TENANTS)), st.booleans()), max_size=3)
DONE: Try = (frozenset(), True)


def _one_by_one(request: Request) -> Request:
    """The same points, each in an entry of its own."""
    return [(labels, [point]) for labels, points in request for point in points]


def _body(world: World, request: Request) -> bytes:
    return b"".join(world._series(labels, points).to_bytes() for labels, points in request)


def _change(world: World, change: Change) -> None:
    match change:
        case Tenancy():
            world.retenant(change)
        case (devices, until):
            world.load(devices, until)


def _got(parts: Iterable[Part]) -> Counter[Got]:
    """Every point in these parts, exemplars by their values."""
    found: Counter[Got] = Counter()
    for part in parts:
        for series in read_series(part.body):
            labels = labels_of(series)
            found.update((part.tenant, part.pair, labels, at, value) for at, value in points_of(series))
            found.update((part.tenant, part.pair, labels, -1, exemplar.value) for exemplar in series.exemplars)
    return found


def _without_markers(got: Counter[Got]) -> dict[Got, int]:
    return {one: times for one, times in got.items() if one[-1] != "stale"}


@given(
    tenancies(merging=True, dynamic=False),  # tenants that a request makes get more when it comes again
    TRUSTS,
    st.lists(
        st.one_of(
            DOCUMENTS,
            tenancies(merging=True, dynamic=False),
            st.tuples(requests([*DISTINCT, *COPIES], EVERYTHING, FEW_TIMES).map(_one_by_one), TRIES),
            st.tuples(requests(DISTINCT, EVERYTHING, TIMES), TRIES),
        ),
        min_size=2,
        max_size=8,
    ),
)
def test_as_if_it_had_come_once(
    tenancy: Tenancy, trust: Trust, steps: list[Change | tuple[Request, list[Try]]]
) -> None:
    """However often a request is sent again, tenants and quarantine have each of its samples once in the end."""
    many, once = World.of(tenancy, trust), World.of(tenancy, trust)
    for step in steps:
        match step:
            case (list() as request, list() as tries):
                body = _body(many, request)
                first, again = Attempts(once.scene, body, trust), Attempts(many.scene, body, trust)
                first.go()
                for busy, held in [*tries, DONE]:
                    again.go(*busy, held=held)
                assert again.complete
                assert _without_markers(_got(again.ended)) == _without_markers(_got(first.ended))
                assert Counter(held.entry for held in again.durable) == Counter(held.entry for held in first.durable)
            case Tenancy() | (list(), int()):
                _change(many, step)
                _change(once, step)


@given(
    tenancies(dynamic=False),
    TRUSTS,
    DOCUMENTS,
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(DEVICES + COPIES), st.sampled_from(["value", "stale"]), min_size=1),
            TRIES,
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_markers_come_again_too(
    tenancy: Tenancy,
    trust: Trust,
    document: Change,
    steps: list[tuple[dict[LabelSet, str], list[Try]]],
) -> None:
    """As long as time goes on, each marker, of the sender's making or our own, comes to who is to have it once."""
    many, once = World.of(tenancy, trust), World.of(tenancy, trust)
    _change(many, document)
    _change(once, document)
    for number, (points, tries) in enumerate(steps):
        body = _body(many, [(labels, [(10.0 * number + at, kind)]) for at, (labels, kind) in enumerate(points.items())])
        first, again = Attempts(once.scene, body, trust), Attempts(many.scene, body, trust)
        first.go()
        for busy, held in [*tries, DONE]:
            again.go(*busy, held=held)
        assert _got(again.ended) == _got(first.ended)


@given(
    tenancies(dynamic=False),
    TRUSTS,
    DOCUMENTS,
    requests(DISTINCT, SAMPLES, TIMES).map(_one_by_one),
    st.lists(
        st.tuples(
            st.tuples(st.frozensets(st.sampled_from(TENANTS)), st.booleans()),
            st.lists(st.one_of(DOCUMENTS, tenancies(dynamic=False), requests(DISTINCT, SAMPLES, TIMES)), max_size=2),
        ),
        max_size=3,
    ),
)
def test_nothing_is_lost_when_the_world_changes_meanwhile(
    tenancy: Tenancy,
    trust: Trust,
    document: Change,
    request: Request,
    tries: list[tuple[Try, list[Change | Request]]],
) -> None:
    """Who is to have a sample when its request is acknowledged has it, or it waits; and nobody has it twice."""
    world = World.of(tenancy, trust)
    _change(world, document)
    again = Attempts(world.scene, _body(world, request), trust)
    mine = dict(world.samples)
    for (busy, held), meanwhile in tries:
        again.go(*busy, held=held)
        for other in meanwhile if not again.complete else ():
            if isinstance(other, list):
                world.take(other)
            else:
                _change(world, other)
    again.go()
    assert again.complete
    got = _got(again.ended)
    assert set(_without_markers(got).values()) <= {1}
    had = {(tenant, labels, _number(value)) for tenant, _, labels, _, value in got}
    waiting = {
        _number(value) for each in again.durable for one in read_series(each.entry) for _, value in points_of(one)
    }
    for number, sample in mine.items():
        if sample.labels in BAD:
            continue
        decision = decide(sample.labels, ms(sample.at), trust, world.tenancy, world.scene.fleet)
        waits = number in waiting
        assert waits or decision.fate.kind != QUARANTINED
        for claim in decision.claims:
            comes_later = waits and claim.tenant.view != "raw"
            if claim.kept is not None and not claim.over_limit and not comes_later:
                assert (claim.tenant.id, claim.kept, number) in had


def _number(value: float | str) -> float:
    """The value by which a sample is known."""
    return float(str(value).removeprefix("sum ")) if value not in {"stale", "stale histogram"} else -1
