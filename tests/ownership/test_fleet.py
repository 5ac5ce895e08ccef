"""Examples: what a fleet answers. The rules in general are in test_fleet_properties."""

import pytest

from ownership.device import DeviceKey
from ownership.fleet import Listed
from ownership.node import Holding
from tests.ownership.examples import CARD, device, interval, new_fleet, owner_at, reason_at, whole


def test_what_a_holding_says() -> None:
    """A holding has the device without its intervals, the node, the interval as written, and how long it is valid."""
    fleet = new_fleet()
    intervals = (interval(10, 50, "a", 7), interval(50, None, "b"))
    fleet.replace(whole(device(*intervals), until_ms=100))
    assert fleet.lookup(CARD, 49) == Holding(device(), "node-a", intervals[0], 10, 50)
    assert fleet.lookup(CARD, 50) == Holding(device(), "node-a", intervals[1], 50, 130)


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
    fleet = new_fleet()
    fleet.replace(whole(device(interval(10, 20, "a"), interval(30, None, "b")), until_ms=100))
    assert owner_at(fleet, at_ms) == owner


def test_an_end_that_is_said_is_believed_beyond_the_last_observation() -> None:
    """Only open intervals go stale: one with an end holds to its end, however long ago the node was observed."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(10, 9000, "a")), until_ms=100))
    assert owner_at(fleet, 8999) == "a"


def test_an_open_interval_that_is_stale_when_it_begins() -> None:
    """An open interval that begins after the last observation + max_age owns nothing yet."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(500, None, "a")), until_ms=100))
    assert owner_at(fleet, 500) is None


def test_reasons() -> None:
    """An unknown owner has a sentence that says what is missing, for each way in which it can be missing."""
    fleet = new_fleet()
    nobody, other = DeviceKey("GPU-9", ""), DeviceKey("GPU-2", "7")
    fleet.replace(
        whole(
            device(interval(10, 20, "a"), interval(30, None, "b")),
            device(key=DeviceKey("GPU-2", "")),
            device(interval(10, 20, "a"), key=DeviceKey("GPU-3", "5")),
            until_ms=100,
        )
    )
    assert reason_at(fleet, 5) == "node node-a knows the owner of GPU-1 from 1970-01-01T00:00:00.010Z on only"
    assert reason_at(fleet, 25) == (
        "node node-a does not know the owner of GPU-1 from 1970-01-01T00:00:00.020Z to 1970-01-01T00:00:00.030Z"
    )
    assert reason_at(fleet, 130) == (
        "node node-a was last observed at 1970-01-01T00:00:00.100Z, too long before to assume its last owner of GPU-1"
    )
    assert reason_at(fleet, 20, DeviceKey("GPU-3", "5")) == (
        "node node-a knows the owner of GPU-3 instance 5 until 1970-01-01T00:00:00.020Z only"
    )
    assert reason_at(fleet, 5, DeviceKey("GPU-2", "")) == "node node-a tells no owner of GPU-2"
    assert reason_at(fleet, 5, nobody) == "no node lists GPU-9"
    assert reason_at(fleet, 5, other) == "card GPU-2 is listed, but not its GPU instance 7"
    assert reason_at(fleet, 5, DeviceKey("GPU-3", "")) == (
        "card GPU-3 is divided into GPU instances, and owners are known for those only"
    )


def test_card_that_is_divided() -> None:
    """When a card becomes a MIG card, its instances are listed in the order of their numbers."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, None, "a")), until_ms=100))
    assert fleet.instances("GPU-1") == ()
    parts = [device(key=DeviceKey("GPU-1", number), mig_uuid=f"MIG-{number}") for number in ("10", "9", "3")]
    fleet.replace(whole(*parts, until_ms=110))
    assert [key.gpu_instance_id for key in fleet.instances("GPU-1")] == ["3", "9", "10"]
    assert owner_at(fleet, 50) == "a"
    fleet.remove("node-a")
    assert fleet.instances("GPU-1") == ()


def test_device_on_two_nodes() -> None:
    """The node with an interval at that time wins; where both have one, the node that was observed last."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, 40, "a"), interval(60, 70, "a2")), until_ms=100, node="node-a"))
    changes = fleet.replace(whole(device(interval(20, 50, "b")), until_ms=90, node="node-b"))
    assert changes.keys == {CARD}
    assert [owner_at(fleet, at_ms) for at_ms in (10, 30, 45, 55, 65)] == ["a", "a", "b", None, "a2"]
    moved = fleet.replace(whole(device(interval(20, 50, "b")), until_ms=110, node="node-b"))
    assert moved.keys == {CARD}
    assert [owner_at(fleet, at_ms) for at_ms in (10, 30, 45, 55, 65)] == ["a", "b", "b", None, "a2"]
    found = fleet.lookup(CARD, 10)
    assert isinstance(found, Holding)
    assert (found.valid_from_ms, found.valid_to_ms) == (0, 20)


def test_removed_node() -> None:
    """A removed node takes its devices with it, except where another node lists them too."""
    fleet = new_fleet()
    fleet.replace(whole(device(interval(0, None, "a")), until_ms=100, node="node-a"))
    fleet.replace(whole(device(interval(0, None, "b")), until_ms=90, node="node-b"))
    assert fleet.remove("node-a").keys == {CARD}
    assert owner_at(fleet, 50) == "b"
    assert fleet.remove("node-b").open_until_ms == 0
    assert reason_at(fleet, 50) == "no node lists GPU-1"
    assert fleet.remove("node-c").all_keys == frozenset()


def test_history() -> None:
    """What ended longer than the history before the last observation is forgotten, with devices that had no more."""
    fleet = new_fleet(history_ms=50)
    gone = DeviceKey("GPU-2", "")
    fleet.replace(
        whole(
            device(interval(0, 49, "a"), interval(49, 51, "b"), interval(51, None, "c")),
            device(interval(0, 49, "z"), key=gone),
            until_ms=60,
        )
    )
    changes = fleet.replace(whole(device(interval(51, None, "c")), from_ms=51, until_ms=100))
    assert [owner_at(fleet, at_ms) for at_ms in (48, 49, 50, 51)] == [None, "b", "b", "c"]
    assert reason_at(fleet, 5, gone) == "no node lists GPU-2"
    assert changes.keys == frozenset()


def test_static_documents_are_not_shortened() -> None:
    """A file keeps its whole history."""
    fleet = new_fleet(history_ms=50)
    fleet.replace(whole(device(interval(0, 10, "a"), interval(10, None, "b")), until_ms=9_000), static=True)
    assert owner_at(fleet, 5) == "a"
    assert fleet.nodes()[0].static


def test_nodes_and_devices() -> None:
    """Nodes are listed by name with what they observed, devices by node in the order of the document."""
    fleet = new_fleet()
    second = device(interval(0, None, "b"), key=DeviceKey("GPU-0", ""))
    fleet.replace(whole(device(), node="node-b", until_ms=100, revision=7))
    fleet.replace(whole(device(interval(0, 1, "a")), second, node="node-a", until_ms=50))
    assert [(state.node, state.revision, state.observed_until_ms, state.open_until_ms) for state in fleet.nodes()] == [
        ("node-a", 1, 50, 80),
        ("node-b", 7, 100, 130),
    ]
    assert list(fleet.devices()) == [
        Listed("node-a", CARD, device()),
        Listed("node-a", DeviceKey("GPU-0", ""), device(key=DeviceKey("GPU-0", ""))),
        Listed("node-b", CARD, device()),
    ]
    assert fleet.intervals("node-c", CARD) == ()
