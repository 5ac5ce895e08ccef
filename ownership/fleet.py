"""All nodes together: whose a device was at a time.

Documents are taken in the order in which they are given; a caller gives one node's in the order in which the node
made them. Where two nodes tell of one device (a card that was moved, or a configuration mistake), the node with an
interval at that time wins; where both have one, the node that was observed last.

One thread at a time uses a fleet. Nothing here reads a clock: a node is as old as its last document says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument
from ownership.node import Holding, Node, NodeState
from ownership.timeline import FOREVER, NEVER

NOTHING_IS_GOOD_MS: Final = 0  # `Changes.open_until_ms` of a removed node
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can say who owned the device at that time; `reason` is one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What a document changed, for those who remember answers of `lookup`.

    Answers for `keys` may have changed for any time; they include each device of the node that another node lists
    too. For the others of `all_keys` only times from the last observation on are different: their open intervals
    are now good until `open_until_ms` (exclusive). What was forgotten because of its age is no change.
    """

    node: str
    keys: frozenset[DeviceKey]
    all_keys: frozenset[DeviceKey]
    open_until_ms: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A device that a node lists at present; `device` is without its intervals."""

    node: str
    key: DeviceKey
    device: Device


class Fleet:
    """The ownership of all devices of all nodes, over the last `history_ms` of each node."""

    def __init__(self, max_age_ms: int, history_ms: int) -> None:
        """`max_age_ms`: how long after a node's last observation the last owner is assumed (`ownership.max_age`).

        `history_ms`: intervals that ended longer ago than this, measured from the node's last observation, are
        forgotten (`ownership.history`); those of static documents never.
        """
        self._max_age_ms = max_age_ms
        self._history_ms = history_ms
        self._nodes: dict[str, Node] = {}
        self._places: dict[DeviceKey, tuple[Node, ...]] = {}
        self._instances: dict[str, tuple[DeviceKey, ...]] = {}

    def keep(self, max_age_ms: int, history_ms: int) -> None:
        """Other limits from now on, as in the constructor; they take hold of a node with its next document."""
        self._max_age_ms = max_age_ms
        self._history_ms = history_ms

    def replace(self, document: NodeDocument, *, static: bool = False) -> Changes:
        """Takes a document that `parse_document` made; `static` for one from a file.

        Raises RevisionError when a partial document does not continue what is held of its node: nothing is changed,
        and the node must be asked for a whole one.
        """
        until = document.observed_until_ms
        state = NodeState(
            node=document.node,
            revision=document.revision,
            observed_from_ms=document.observed_from_ms,
            observed_until_ms=until,
            open_until_ms=until + self._max_age_ms,
            static=static,
        )
        horizon = NEVER if static else until - self._history_ms
        node = self._nodes.get(document.node)
        if node is None:
            before: frozenset[DeviceKey] = frozenset()
            node = self._nodes[document.node] = Node(document, state, horizon)
            changed = frozenset(node.keys())
        else:
            before, was_good_until = frozenset(node.keys()), node.state.open_until_ms
            changed = node.take(document, state, horizon)
            if state.open_until_ms < was_good_until:  # a clock was set back, or a file was
                changed |= before
        after = frozenset(node.keys())
        self._move(node, gone=before - after, come=after - before)
        contested = frozenset(key for key in after if len(self._places[key]) > 1)
        return Changes(document.node, changed | contested, after, state.open_until_ms)

    def remove(self, name: str) -> Changes:
        """Forgets a node and its history, for one that is no longer meant to be asked or read.

        A node that only fell silent needs no removal: its owners become unknown by themselves, and its history
        still answers late samples.
        """
        node = self._nodes.pop(name, None)
        keys = frozenset(node.keys()) if node else frozenset()
        if node:
            self._move(node, gone=keys, come=frozenset())
        return Changes(name, keys, keys, NOTHING_IS_GOOD_MS)

    def lookup(self, key: DeviceKey, at_ms: int) -> Holding | Unknown:
        """The owner of a device at a time; a dictionary look-up while the last answer still holds, else a bisection."""
        nodes = self._places.get(key)
        if nodes is None:
            return Unknown(self._why_unlisted(key))
        if len(nodes) > 1:
            return _contested(nodes, key, at_ms)
        return nodes[0].holding(key, at_ms) or Unknown(_why(nodes[0], key, at_ms))

    def holdings(self, key: DeviceKey, from_ms: int, to_ms: int) -> Iterator[Holding]:
        """Who owned a device within [from_ms, to_ms), in time order; between them the owner is unknown."""
        at_ms = from_ms
        while at_ms < to_ms:
            found = self.lookup(key, at_ms)
            if isinstance(found, Holding):
                yield found
                at_ms = found.valid_to_ms
            else:
                at_ms = min((node.gap(key, at_ms)[1] for node in self._places.get(key, ())), default=FOREVER)

    def instances(self, uuid: str) -> tuple[DeviceKey, ...]:
        """The GPU instances of a card of which something is held, by their number; at a given time some may not be."""
        return self._instances.get(uuid, ())

    def nodes(self) -> tuple[NodeState, ...]:
        """All nodes by name; the age of one is the caller's clock less its `observed_until_ms`."""
        return tuple(self._nodes[name].state for name in sorted(self._nodes))

    def devices(self) -> Iterator[Listed]:
        """The devices that nodes list at present, by node and in the order of the node."""
        for name in sorted(self._nodes):
            for key, device in self._nodes[name].listed.items():
                yield Listed(name, key, device)

    def intervals(self, node: str, key: DeviceKey) -> tuple[Interval, ...]:
        """All that is held of a device by what one node told, in time order; nothing of a node that is not known."""
        return self._nodes[node].intervals(key) if node in self._nodes else ()

    def _move(self, node: Node, *, gone: frozenset[DeviceKey], come: frozenset[DeviceKey]) -> None:
        for key in gone:
            left = tuple(other for other in self._places.pop(key) if other is not node)
            if left:
                self._places[key] = left
        for key in come:
            self._places[key] = (*self._places.get(key, ()), node)
        for uuid in {key.uuid for key in gone | come if key.gpu_instance_id}:
            known = {*self.instances(uuid), *(key for key in come if key.uuid == uuid and key.gpu_instance_id)}
            self._instances[uuid] = tuple(sorted((key for key in known if key in self._places), key=_by_number))
            if not self._instances[uuid]:
                del self._instances[uuid]

    def _why_unlisted(self, key: DeviceKey) -> str:
        if not key.gpu_instance_id and key.uuid in self._instances:
            return f"card {key.uuid} is divided into GPU instances, and owners are known for those only"
        if key.gpu_instance_id and DeviceKey(key.uuid, "") in self._places:
            return f"card {key.uuid} is listed, but not its GPU instance {key.gpu_instance_id}"
        return f"no node lists {_device(key)}"


