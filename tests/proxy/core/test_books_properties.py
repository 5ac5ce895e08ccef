from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.books import QUARANTINED
from proxy.core.tenancy import Tenancy, Trust
from tests.proxy.core.ledger import Delivered, World
from tests.proxy.core.scene import Document, interval, ms, owner
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

EVERYTHING = ["value", "value", "histogram", "stale", "stale", "exemplar"]
NO_MARKERS = ["value", "value", "histogram", "exemplar"]
DISTINCT = [*DEVICES, *OTHERS, *BAD]
Step = tuple[list[Document], int] | Request | Tenancy


def _steps(asked: st.SearchStrategy[Request], tenancy: st.SearchStrategy[Tenancy]) -> st.SearchStrategy[list[Step]]:
    """Documents, requests and other configurations in any order, twice as many requests as others."""
    return st.lists(st.one_of(DOCUMENTS, asked, asked, asked, tenancy), min_size=2, max_size=10)


def _go(world: World, step: Step, tick: int = 1) -> list[Delivered]:
    match step:
        case Tenancy():
            world.retenant(step)
        case (list() as devices, int(until)):
            world.load(devices, until)
        case list():
            return world.take(step, tick)
    return []


HOSTILE = _steps(requests([*DISTINCT, *COPIES], EVERYTHING, FEW_TIMES), tenancies(merging=True))
PLAIN = _steps(requests(DISTINCT, NO_MARKERS, TIMES), tenancies(merging=True))
UNMERGED = _steps(requests(DISTINCT, NO_MARKERS, TIMES), tenancies())
CACHES = st.sampled_from([0, 3000, 1 << 30])


@given(tenancies(merging=True), TRUSTS, HOSTILE, CACHES)
def test_nobody_gets_what_is_not_his(tenancy: Tenancy, trust: Trust, steps: list[Step], cache_bytes: int) -> None:
    """A sample reaches a tenant only as its owner at that time, or by a view or setting, and labelled so."""
    world = World.of(tenancy, trust, cache_bytes)
    for step in steps:
        for got in _go(world, step):
            if got.value == "stale":
                assert (got.tenant, got.labels) in world.ever
                continue
            sample = world.samples[float(got.value)]
            assert got.at == sample.at
            assert world.may_have(got.tenant, sample), (got, sample)
            assert got.pair == (sample.labels.get("cluster"), sample.labels.get("__replica__"))
            assert (got.tenant, got.labels) in world.ever


@given(tenancies(merging=True), TRUSTS, HOSTILE, CACHES)
def test_books_balance(tenancy: Tenancy, trust: Trust, steps: list[Step], cache_bytes: int) -> None:
    """Each received sample has one fate, and what is routed makes a part, or a drop that is counted."""
    world = World.of(tenancy, trust, cache_bytes)
    for step in steps:
        before, dropped_before = Counter(world.scene.fates()), _dropped(world)
        parts = _go(world, step)
        if not isinstance(step, list):
            continue
        received = sum(kind != "exemplar" for _, points in step for _, kind in points)
        fates = Counter(world.scene.fates())
        fates.subtract(before)
        assert min(fates.values(), default=0) >= 0
        assert world.scene.taken.received == received == fates.total()
        assert fates["routed"] <= len(parts) + _dropped(world) - dropped_before
        held = sum(count for name, count in fates.items() if name.startswith(QUARANTINED))
        assert sum(one.samples for one in world.scene.taken.held) == held


def _dropped(world: World) -> int:
    return sum(tenant.dropped.total() for tenant in world.scene.books.tenants.values())


@given(tenancies(merging=True), TRUSTS, PLAIN, CACHES)
def test_same_as_sample_by_sample(tenancy: Tenancy, trust: Trust, steps: list[Step], cache_bytes: int) -> None:
    """The fates and parts of any batch are those of its samples decided one by one, with nothing remembered."""
    world = World.of(tenancy, trust, cache_bytes)
    for step in steps:
        _go(world, step)
        assert Counter(world.scene.fates()) == world.fates
        made = Counter({name: tenant.parts - tenant.made for name, tenant in world.scene.books.tenants.items()})
        assert +made == +world.parts


def _values(delivered: list[Delivered]) -> Counter[tuple[object, ...]]:
    """What was delivered but for markers, in no order."""
    return Counter((got.tenant, got.pair, got.labels, got.at, got.value) for got in delivered if got.value != "stale")


@given(tenancies(), TRUSTS, UNMERGED)
def test_memory_changes_no_answer(tenancy: Tenancy, trust: Trust, steps: list[Step]) -> None:
    """A warm cache, one that is too small, one without room, and one that forgets all the time answer the same."""
    worlds = [World.of(tenancy, trust, size) for size in (1 << 30, 2500, 0)]
    forgetful = World.of(tenancy, trust)
    for step in steps:
        forgetful.scene.forget()
        answers = [_values(_go(world, step)) for world in (*worlds, forgetful)]
        assert all(answer == answers[0] for answer in answers)
        assert all(world.scene.fates() == worlds[0].scene.fates() for world in (*worlds, forgetful))
        assert all(_held(world) == _held(worlds[0]) for world in (*worlds, forgetful))


def _held(world: World) -> list[tuple[str, int, bytes]]:
    return [(held.reason, held.samples, held.entry) for held in world.scene.taken.held]


@given(tenancies(dynamic=False), TRUSTS, DOCUMENTS, st.data())
def test_order_of_requests(
    tenancy: Tenancy, trust: Trust, document: tuple[list[Document], int], data: st.DataObject
) -> None:
    """Requests of different series may come in any order: the totals are the same."""
    universe = data.draw(st.permutations([*DEVICES, *OTHERS, *BAD]))
    shares = [universe[at::3] for at in range(3)]
    asked = [data.draw(requests(share, NO_MARKERS, TIMES)) for share in shares]
    totals = []
    for order in (asked, data.draw(st.permutations(asked))):
        world = World.of(tenancy, trust)
        world.load(*document)
        for request in order:
            world.take(request)
        totals.append((world.scene.fates(), {name: t.parts - t.made for name, t in world.scene.books.tenants.items()}))
    assert totals[0] == totals[1]


@given(tenancies(dynamic=False), TRUSTS, DOCUMENTS, st.data())
def test_late_answers_equal_early_ones(
    tenancy: Tenancy, trust: Trust, document: tuple[list[Document], int], data: st.DataObject
) -> None:
    """Two hours later, when much has happened since, the same batch gets the same owners, warm or cold."""
    devices, until = document
    batch = data.draw(requests(DISTINCT, NO_MARKERS, st.integers(0, until - 1)))
    warm, cold = World.of(tenancy, trust), World.of(tenancy, trust)
    warm.load(devices, until)
    first = _values(warm.take(batch))
    later = [_gone_on(device, until, data.draw(st.booleans())) for device in devices]
    for world in (warm, cold):
        world.load(later, until + 7200)
        world.samples.clear()
        assert _values(world.take(batch)) == first


def _gone_on(device: Document, until: int, ended: bool) -> Document:  # noqa: FBT001 - drawn
    """The same device two hours later: its open interval may have ended when it was last observed."""
    intervals = [dict(each) for each in device["intervals"]]
    if ended and intervals and intervals[-1]["to"] is None and intervals[-1]["from"] < ms(until):
        intervals[-1]["to"] = ms(until)
        intervals.append(interval(until, None, owner("stray")))
    return {**device, "intervals": intervals}
