"""What one node has told, document after document: a timeline for each of its devices.

A whole document replaces what is held from its `observed_from` on, and older history stays. Three things keep late
answers equal to early ones, whatever a labeler forgets:

- A device that a whole document does not list keeps what was told of it before, and its open interval ends at the
  `observed_until` of the document before: up to there somebody saw its owner, and samples of that time may still
  come; since then nobody has seen the device, so no owner is assumed for `max_age` either.
- An open interval that the node no longer tells of (a labeler that lost its history begins anew) ends where the new
  observation begins, at the latest when it would have gone stale.
- What a device is (model, sharing, replicas) has no times in a document, so the latest word holds for all intervals.

A partial document replaces intervals by their `from`; it must continue the revision that is held.
"""

from collections.abc import Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, replace

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument
from ownership.errors import RevisionError
from ownership.timeline import FOREVER, NEVER, NOTHING, Row, Timeline, rows_of, superseded


@dataclass(frozen=True, slots=True)
class NodeState:
    """How much a node has told, and until when its open intervals are good (`open_until_ms`, exclusive)."""

    node: str
    revision: int
    observed_from_ms: int
    observed_until_ms: int
    open_until_ms: int
    static: bool


@dataclass(frozen=True, slots=True)
class Holding:
    """Who owned a device at a time; the same answer holds for each time in [valid_from_ms, valid_to_ms).

    `device` is without its intervals. An open interval is valid until the node's last observation + `max_age`.
    """

    device: Device
    node: str
    interval: Interval
    valid_from_ms: int
    valid_to_ms: int


class Node:
    """One node's devices as of its latest document."""

    def __init__(self, document: NodeDocument, state: NodeState, horizon_ms: int) -> None:
        """Begins with a whole document, as `take`; raises RevisionError for a partial one."""
        if document.since is not None:
            raise RevisionError(f"node {state.node}: a partial document came first, ask for the whole one")
        self.state = state
        self.listed: dict[DeviceKey, Device] = {}
        self._timelines: dict[DeviceKey, Timeline] = {}
        self._memo: dict[DeviceKey, Holding] = {}
        self.take(document, state, horizon_ms)

    def take(self, document: NodeDocument, state: NodeState, horizon_ms: int) -> frozenset[DeviceKey]:
        """Takes a document in, then forgets what ended by the horizon; the keys whose intervals the document changed.

        Raises RevisionError, and changes nothing, when a partial document does not continue what is held.
        """
        whole = document.since is None
        if not whole:
            self._check_continued(document)
        devices = _by_key(document)
        keys = self._timelines.keys() | devices.keys() if whole else devices.keys()
        changed = frozenset([key for key in keys if self._rewrite(key, devices.get(key, []), document)])
        heads = {key: replace(max(group, key=_latest_start), intervals=()) for key, group in devices.items()}
        self.listed = heads if whole else self.listed | heads
        self.state = state
        self._memo.clear()
        self._forget(horizon_ms)
        return changed

    def keys(self) -> KeysView[DeviceKey]:
        """The devices of which something is held, also those that the node lists no more."""
        return self._timelines.keys()

    def holding(self, key: DeviceKey, at_ms: int) -> Holding | None:
        """Who owned a device of this node at a time."""
        memo = self._memo.get(key)
        if memo is not None and memo.valid_from_ms <= at_ms < memo.valid_to_ms:
            return memo
        timeline = self._timelines[key]
        row = timeline.at(at_ms)
        if row is None:
            return None
        end = self._end(row.to_ms)
        if at_ms >= end:
            return None
        device = timeline.heads[row.mig_uuid]
        found = self._memo[key] = Holding(device, self.state.node, row.interval(), row.from_ms, end)
        return found

    def gap(self, key: DeviceKey, at_ms: int) -> tuple[int, int]:
        """The span [from, to) around a time of unknown owner in which it stays unknown, by what is held now."""
        before, after = self._timelines[key].gap(at_ms)
        return self._end(before), after

    def intervals(self, key: DeviceKey) -> tuple[Interval, ...]:
        """All that is held of a device, in time order."""
        return tuple(row.interval() for row in self._timelines.get(key, NOTHING))

    def _end(self, to_ms: int) -> int:
        return self.state.open_until_ms if to_ms == FOREVER else to_ms

    def _check_continued(self, document: NodeDocument) -> None:
        since, held = document.since, self.state.revision
        if since is None or not since <= held <= document.revision:
            raise RevisionError(
                f"node {self.state.node}: a partial document from revision {since} to {document.revision} does not "
                f"continue revision {held}, ask for the whole one"
            )

    def _rewrite(self, key: DeviceKey, devices: Sequence[Device], document: NodeDocument) -> bool:
        held = self._timelines.get(key, NOTHING)
        said = rows_of(devices)
        heads = {device.mig_uuid: replace(device, intervals=()) for device in devices}
        if document.since is None:
            kept = [*self._outlived(held, devices, document)]
            known = {row.mig_uuid: held.heads[row.mig_uuid] for row in kept}
            fresh = NOTHING.followed_by(superseded(kept, said), known | heads)
        else:
            fresh = held.amended(said, heads)
        self._timelines[key] = fresh
        return fresh != held

    def _outlived(self, held: Iterable[Row], devices: Sequence[Device], document: NodeDocument) -> Iterator[Row]:
        """What a whole document leaves of the rows before it."""
        listed = {device.mig_uuid: device for device in devices}
        for row in held:
            device = listed.get(row.mig_uuid)
            if device is None:
                end = self.state.observed_until_ms if row.to_ms == FOREVER else row.to_ms
            else:
                first = device.intervals[0].from_ms if device.intervals else FOREVER
                end = min(first, document.observed_from_ms, self._end(row.to_ms))
            if row.from_ms < end:
                yield row._replace(to_ms=end)

    def _forget(self, horizon_ms: int) -> None:
        for key, timeline in [*self._timelines.items()]:
            kept = timeline.since(horizon_ms)
            if kept or key in self.listed:
                self._timelines[key] = kept
            else:
                del self._timelines[key]


def _by_key(document: NodeDocument) -> dict[DeviceKey, list[Device]]:
    groups: dict[DeviceKey, list[Device]] = {}
    for device in document.devices:
        groups.setdefault(device.key, []).append(device)
    return groups


def _latest_start(device: Device) -> int:
    return device.intervals[-1].from_ms if device.intervals else NEVER
