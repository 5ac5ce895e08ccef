"""Small documents for examples, and what a fleet that took them answers."""

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument, Owner, Sharing
from ownership.fleet import Fleet, Unknown
from ownership.node import Holding

MAX_AGE_MS = 30
CARD = DeviceKey("GPU-1", "")
INSTANCE = DeviceKey("GPU-1", "3")


def new_fleet(history_ms: int = 10_000) -> Fleet:
    """A fleet that has heard nothing."""
    return Fleet(MAX_AGE_MS, history_ms)


def interval(start_ms: int, end_ms: int | None, pod_uid: str, memory_bytes: int | None = None) -> Interval:
    """An interval of one pod."""
    return Interval(start_ms, end_ms, (Owner(pod_uid=pod_uid, memory_bytes=memory_bytes),))


def device(*intervals: Interval, key: DeviceKey = CARD, mig_uuid: str | None = None, model: str = "H100") -> Device:
    """The card with these intervals, or another device."""
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


def whole(*devices: Device, until_ms: int, from_ms: int = 0, revision: int = 1, node: str = "node-a") -> NodeDocument:
    """A whole document of these devices."""
    return NodeDocument(1, revision, node, from_ms, until_ms, devices)


def partial(*devices: Device, until_ms: int, since: int, revision: int) -> NodeDocument:
    """A partial document of these devices."""
    return NodeDocument(1, revision, "node-a", 0, until_ms, devices, since)


def owner_at(fleet: Fleet, at_ms: int, key: DeviceKey = CARD) -> str | None:
    """The pod that owned a device, None where nobody knows."""
    found = fleet.lookup(key, at_ms)
    return found.interval.owners[0].pod_uid if isinstance(found, Holding) else None


def reason_at(fleet: Fleet, at_ms: int, key: DeviceKey = CARD) -> str:
    """Why nobody knows."""
    found = fleet.lookup(key, at_ms)
    assert isinstance(found, Unknown)
    return found.reason
