from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownership import Fleet, device_key
from proxy.core.books import QUARANTINED
from proxy.core.labels import LabelSet
from proxy.core.route import decide
from proxy.core.tenancy import Tenancy, Trust, Unowned
from proxy.core.waiting import Span, answered
from tests.proxy.core.held import Got, got_of, records_of, replay, replayed
from tests.proxy.core.ledger import Sample, World
from tests.proxy.core.scene import HISTORY, MAX_AGE, Document, Scene, Series, load, ms, points_of, read_series
from tests.proxy.core.worlds import COPIES, DEVICES, DOCUMENTS, FEW_TIMES, LAST, TIMES, Request, requests, tenancies

pytestmark = pytest.mark.fuzz

NO_MARKERS = ["value", "value", "histogram"]
TRUSTS = st.builds(Trust, namespace_label=st.booleans())
BOTH = st.tuples(DOCUMENTS, DOCUMENTS)
PLAIN = requests(DEVICES, NO_MARKERS, TIMES)


def _series(request: Request) -> list[Series]:
    """The entries of a request; each value is the number of its sample."""
    out: list[Series] = []
    number = 0
    for labels, points in request:
        series = Series(labels)
        for at, kind in points:
            number += 1
            if kind == "histogram":
                series.histogram(at, number)
            else:
                series.message.samples.add(value=number, timestamp=ms(at))
        out.append(series)
    return out


def _waiting(tenancy: Tenancy) -> Tenancy:
    return replace(tenancy, unowned=Unowned("quarantine"), ownership=True)


def _fleet(document: tuple[list[Document], int]) -> Fleet:
    fleet = Fleet(MAX_AGE * 1000, HISTORY * 1000)
    load(fleet, *document)
    return fleet


def _number(got: Got) -> int:
    return int(float(str(got.value).removeprefix("sum ")))


def _numbers(entries: Iterable[bytes]) -> set[int]:
    """The samples of framed entries."""
    points = (point for series in read_series(b"".join(entries)) for point in points_of(series))
    return {int(float(str(value).removeprefix("sum "))) for _, value in points}


@given(tenancies(), TRUSTS, DOCUMENTS, PLAIN)
def test_replayed_as_if_it_had_come_later(
    tenancy: Tenancy, trust: Trust, document: tuple[list[Document], int], request: Request
) -> None:
    """What is held back before its owners are known goes where it would have gone had it come afterwards."""
    early = Scene(_waiting(tenancy))
    held = records_of(early.take(*_series(request), trust=trust).held, trust)
    done, got = replayed(held, tenancy, _fleet(document))
    late = Scene(tenancy)
    late.load(*document[0], until=document[1])
    late.take(*_series(request), trust=trust)
    raw = {tenant.id for tenant in tenancy.raw}
    waited = _numbers(record.entry for record in held)
    sent = [each for each in got_of(late.taken.parts) if each.value != "stale"]  # a replay ends no series
    expected = [each for each in sent if each.tenant not in raw and _number(each) in waited]
    assert Counter(got) == Counter(expected)
    still = _numbers(each.entry for each in late.taken.held)
    assert _numbers(record.entry for record in done.kept) == still & waited


@given(
    tenancies(merging=True), tenancies(merging=True), TRUSTS, BOTH, requests([*DEVICES, *COPIES], NO_MARKERS, FEW_TIMES)
)
def test_nobody_gets_what_is_not_his(
    before: Tenancy,
    after: Tenancy,
    trust: Trust,
    documents: tuple[tuple[list[Document], int], tuple[list[Document], int]],
    request: Request,
) -> None:
    """A replayed sample reaches a tenant only as its owner at that time, or by a view or setting; raw views none."""
    early = Scene(before)
    early.load(*documents[0][0], until=documents[0][1])
    held = records_of(early.take(*_series(request), trust=trust).held, trust)
    world = World.of(after, trust)
    world.load(*documents[1])
    _, got = replayed(held, after, world.scene.fleet)
    times = dict(enumerate((at for _, points in request for at, _ in points), 1))
    sent = dict(enumerate((labels for labels, points in request for _ in points), 1))
    for each in got:
        number = _number(each)
        assert times[number] == each.at
        assert world.may_have(each.tenant, Sample(sent[number], each.at))
        assert each.tenant not in {tenant.id for tenant in after.raw}
        assert each.pair == (sent[number].get("cluster"), sent[number].get("__replica__"))


@given(tenancies(merging=True), DOCUMENTS, requests([*DEVICES, *COPIES], NO_MARKERS, TIMES), st.data())
def test_each_series_in_order_and_once(
    tenancy: Tenancy, document: tuple[list[Document], int], request: Request, data: st.DataObject
) -> None:
    """Whatever order records come in, each series of a tenant is in order of time; resends alone repeat a time."""
    early = Scene(_waiting(tenancy))
    held = data.draw(st.permutations(records_of(early.take(*_series(request)).held)))
    _, got = replayed(held, tenancy, _fleet(document))
    newest: dict[tuple[str, object, LabelSet], float] = {}
    for each in got:
        series = each.tenant, each.pair, each.labels
        assert each.at >= newest.get(series, each.at)
        newest[series] = each.at


@given(tenancies(), TRUSTS, DOCUMENTS, PLAIN)
def test_replayed_once(tenancy: Tenancy, trust: Trust, document: tuple[list[Document], int], request: Request) -> None:
    """What a replay keeps, it keeps as long as nothing changes, and as it is."""
    early = Scene(_waiting(tenancy))
    held = records_of(early.take(*_series(request), trust=trust).held, trust)
    fleet = _fleet(document)
    kept = replay(held, tenancy, fleet).kept
    again = replay(kept, tenancy, fleet)
    assert again.kept == kept
    assert again.parts == ()


@given(
    tenancies(merging=True), DOCUMENTS, st.sampled_from([*DEVICES, *COPIES]), st.integers(-2, LAST), st.integers(1, 90)
)
def test_nothing_leaves_beyond_what_is_answered(
    tenancy: Tenancy, document: tuple[list[Document], int], labels: LabelSet, begin: int, length: int
) -> None:
    """At times that are not told to be answered, every series of the device waits; those told are within the span."""
    fleet = _fleet(document)
    span = Span(device_key(labels.get), ms(begin), ms(begin + length))
    times = answered(span, tenancy, fleet)
    assert all(span.from_ms <= first < end <= span.to_ms for first, end in times)
    for at in range(begin, begin + length):
        if not any(first <= ms(at) < end for first, end in times):
            assert decide(labels, ms(at), Trust(), tenancy, fleet).fate.kind == QUARANTINED


@given(tenancies(dynamic=False), DOCUMENTS, st.integers(-2, LAST), st.integers(1, 90))
def test_answered_is_exact_where_no_rule_decides(
    tenancy: Tenancy, document: tuple[list[Document], int], begin: int, length: int
) -> None:
    """Without views and rules nothing is told to be answered that waits."""
    plain = tuple(replace(tenant, view="owned", rules=()) for tenant in tenancy.tenants)
    by_id = {tenant.id: tenant for tenant in plain}
    namespaces = {namespace: by_id[tenant.id] for namespace, tenant in tenancy.namespaces.items()}
    tenancy = replace(tenancy, tenants=plain, namespaces=namespaces)
    fleet = _fleet(document)
    labels = DEVICES[0]
    for first, end in answered(Span(device_key(labels.get), ms(begin), ms(begin + length)), tenancy, fleet):
        for at_ms in (first, end - 1):
            assert decide(labels, at_ms, Trust(), tenancy, fleet).fate.kind != QUARANTINED
