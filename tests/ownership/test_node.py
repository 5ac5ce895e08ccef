"""Examples: how a document changes what is held of its node."""

import pytest

from ownership.device import DeviceKey
from ownership.errors import RevisionError
from ownership.node import Holding
from tests.ownership.examples import CARD, INSTANCE, device, interval, new_fleet, owner_at, partial, whole


def test_new_observations_keep_the_open_interval_good() -> None:
    """A document that changes nothing but the time of observation changes no key, and moves the end of what is open."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(10, None, "a")), until_ms=100))
    assert owner_at(fleet, 500) is None
    changes = fleet.replace(partial(until_ms=500, since=1, revision=1))
    assert (changes.keys, changes.all_keys, changes.open_until_ms) == (frozenset(), frozenset([CARD]), 530)
    assert owner_at(fleet, 500) == "a"


def test_clock_that_is_set_back() -> None:
    """A node whose observation goes back changes every key: answers may have been assumed for too long."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(10, None, "a")), until_ms=100))
    assert fleet.replace(whole(device(interval(10, None, "a")), until_ms=50)).keys == {CARD}
    assert owner_at(fleet, 80) is None


def test_partial_document_replaces_by_start() -> None:
    """A partial document ends, completes and begins intervals of the devices it lists, and leaves all others alone."""
    fleet = new_fleet()
    other = DeviceKey("GPU-2", "")
    fleet.replace(
        whole(
            device(interval(0, 10, "a"), interval(10, 20, "b"), interval(20, None, "c")),
            device(interval(0, None, "z"), key=other),
            until_ms=30,
        )
    )
    changes = fleet.replace(
        partial(
            device(interval(10, 20, "completed"), interval(20, 35, "c"), interval(35, None, "d")),
            until_ms=40,
            since=1,
            revision=2,
        )
    )
    assert changes.keys == {CARD}
    assert [owner_at(fleet, at_ms) for at_ms in (5, 15, 30, 36)] == ["a", "completed", "c", "d"]
    assert owner_at(fleet, 36, other) == "z"


@pytest.mark.parametrize(
    ("since", "revision"),
    [pytest.param(6, 8, id="a revision was missed"), pytest.param(2, 4, id="older than what is held")],
)
def test_partial_document_that_does_not_continue(since: int, revision: int) -> None:
    """A partial document that begins after the held revision, or ends before it, is refused and changes nothing."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, None, "a")), until_ms=30, revision=5))
    with pytest.raises(RevisionError, match="node-a"):
        fleet.replace(partial(device(interval(20, None, "b")), until_ms=40, since=since, revision=revision))
    assert owner_at(fleet, 25) == "a"
    assert fleet.nodes()[0].observed_until_ms == 30


def test_partial_document_first() -> None:
    """A node of which nothing is held must be asked for a whole document first."""
    fleet = new_fleet()
    with pytest.raises(RevisionError, match="ask for the whole one"):
        fleet.replace(partial(until_ms=40, since=1, revision=1))
    assert fleet.nodes() == ()


def test_whole_document_replaces_from_its_observation_on() -> None:
    """A whole document wins from its observed_from on, and what is older stays."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, 10, "a"), interval(10, 40, "b"), interval(40, None, "c")), until_ms=50))
    fleet.replace(whole(device(interval(30, None, "new")), from_ms=20, until_ms=60))
    assert [owner_at(fleet, at_ms) for at_ms in (5, 19, 20, 30, 45)] == ["a", "b", None, "new", "new"]


def test_labeler_that_lost_its_history() -> None:
    """An open interval ends where a labeler without history begins anew, at the latest when it is stale."""
    soon, late = new_fleet(), new_fleet()
    for fleet, begun_ms in ((soon, 120), (late, 500)):
        fleet.replace(whole(device(interval(0, None, "a")), until_ms=100))
        fleet.replace(whole(device(interval(begun_ms, None, "b")), from_ms=begun_ms, until_ms=begun_ms, revision=90))
    assert [owner_at(soon, at_ms) for at_ms in (119, 120)] == ["a", "b"]
    assert [owner_at(late, at_ms) for at_ms in (129, 130, 499, 500)] == ["a", None, None, "b"]


def test_labeler_that_kept_its_history() -> None:
    """An interval that goes on over a restart is the same interval, also where the observation began anew."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(10, None, "a")), until_ms=100))
    fleet.replace(whole(device(interval(10, None, "a")), from_ms=120, until_ms=120))
    assert fleet.intervals("node-a", CARD) == (interval(10, None, "a"),)


def test_device_that_is_listed_no_more() -> None:
    """What was told of a vanished device stays; its open interval ends at the observation before."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, 10, "a"), interval(10, None, "b")), until_ms=100))
    changes = fleet.replace(whole(until_ms=110))
    assert changes.keys == changes.all_keys == {CARD}
    assert [owner_at(fleet, at_ms) for at_ms in (5, 99, 100)] == ["a", "b", None]
    assert list(fleet.devices()) == []


def test_instance_made_anew_under_its_number() -> None:
    """A re-created instance begins its own intervals under the same key, and its forerunner keeps its own."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, None, "a"), key=INSTANCE, mig_uuid="MIG-1"), until_ms=100))
    fleet.replace(whole(device(interval(105, None, "b"), key=INSTANCE, mig_uuid="MIG-2"), until_ms=110))
    before, after = fleet.lookup(INSTANCE, 99), fleet.lookup(INSTANCE, 105)
    assert isinstance(before, Holding)
    assert isinstance(after, Holding)
    assert (before.device.mig_uuid, before.interval.owners[0].pod_uid) == ("MIG-1", "a")
    assert (after.device.mig_uuid, after.interval.owners[0].pod_uid) == ("MIG-2", "b")
    assert owner_at(fleet, 102, INSTANCE) is None


def test_latest_word_on_what_a_device_is() -> None:
    """What a device is, its model for one, is told without times: the latest document says it for all intervals."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, 10, "a"), interval(10, None, "b"), model="GPU"), until_ms=50))
    changes = fleet.replace(partial(device(interval(10, None, "b"), model="H100"), until_ms=60, since=1, revision=2))
    early = fleet.lookup(CARD, 5)
    assert isinstance(early, Holding)
    assert (early.device.model, changes.keys) == ("H100", frozenset([CARD]))
