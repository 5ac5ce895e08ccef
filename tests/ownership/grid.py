"""What a fleet must answer, worked out one millisecond at a time: slow, and in no way like the fleet.

Each device of each node is a list of cells, one for each millisecond up to LAST_MS. A cell holds the interval that
covers it, with the instance that it belongs to; an open interval covers all cells from its start.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument
from tests.ownership.strategies import LAST_SMALL_MS

MAX_AGE_MS = 7
LAST_MS = LAST_SMALL_MS + MAX_AGE_MS + 3


@dataclass(frozen=True)
class Cell:
    """One millisecond of an interval that begins at `from_ms`."""

    mig_uuid: str | None
    from_ms: int
    interval: Interval
    open: bool


@dataclass
class NodeGrid:
    """The cells of one node's devices."""

    observed_until_ms: int = 0
    cells: dict[DeviceKey, list[Cell | None]] = field(default_factory=dict)


class Grid:
    """The same documents as a fleet gets, without forgetting anything."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeGrid] = {}

    def replace(self, document: NodeDocument) -> None:
        """Takes a document in."""
        node = self.nodes.setdefault(document.node, NodeGrid())
        for device in document.devices:
            node.cells.setdefault(device.key, [None] * (LAST_MS + 1))
        for key, cells in node.cells.items():
            listed = {device.mig_uuid: device for device in document.devices if device.key == key}
            if document.since is None:
                for at_ms, cell in enumerate(cells):
                    if cell and not _outlives(cell, at_ms, listed.get(cell.mig_uuid), node, document):
                        cells[at_ms] = None
            old = list(cells)
            for device in listed.values():
                for interval in device.intervals:
                    _write(cells, old, device, interval)
            _close(cells)
        node.observed_until_ms = document.observed_until_ms

    def cell(self, node: str, key: DeviceKey, at_ms: int) -> Cell | None:
        """What a node tells of a device at a time."""
        found = self.nodes[node].cells.get(key, [None] * (LAST_MS + 1))[at_ms]
        stale = found and found.open and at_ms >= self.nodes[node].observed_until_ms + MAX_AGE_MS
        return None if stale else found

    def lookup(self, key: DeviceKey, at_ms: int) -> tuple[str, Cell] | None:
        """Which node's interval counts."""
        for node in sorted(self.nodes, key=lambda name: (self.nodes[name].observed_until_ms, name), reverse=True):
            cell = self.cell(node, key, at_ms)
            if cell:
                return node, cell
        return None

    def keys(self) -> Iterator[DeviceKey]:
        """All devices."""
        for node in self.nodes.values():
            yield from node.cells


def _outlives(cell: Cell, at_ms: int, listed: Device | None, node: NodeGrid, document: NodeDocument) -> bool:
    if listed is None:
        return not cell.open or at_ms < node.observed_until_ms
    if listed.intervals and at_ms >= listed.intervals[0].from_ms:
        return False
    stale = cell.open and at_ms >= node.observed_until_ms + MAX_AGE_MS
    return at_ms < document.observed_from_ms and not stale


def _write(cells: list[Cell | None], old: list[Cell | None], device: Device, interval: Interval) -> None:
    end_ms = LAST_MS + 1 if interval.to_ms is None else interval.to_ms
    for at_ms, cell in enumerate(old):
        begins_inside = cell and interval.from_ms <= cell.from_ms < end_ms
        reaches_in = cell and cell.from_ms < interval.from_ms <= at_ms
        if (begins_inside or reaches_in) and cells[at_ms] is cell:
            cells[at_ms] = None
    for at_ms in range(interval.from_ms, min(end_ms, LAST_MS + 1)):
        cells[at_ms] = Cell(device.mig_uuid, interval.from_ms, interval, interval.to_ms is None)


def _close(cells: list[Cell | None]) -> None:
    """An open interval of which the end was taken away is open no more."""
    for at_ms, cell in enumerate(cells):
        if cell and cell.open and cells[-1] != cell:
            cells[at_ms] = replace(cell, open=False)
