"""Examples: what one thing in a document does to the answers. The rules in general are in test_fleet_properties."""

import pytest

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument, Owner, Sharing
from ownership.errors import RevisionError
from ownership.fleet import Fleet, Listed, Unknown
from ownership.node import Holding

MAX_AGE_MS = 30
CARD = DeviceKey("GPU-1", "")
INSTANCE = DeviceKey("GPU-1", "3")


def _fleet(history_ms: int = 10_000) -> Fleet:
    return Fleet(MAX_AGE_MS, history_ms)


def _interval(start_ms: int, end_ms: int | None, pod_uid: str, memory_bytes: int | None = None) -> Interval:
    return Interval(start_ms, end_ms, (Owner(pod_uid=pod_uid, memory_bytes=memory_bytes),))


def _device(*intervals: Interval, key: DeviceKey = CARD, mig_uuid: str | None = None, model: str = "H100") -> Device:
    return Device(
        uuid=key.uuid,
        index=0,
        model=model,
        memory_total_bytes=80,
        gpu_instance_id=key.gpu_instance_id or None,
        mig_uuid=mig_uuid,
        sharing=Sharing.EXCLUSIVE,
        intervals=intervals,
    )


def _whole(*devices: Device, until_ms: int, from_ms: int = 0, revision: int = 1, node: str = "node-a") -> NodeDocument:
    return NodeDocument(1, revision, node, from_ms, until_ms, devices)


def _partial(*devices: Device, until_ms: int, since: int, revision: int) -> NodeDocument:
    return NodeDocument(1, revision, "node-a", 0, until_ms, devices, since)


def _owner(fleet: Fleet, at_ms: int, key: DeviceKey = CARD) -> str | None:
    found = fleet.lookup(key, at_ms)
    return found.interval.owners[0].pod_uid if isinstance(found, Holding) else None


def _reason(fleet: Fleet, at_ms: int, key: DeviceKey = CARD) -> str:
    found = fleet.lookup(key, at_ms)
    assert isinstance(found, Unknown)
    return found.reason


def test_what_a_holding_says() -> None:
    """A holding has the device without its intervals, the node, the interval as written, and how long it is valid."""
    fleet = _fleet()
    intervals = (_interval(10, 50, "a", 7), _interval(50, None, "b"))
    fleet.replace(_whole(_device(*intervals), until_ms=100))
    assert fleet.lookup(CARD, 49) == Holding(_device(), "node-a", intervals[0], 10, 50)
    assert fleet.lookup(CARD, 50) == Holding(_device(), "node-a", intervals[1], 50, 130)


@pytest.mark.parametrize(
    ("at_ms", "owner"),
    [
        pytest.param(9, None, id="before the first"),
        pytest.param(10, "a", id="first"),
        pytest.param(19, "a", id="last of the first"),
        pytest.param(20, None, id="gap"),
        pytest.param(30, "b", id="open"),
        pytest.param(100, "b", id="at the last observation"),
        pytest.param(129, "b", id="assumed for max_age"),
        pytest.param(130, None, id="too old to assume"),
        pytest.param(-(1 << 63), None, id="the first time there is"),
        pytest.param((1 << 63) - 1, None, id="the last time there is"),
    ],
)
def test_bounds(at_ms: int, owner: str | None) -> None:
    """An interval holds from its start to before its end, an open one to before the last observation + max_age."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(10, 20, "a"), _interval(30, None, "b")), until_ms=100))
    assert _owner(fleet, at_ms) == owner


def test_an_end_that_is_said_is_believed_beyond_the_last_observation() -> None:
    """Only open intervals go stale: one with an end holds to its end, however long ago the node was observed."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(10, 9000, "a")), until_ms=100))
    assert _owner(fleet, 8999) == "a"


