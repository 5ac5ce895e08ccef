"""Following a labeler that tells the truth: how its documents come changes nothing about what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownership.device import DeviceKey
from ownership.fleet import Fleet
from ownership.node import Holding
from tests.ownership.labeler import Labeler

MAX_AGE_MS = 6
HISTORY_MS = 1_000_000
KEYS = [DeviceKey("GPU-1", ""), DeviceKey("GPU-2", "3"), DeviceKey("GPU-2", "4")]

Answers = dict[tuple[DeviceKey, int], tuple[object, ...] | None]

_owners = st.dictionaries(st.sampled_from(KEYS), st.none() | st.sampled_from(["a", "b"]), max_size=3)


def _answers(fleet: Fleet, before_ms: int) -> Answers:
    """What the fleet says of all times before one."""
    return {(key, at_ms): _told(fleet, key, at_ms) for key in KEYS for at_ms in range(before_ms)}


def _told(fleet: Fleet, key: DeviceKey, at_ms: int) -> tuple[object, ...] | None:
    found = fleet.lookup(key, at_ms)
    return (found.interval.from_ms, found.interval.owners) if isinstance(found, Holding) else None


def _held_revision(fleet: Fleet) -> int:
    return next((state.revision for state in fleet.nodes()), -1)


@pytest.mark.fuzz
@given(st.data())
def test_late_answers_are_early_answers(data: st.DataObject) -> None:
    """What was answered for a time that the node had observed is answered for it after all later documents."""
    labeler, fleet = Labeler(), Fleet(MAX_AGE_MS, HISTORY_MS)
    early: Answers = {}
    for _ in range(data.draw(st.integers(1, 8))):
        now_ms = labeler.now_ms + data.draw(st.integers(1, 10))
        event = data.draw(st.sampled_from(["observe", "observe", "observe", "restart", "forget"]))
        if event == "restart":
            labeler.restart(now_ms)
        labeler.observe(now_ms, data.draw(_owners))
        if event == "forget" and labeler.histories:
            labeler.forget(data.draw(st.sampled_from(sorted(labeler.histories))))
        held = _held_revision(fleet)
        partial = event == "observe" and held >= 0 and data.draw(st.booleans())
        fleet.replace(labeler.partial(held) if partial else labeler.whole())
        late = _answers(fleet, now_ms)
        assert {question: late[question] for question in early} == early
        early = late


@pytest.mark.fuzz
@given(st.data())
def test_partial_documents_are_one_whole_document(data: st.DataObject) -> None:
    """A fleet that followed by partial documents, missing none or getting one twice, holds what a whole one says."""
    labeler, following, asking = Labeler(), Fleet(MAX_AGE_MS, HISTORY_MS), Fleet(MAX_AGE_MS, HISTORY_MS)
    labeler.observe(1, data.draw(_owners))
    following.replace(labeler.whole())
    for _ in range(data.draw(st.integers(1, 8))):
        labeler.observe(labeler.now_ms + data.draw(st.integers(1, 10)), data.draw(_owners))
        for key, history in labeler.histories.items():
            if data.draw(st.integers(0, 9)) == 0:
                labeler.learn(key, data.draw(st.integers(0, len(history) - 1)), "learned")
        if data.draw(st.booleans()):
            document = labeler.partial(_held_revision(following) - data.draw(st.integers(0, 1)))
            for _ in range(data.draw(st.integers(1, 2))):
                following.replace(document)
    following.replace(labeler.partial(_held_revision(following)))
    asking.replace(labeler.whole())
    assert [following.intervals("node-a", key) for key in KEYS] == [asking.intervals("node-a", key) for key in KEYS]
    assert following.nodes() == asking.nodes()
    end_ms = labeler.now_ms + 2 * MAX_AGE_MS
    assert _answers(following, end_ms) == _answers(asking, end_ms)


@pytest.mark.fuzz
@given(st.data())
def test_a_repeated_document_changes_nothing(data: st.DataObject) -> None:
    """A document that comes again, whole or partial, changes no key."""
    labeler, fleet = Labeler(), Fleet(MAX_AGE_MS, HISTORY_MS)
    labeler.observe(1, data.draw(_owners))
    fleet.replace(labeler.whole())
    labeler.observe(5, data.draw(_owners))
    document = labeler.partial(_held_revision(fleet))
    fleet.replace(document)
    assert fleet.replace(document).keys == frozenset()
    assert fleet.replace(labeler.whole()).keys == frozenset()
