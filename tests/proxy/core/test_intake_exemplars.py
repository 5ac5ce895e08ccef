"""Exemplars stay with their series, in one part, and each is passed on or dropped, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.prompb.types_pb2 import TimeSeries
from proxy.core.labels import LabelSet
from proxy.core.tenancy import Tenancy, Trust
from proxy.core.wire import Part
from tests.proxy.core.ledger import World
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import (
    STALE,
    Document,
    Scene,
    Series,
    card,
    interval,
    labels_of,
    owner,
    read_series,
    rules,
    tenants,
    util,
)
from tests.proxy.core.worlds import BAD, COPIES, DEVICES, DOCUMENTS, OTHERS, TIMES, TRUSTS, Request, requests, tenancies

HISTORY = card(interval(0, 20, owner("ml")), interval(20, None, owner("nlp")))
E1 = util(pod="exporter")


def told(part: Part) -> list[tuple[str, int, int]]:
    """Of each entry of a part the card's number, its samples and its exemplars."""
    return [
        (labels_of(each).get("gpu"), len(each.samples) + len(each.histograms), len(each.exemplars))
        for each in read_series(part.body)
    ]


def by_tenant(scene: Scene) -> dict[str, list[tuple[str, int, int]]]:
    """What the last request brought each tenant, which is one part for each."""
    parts = scene.taken.parts
    assert len({part.tenant for part in parts}) == len(parts)
    return {part.tenant: told(part) for part in parts}


@pytest.mark.parametrize("times", [1, 2])
def test_in_the_entry_of_their_sample(times: int) -> None:
    """What came in one entry goes in one, to each tenant, with the bytes that it came with."""
    scene = Scene(tenancy_of("raw"), HISTORY)
    series = Series(E1, (10, 1.0)).exemplar(10, 5.0, trace_id="t").exemplar(9, 6.0)
    for _ in range(times):
        scene.take(series)
        assert by_tenant(scene) == {"ml": [("0", 1, 2)], "raw": [("0", 1, 2)]}
    tail = TimeSeries()
    tail.CopyFrom(series.message)
    tail.ClearField("labels")
    assert all(part.body.endswith(tail.SerializeToString()) for part in scene.taken.parts)


def test_histograms_have_theirs() -> None:
    """A histogram and its exemplars go in one entry."""
    scene = Scene(tenancy_of(), HISTORY)
    scene.take(Series(E1).histogram(10, 5.0).exemplar(10, 5.0))
    assert by_tenant(scene) == {"ml": [("0", 1, 1)]}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_entries_of_their_own(known: bool, first: bool) -> None:  # noqa: FBT001 - a table's columns
    """Prometheus puts each into an entry of its own: it goes in the part of its series' samples, in its place."""
    scene = Scene(tenancy_of("raw"), HISTORY)
    sample, exemplar, other = Series(E1, (11, 1.0)), Series(E1).exemplar(11, 5.0), Series(util(gpu="1"), (11, 1.0))
    if known:
        scene.take(Series(E1, (10, 1.0)), Series(util(gpu="1"), (10, 1.0)))
    scene.take(exemplar, sample, other) if first else scene.take(sample, other, exemplar)
    expected = [("0", 0, 1), ("0", 1, 0), ("1", 1, 0)] if first else [("0", 1, 0), ("1", 1, 0), ("0", 0, 1)]
    assert by_tenant(scene) == {"ml": expected, "raw": expected}
    assert scene.fast() == (2 if known else 0)
    assert (scene.taken.received, scene.taken.exemplars_dropped) == (2, 0)


def test_pairs() -> None:
    """An exemplar goes with the (cluster, replica) pair of its series, never with another's."""
    scene = Scene(tenancy_of(), HISTORY)
    pairs = [("c", "a"), ("c", "b")]
    series = [util(cluster=cluster, __replica__=replica) for cluster, replica in pairs]
    scene.take(*(Series(each, (10, 1.0)) for each in series), *(Series(each).exemplar(10, 5.0) for each in series))
    assert [(part.pair, told(part)) for part in scene.taken.parts] == [
        (pair, [("0", 1, 0), ("0", 0, 1)]) for pair in pairs
    ]


def test_as_of_their_own_time() -> None:
    """An exemplar goes to who owned the device at its own time, and ends, begins and voids nothing."""
    scene = Scene(tenancy_of(), HISTORY)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E1).exemplar(25, 5.0))
    assert by_tenant(scene) == {"nlp": [("0", 0, 1)]}
    scene.take(Series(E1, (11, 1.0)))
    assert (by_tenant(scene), scene.fast()) == ({"ml": [("0", 1, 0)]}, 1)
    scene.take(Series(E1, (25, 2.0)).exemplar(15, 5.0).exemplar(25, 5.0))
    assert by_tenant(scene) == {"ml": [("0", 1, 0), ("0", 0, 1)], "nlp": [("0", 1, 0), ("0", 0, 1)]}
    assert (scene.made("ml"), scene.taken.exemplars_dropped) == (1, 0)


def test_as_the_rules_say() -> None:
    """An exemplar gets the labels of its series, and goes where that goes: not to a tenant that drops it."""
    renamed = rules(Written(regex="UUID|pod", action="labeldrop"), Written(target_label="gpu", replacement="7"))
    dropped = rules(Written(source_labels=("gpu",), regex="0", action="drop"))
    made = tenants(("ml", "owned", renamed), ("drops", "joined", dropped), ("raw", "raw"))
    scene = Scene(Tenancy(made, {"ml": made[0]}), HISTORY)
    for series in (Series(E1).exemplar(10, 5.0), Series(E1, (11, 1.0)).exemplar(11, 5.0)):
        scene.take(series)
        count = len(series.message.samples)
        assert by_tenant(scene) == {"raw": [("0", count, 1)], "ml": [("7", count, 1)]}
        assert scene.taken.exemplars_dropped == 0