def test_an_open_interval_that_is_stale_when_it_begins() -> None:
    """An open interval that begins after the last observation + max_age owns nothing yet."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(500, None, "a")), until_ms=100))
    assert _owner(fleet, 500) is None


def test_reasons() -> None:
    """An unknown owner has a sentence that says what is missing, for each way in which it can be missing."""
    fleet = _fleet()
    nobody, other = DeviceKey("GPU-9", ""), DeviceKey("GPU-2", "7")
    fleet.replace(
        _whole(
            _device(_interval(10, 20, "a"), _interval(30, None, "b")),
            _device(key=DeviceKey("GPU-2", "")),
            _device(_interval(10, 20, "a"), key=DeviceKey("GPU-3", "5")),
            until_ms=100,
        )
    )
    assert _reason(fleet, 5) == "node node-a knows the owner of GPU-1 from 1970-01-01T00:00:00.010Z on only"
    assert _reason(fleet, 25) == (
        "node node-a does not know the owner of GPU-1 from 1970-01-01T00:00:00.020Z to 1970-01-01T00:00:00.030Z"
    )
    assert _reason(fleet, 130) == (
        "node node-a was last observed at 1970-01-01T00:00:00.100Z, too long before to assume its last owner of GPU-1"
    )
    assert _reason(fleet, 20, DeviceKey("GPU-3", "5")) == (
        "node node-a knows the owner of GPU-3 instance 5 until 1970-01-01T00:00:00.020Z only"
    )
    assert _reason(fleet, 5, DeviceKey("GPU-2", "")) == "node node-a tells no owner of GPU-2"
    assert _reason(fleet, 5, nobody) == "no node lists GPU-9"
    assert _reason(fleet, 5, other) == "card GPU-2 is listed, but not its GPU instance 7"
    assert _reason(fleet, 5, DeviceKey("GPU-3", "")) == (
        "card GPU-3 is divided into GPU instances, and owners are known for those only"
    )


def test_new_observations_keep_the_open_interval_good() -> None:
    """A document that changes nothing but the time of observation changes no key, and moves the end of what is open."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(10, None, "a")), until_ms=100))
    assert _owner(fleet, 500) is None
    changes = fleet.replace(_partial(until_ms=500, since=1, revision=1))
    assert (changes.keys, changes.all_keys, changes.open_until_ms) == (frozenset(), frozenset([CARD]), 530)
    assert _owner(fleet, 500) == "a"


def test_clock_that_is_set_back() -> None:
    """A node whose observation goes back changes every key: answers may have been assumed for too long."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(10, None, "a")), until_ms=100))
    assert fleet.replace(_whole(_device(_interval(10, None, "a")), until_ms=50)).keys == {CARD}
    assert _owner(fleet, 80) is None


def test_partial_document_replaces_by_start() -> None:
    """A partial document ends, completes and begins intervals of the devices it lists, and leaves all others alone."""
    fleet = _fleet()
    other = DeviceKey("GPU-2", "")
    fleet.replace(
        _whole(
            _device(_interval(0, 10, "a"), _interval(10, 20, "b"), _interval(20, None, "c")),
            _device(_interval(0, None, "z"), key=other),
            until_ms=30,
        )
    )
    changes = fleet.replace(
        _partial(
            _device(_interval(10, 20, "completed"), _interval(20, 35, "c"), _interval(35, None, "d")),
            until_ms=40,
            since=1,
            revision=2,
        )
    )
    assert changes.keys == {CARD}
    assert [_owner(fleet, at_ms) for at_ms in (5, 15, 30, 36)] == ["a", "completed", "c", "d"]
    assert _owner(fleet, 36, other) == "z"


@pytest.mark.parametrize(
    ("since", "revision"),
    [pytest.param(6, 8, id="a revision was missed"), pytest.param(2, 4, id="older than what is held")],
)
def test_partial_document_that_does_not_continue(since: int, revision: int) -> None:
    """A partial document that begins after the held revision, or ends before it, is refused and changes nothing."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, None, "a")), until_ms=30, revision=5))
    with pytest.raises(RevisionError, match="node-a"):
        fleet.replace(_partial(_device(_interval(20, None, "b")), until_ms=40, since=since, revision=revision))
    assert _owner(fleet, 25) == "a"
    assert fleet.nodes()[0].observed_until_ms == 30