def _contested(nodes: tuple[Node, ...], key: DeviceKey, at_ms: int) -> Holding | Unknown:
    """Of several nodes the last observed one with an interval at that time, until one that goes before it has one."""
    start, end = NEVER, FOREVER
    ranked = sorted(nodes, key=_last_observed, reverse=True)
    for node in ranked:
        found = node.holding(key, at_ms)
        if found is not None:
            start, end = max(start, found.valid_from_ms), min(end, found.valid_to_ms)
            return replace(found, valid_from_ms=start, valid_to_ms=end)
        before, after = node.gap(key, at_ms)
        start, end = max(start, before), min(end, after)
    return Unknown(_why(ranked[0], key, at_ms))


def _why(node: Node, key: DeviceKey, at_ms: int) -> str:
    """Why the owner of a device that the node lists is unknown at that time."""
    name, (before, after) = node.state.node, node.gap(key, at_ms)
    if before == NEVER and after == FOREVER:
        return f"node {name} tells no owner of {_device(key)}"
    if before == NEVER:
        return f"node {name} knows the owner of {_device(key)} from {_time(after)} on only"
    if after < FOREVER:
        return f"node {name} does not know the owner of {_device(key)} from {_time(before)} to {_time(after)}"
    if before == node.state.open_until_ms:
        seen = _time(node.state.observed_until_ms)
        return f"node {name} was last observed at {seen}, too long before to assume its last owner of {_device(key)}"
    return f"node {name} knows the owner of {_device(key)} until {_time(before)} only"


def _last_observed(node: Node) -> tuple[int, str]:
    return node.state.observed_until_ms, node.state.node


def _by_number(key: DeviceKey) -> tuple[int, str]:
    return len(key.gpu_instance_id), key.gpu_instance_id


def _device(key: DeviceKey) -> str:
    return f"{key.uuid} instance {key.gpu_instance_id}" if key.gpu_instance_id else key.uuid


def _time(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