def test_too_many_labels() -> None:
    """A tenant that gets no sample for its labels gets no exemplar; where nobody gets one it is dropped, once."""
    many = rules(*(Written(target_label=f"l{at}", replacement="x") for at in range(30)))
    for views, dropped in (((), 1), (("raw",), 0)):
        made = tenants(("ml", "owned", many), *((view, view) for view in views))
        scene = Scene(Tenancy(made, {"ml": made[0]}), HISTORY)
        scene.take(Series(E1, (10, 1.0)).exemplar(10, 5.0))
        assert by_tenant(scene) == {view: [("0", 1, 1)] for view in views}
        assert scene.taken.exemplars_dropped == dropped


@pytest.mark.parametrize(
    ("policy", "fate"),
    [("quarantine", "quarantined:unknown_owner"), ("drop", "filtered:unowned"), ("reject", "rejected:unknown_owner")],
)
@pytest.mark.parametrize("alone", [False, True])
def test_of_what_nobody_owns(policy: str, fate: str, alone: bool) -> None:  # noqa: FBT001 - a table's column
    """Whatever becomes of the samples, their exemplars are dropped, each once, and are no samples of the books."""
    scene = Scene(tenancy_of(unowned=policy), HISTORY)
    nobodys = util(UUID="GPU-none")
    parts = [Series(nobodys, (10, 1.0), (11, 2.0)), Series(nobodys).exemplar(10, 5.0).exemplar(11, 5.0)]
    if not alone:
        parts[0].message.exemplars.extend(parts.pop().message.exemplars)
    scene.take(*parts)
    assert (scene.taken.exemplars_dropped, scene.taken.parts) == (2, [])
    assert scene.fates() == {fate: 2}
    assert sum(held.samples for held in scene.taken.held) == 2 * (policy == "quarantine")
    assert not any(each.exemplars for held in scene.taken.held for each in read_series(held.entry))


@pytest.mark.parametrize("bad", [LabelSet.of({"job": "x"}), LabelSet.of({"__name__": "x", "n": "v" * 2049})])
def test_of_a_series_that_is_refused(bad: LabelSet) -> None:
    """The exemplars of a series that is refused are dropped, each once, also where there is no sample."""
    scene = Scene(tenancy_of("raw"), HISTORY)
    scene.take(Series(bad, (10, 1.0)).exemplar(10, 5.0), Series(bad).exemplar(10, 5.0).exemplar(11, 5.0))
    assert (scene.taken.exemplars_dropped, scene.taken.received, scene.taken.parts) == (3, 1, [])


def test_beside_a_marker() -> None:
    """An exemplar beside a stale marker goes where the series went."""
    scene = Scene(tenancy_of(), HISTORY)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E1, (11, STALE)).exemplar(11, 5.0))
    assert by_tenant(scene) == {"ml": [("0", 1, 0), ("0", 0, 1)]}


def test_of_values_that_rules_made_one() -> None:
    """Where a tenant has another value of that time already the sample is dropped, its exemplar is not."""
    merging = rules(Written(regex="side", action="labeldrop"))
    made = tenants(("all", "raw", merging))
    scene = Scene(Tenancy(made), HISTORY)
    left, right = (Series({"__name__": "heart", "side": side}, (10, 1.0)) for side in ("left", "right"))
    scene.take(left, right.exemplar(10, 5.0))
    (part,) = scene.taken.parts
    assert (part.samples, part.exemplars, scene.taken.exemplars_dropped) == (1, 1, 0)
    assert scene.books.tenants["all"].dropped == {"collision": 1}


SERIES = requests([*DEVICES, *COPIES, *OTHERS, *BAD], ["value", "histogram", "stale", "exemplar", "exemplar"], TIMES)


@pytest.mark.fuzz
@given(tenancies(merging=True), TRUSTS, st.lists(st.one_of(DOCUMENTS, SERIES, SERIES), min_size=2, max_size=8))
def test_each_goes_to_somebody_or_is_dropped_once(
    tenancy: Tenancy, trust: Trust, steps: list[tuple[list[Document], int] | Request]
) -> None:
    """Nobody gets an exemplar twice, nor one of a series that he could not have; who gets none is counted once."""
    world = World.of(tenancy, trust)
    for step in steps:
        if isinstance(step, tuple):
            world.load(*step)
            continue
        came = len(world.samples)
        world.take(step)
        exemplars = [kind == "exemplar" for _, points in step for _, kind in points]
        values = {float(came + at) for at, is_exemplar in enumerate(exemplars, 1) if is_exemplar}
        found = []
        for part in world.scene.taken.parts:
            entries = read_series(part.body)
            got = [(part.tenant, each.value) for entry in entries for each in entry.exemplars]
            assert part.exemplars == len(got)
            assert all((part.tenant, labels_of(entry)) in world.ever for entry in entries if entry.exemplars)
            found += got
        passed_on = {value for _, value in found}
        assert len(found) == len(set(found))
        assert passed_on <= values
        assert world.scene.taken.exemplars_dropped == len(values - passed_on)
