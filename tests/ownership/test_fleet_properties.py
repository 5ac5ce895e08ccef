"""What must hold after any sequence of valid documents, whether a labeler would ever say them or not."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownership.device import DeviceKey
from ownership.document import NodeDocument
from ownership.fleet import Changes, Fleet
from ownership.node import Holding
from tests.ownership.grid import LAST_MS, MAX_AGE_MS, Grid
from tests.ownership.strategies import CARD, NODES, small_documents

KEYS = (DeviceKey(CARD, ""), DeviceKey(CARD, "3"))
TIMES_MS = range(-1, LAST_MS + 1)
ALL_MS = 1_000

Answers = dict[tuple[DeviceKey, int], Holding]


def _documents(data: st.DataObject, fleet: Fleet) -> Iterator[NodeDocument]:
    """Documents that a fleet accepts in this order, partial ones where a whole one came before."""

    def held(node: str) -> int | None:
        return next((state.revision for state in fleet.nodes() if state.node == node), None)

    for revision in range(1, data.draw(st.integers(1, 5)) + 1):
        yield data.draw(small_documents(revision, held))


def _answers(fleet: Fleet) -> Answers:
    found = {(key, at_ms): fleet.lookup(key, at_ms) for key in KEYS for at_ms in TIMES_MS}
    return {question: answer for question, answer in found.items() if isinstance(answer, Holding)}


def _told(holding: Holding) -> tuple[object, ...]:
    """A holding without how long it is valid."""
    return holding.node, holding.device, holding.interval.from_ms, holding.interval.owners


@pytest.mark.fuzz
@given(st.data())
def test_answers_of_the_grid(data: st.DataObject) -> None:
    """After any documents the fleet answers for each device and time what the grid of milliseconds answers."""
    fleet, grid = Fleet(MAX_AGE_MS, ALL_MS), Grid()
    for document in _documents(data, fleet):
        fleet.replace(document, static=True)
        grid.replace(document)
        answers = _answers(fleet)
        for key in KEYS:
            for at_ms in TIMES_MS:
                expected = grid.lookup(key, at_ms) if at_ms >= 0 else None
                got = answers.get((key, at_ms))
                assert (got is None) == (expected is None)
                if got is not None and expected is not None:
                    node, cell = expected
                    assert (got.node, got.device.mig_uuid) == (node, cell.mig_uuid)
                    assert got.interval.from_ms == cell.from_ms
                    assert got.interval.owners == cell.interval.owners


@pytest.mark.fuzz
@given(st.data(), st.integers(-1, LAST_MS), st.integers(-1, LAST_MS + 1))
def test_holdings_of_a_span(data: st.DataObject, from_ms: int, to_ms: int) -> None:
    """All that is known of a device within a span is told in time order, and nothing else."""
    fleet = Fleet(MAX_AGE_MS, ALL_MS)
    for document in _documents(data, fleet):
        fleet.replace(document, static=True)
        answers = _answers(fleet)
        for key in KEYS:
            told = {
                at_ms: _told(found)
                for found in fleet.holdings(key, from_ms, to_ms)
                for at_ms in range(max(from_ms, found.valid_from_ms), min(to_ms, found.valid_to_ms))
            }
            assert list(told) == sorted(told)
            asked = [at_ms for at_ms in range(from_ms, to_ms) if (key, at_ms) in answers]
            assert told == {at_ms: _told(answers[key, at_ms]) for at_ms in asked}


@pytest.mark.fuzz
@given(st.data())
def test_answers_are_valid_as_long_as_they_say(data: st.DataObject) -> None:
    """A holding is the answer for each time of its validity, and that time is within its interval."""
    fleet = Fleet(MAX_AGE_MS, ALL_MS)
    for document in _documents(data, fleet):
        fleet.replace(document, static=True)
        answers = _answers(fleet)
        for (key, at_ms), answer in answers.items():
            assert answer.valid_from_ms <= at_ms < answer.valid_to_ms
            assert answer.interval.from_ms <= answer.valid_from_ms
            assert answer.interval.to_ms is None or answer.valid_to_ms <= answer.interval.to_ms
            for other_ms in range(answer.valid_from_ms, min(answer.valid_to_ms, LAST_MS + 1)):
                assert _told(answers[key, other_ms]) == _told(answer)


@pytest.mark.fuzz
@given(st.data())
def test_changes_tell_which_answers_to_forget(data: st.DataObject) -> None:
    """An answer for a device that is not among the changed keys is still the answer at each time of its validity."""
    fleet = Fleet(MAX_AGE_MS, ALL_MS)
    before: Answers = {}
    for document in _documents(data, fleet):
        changes = fleet.replace(document, static=True)
        after = _answers(fleet)
        for (key, at_ms), answer in before.items():
            if key not in changes.keys:
                assert _told(after[key, at_ms]) == _told(answer)
        for (key, _), answer in after.items():
            if answer.node == document.node and answer.interval.to_ms is None:
                assert answer.valid_to_ms <= changes.open_until_ms
                assert key in changes.all_keys
        before = after


@pytest.mark.fuzz
@given(st.data())
def test_intervals_never_overlap(data: st.DataObject) -> None:
    """The intervals that are held of one device of one node are in order, do not overlap, and only the last is open."""
    fleet = Fleet(MAX_AGE_MS, ALL_MS)
    for document in _documents(data, fleet):
        fleet.replace(document, static=True)
        for node in NODES:
            for key in KEYS:
                for one, other in pairwise(fleet.intervals(node, key)):
                    assert one.to_ms is not None
                    assert one.from_ms < one.to_ms <= other.from_ms


@pytest.mark.fuzz
@given(st.data(), st.integers(0, 30))
def test_forgetting_changes_no_answer_within_the_history(data: st.DataObject, history_ms: int) -> None:
    """A fleet with a history answers within it as one that keeps everything."""
    whole, short = Fleet(MAX_AGE_MS, ALL_MS), Fleet(MAX_AGE_MS, history_ms)
    observed_ms = 0
    for document in _documents(data, whole):
        changes = [fleet.replace(document, static=static) for fleet, static in ((whole, True), (short, False))]
        observed_ms = max(observed_ms, document.observed_until_ms)
        kept, left = _answers(whole), _answers(short)
        for key in KEYS:
            for at_ms in range(max(0, observed_ms - history_ms), LAST_MS + 1):
                one, other = kept.get((key, at_ms)), left.get((key, at_ms))
                assert (one and _told(one)) == (other and _told(other))
        assert changes[0].open_until_ms == changes[1].open_until_ms


@pytest.mark.fuzz
@given(st.data())
def test_a_removed_node_leaves_nothing(data: st.DataObject) -> None:
    """Without a node a fleet answers as if it had never heard of it, and the changes name all that it told."""
    fleet, other = Fleet(MAX_AGE_MS, ALL_MS), Fleet(MAX_AGE_MS, ALL_MS)
    for document in _documents(data, fleet):
        fleet.replace(document, static=True)
        if document.node == NODES[0]:
            other.replace(document, static=True)
    told = {key for key in KEYS if fleet.intervals(NODES[1], key)}
    changes: Changes = fleet.remove(NODES[1])
    assert told <= changes.keys
    assert _answers(fleet) == _answers(other)
    assert [*fleet.devices()] == [*other.devices()]
    assert fleet.instances(CARD) == other.instances(CARD)