def test_partial_document_first() -> None:
    """A node of which nothing is held must be asked for a whole document first."""
    fleet = _fleet()
    with pytest.raises(RevisionError, match="ask for the whole one"):
        fleet.replace(_partial(until_ms=40, since=1, revision=1))
    assert fleet.nodes() == ()


def test_whole_document_replaces_from_its_observation_on() -> None:
    """A whole document wins from its observed_from on, and what is older stays."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, 10, "a"), _interval(10, 40, "b"), _interval(40, None, "c")), until_ms=50))
    fleet.replace(_whole(_device(_interval(30, None, "new")), from_ms=20, until_ms=60))
    assert [_owner(fleet, at_ms) for at_ms in (5, 19, 20, 30, 45)] == ["a", "b", None, "new", "new"]


def test_labeler_that_lost_its_history() -> None:
    """An open interval ends where a labeler without history begins anew, at the latest when it is stale."""
    soon, late = _fleet(), _fleet()
    for fleet, begun_ms in ((soon, 120), (late, 500)):
        fleet.replace(_whole(_device(_interval(0, None, "a")), until_ms=100))
        fleet.replace(_whole(_device(_interval(begun_ms, None, "b")), from_ms=begun_ms, until_ms=begun_ms, revision=90))
    assert [_owner(soon, at_ms) for at_ms in (119, 120)] == ["a", "b"]
    assert [_owner(late, at_ms) for at_ms in (129, 130, 499, 500)] == ["a", None, None, "b"]


def test_labeler_that_kept_its_history() -> None:
    """An interval that goes on over a restart is the same interval, also where the observation began anew."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(10, None, "a")), until_ms=100))
    fleet.replace(_whole(_device(_interval(10, None, "a")), from_ms=120, until_ms=120))
    assert fleet.intervals("node-a", CARD) == (_interval(10, None, "a"),)


def test_device_that_is_listed_no_more() -> None:
    """What was told of a vanished device stays; its open interval ends at the observation before."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, 10, "a"), _interval(10, None, "b")), until_ms=100))
    changes = fleet.replace(_whole(until_ms=110))
    assert changes.keys == changes.all_keys == {CARD}
    assert [_owner(fleet, at_ms) for at_ms in (5, 99, 100)] == ["a", "b", None]
    assert list(fleet.devices()) == []


def test_instance_made_anew_under_its_number() -> None:
    """A re-created instance begins its own intervals under the same key, and its forerunner keeps its own."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, None, "a"), key=INSTANCE, mig_uuid="MIG-1"), until_ms=100))
    fleet.replace(_whole(_device(_interval(105, None, "b"), key=INSTANCE, mig_uuid="MIG-2"), until_ms=110))
    before, after = fleet.lookup(INSTANCE, 99), fleet.lookup(INSTANCE, 105)
    assert isinstance(before, Holding)
    assert isinstance(after, Holding)
    assert (before.device.mig_uuid, before.interval.owners[0].pod_uid) == ("MIG-1", "a")
    assert (after.device.mig_uuid, after.interval.owners[0].pod_uid) == ("MIG-2", "b")
    assert _owner(fleet, 102, INSTANCE) is None


def test_card_that_is_divided() -> None:
    """When a card becomes a MIG card, its instances are listed in the order of their numbers."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, None, "a")), until_ms=100))
    assert fleet.instances("GPU-1") == ()
    parts = [_device(key=DeviceKey("GPU-1", number), mig_uuid=f"MIG-{number}") for number in ("10", "9", "3")]
    fleet.replace(_whole(*parts, until_ms=110))
    assert [key.gpu_instance_id for key in fleet.instances("GPU-1")] == ["3", "9", "10"]
    assert _owner(fleet, 50) == "a"
    fleet.remove("node-a")
    assert fleet.instances("GPU-1") == ()


def test_latest_word_on_what_a_device_is() -> None:
    """What a device is, its model for one, is told without times: the latest document says it for all intervals."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, 10, "a"), _interval(10, None, "b"), model="GPU"), until_ms=50))
    changes = fleet.replace(_partial(_device(_interval(10, None, "b"), model="H100"), until_ms=60, since=1, revision=2))
    early = fleet.lookup(CARD, 5)
    assert isinstance(early, Holding)
    assert (early.device.model, changes.keys) == ("H100", frozenset([CARD]))


def test_device_on_two_nodes() -> None:
    """The node with an interval at that time wins; where both have one, the node that was observed last."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, 40, "a"), _interval(60, 70, "a2")), until_ms=100, node="node-a"))
    changes = fleet.replace(_whole(_device(_interval(20, 50, "b")), until_ms=90, node="node-b"))
    assert changes.keys == {CARD}
    assert [_owner(fleet, at_ms) for at_ms in (10, 30, 45, 55, 65)] == ["a", "a", "b", None, "a2"]
    moved = fleet.replace(_whole(_device(_interval(20, 50, "b")), until_ms=110, node="node-b"))
    assert moved.keys == {CARD}
    assert [_owner(fleet, at_ms) for at_ms in (10, 30, 45, 55, 65)] == ["a", "b", "b", None, "a2"]
    found = fleet.lookup(CARD, 10)
    assert isinstance(found, Holding)
    assert (found.valid_from_ms, found.valid_to_ms) == (0, 20)


def test_removed_node() -> None:
    """A removed node takes its devices with it, except where another node lists them too."""
    fleet = _fleet()
    fleet.replace(_whole(_device(_interval(0, None, "a")), until_ms=100, node="node-a"))
    fleet.replace(_whole(_device(_interval(0, None, "b")), until_ms=90, node="node-b"))
    assert fleet.remove("node-a").keys == {CARD}
    assert _owner(fleet, 50) == "b"
    assert fleet.remove("node-b").open_until_ms == 0
    assert _reason(fleet, 50) == "no node lists GPU-1"
    assert fleet.remove("node-c").all_keys == frozenset()


def test_history() -> None:
    """What ended longer than the history before the last observation is forgotten, with devices that had no more."""
    fleet = _fleet(history_ms=50)
    gone = DeviceKey("GPU-2", "")
    fleet.replace(
        _whole(
            _device(_interval(0, 49, "a"), _interval(49, 51, "b"), _interval(51, None, "c")),
            _device(_interval(0, 49, "z"), key=gone),
            until_ms=60,
        )
    )
    changes = fleet.replace(_whole(_device(_interval(51, None, "c")), from_ms=51, until_ms=100))
    assert [_owner(fleet, at_ms) for at_ms in (48, 49, 50, 51)] == [None, "b", "b", "c"]
    assert _reason(fleet, 5, gone) == "no node lists GPU-2"
    assert changes.keys == frozenset()


def test_static_documents_are_not_shortened() -> None:
    """A file keeps its whole history."""
    fleet = _fleet(history_ms=50)
    fleet.replace(_whole(_device(_interval(0, 10, "a"), _interval(10, None, "b")), until_ms=9_000), static=True)
    assert _owner(fleet, 5) == "a"
    assert fleet.nodes()[0].static


def test_nodes_and_devices() -> None:
    """Nodes are listed by name with what they observed, devices by node in the order of the document."""
    fleet = _fleet()
    second = _device(_interval(0, None, "b"), key=DeviceKey("GPU-0", ""))
    fleet.replace(_whole(_device(), node="node-b", until_ms=100, revision=7))
    fleet.replace(_whole(_device(_interval(0, 1, "a")), second, node="node-a", until_ms=50))
    assert [(state.node, state.revision, state.observed_until_ms, state.open_until_ms) for state in fleet.nodes()] == [
        ("node-a", 1, 50, 80),
        ("node-b", 7, 100, 130),
    ]
    assert list(fleet.devices()) == [
        Listed("node-a", CARD, _device()),
        Listed("node-a", DeviceKey("GPU-0", ""), _device(key=DeviceKey("GPU-0", ""))),
        Listed("node-b", CARD, _device()),
    ]
    assert fleet.intervals("node-c", CARD) == ()
