"""The intervals of one device as one node told them, packed, with look-up by bisection.

8000 devices with 100 intervals each are 800,000 intervals; as objects with one owner each they would be hundreds of
megabytes that the garbage collector walks through again and again. So a timeline keeps columns: times in arrays, what
rarely changes (whose names) as a `Shape` that rows share, all other numbers in one `bytes`. An interval is built again
when it is asked for.

A timeline never changes, and its rows never overlap.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import pack, unpack
from typing import Final, NamedTuple

from ownership.document import Device, Finding, Interval, Owner, Unattributed

FOREVER: Final = (1 << 63) - 1  # the end of an open interval: later than any time in a document
NEVER: Final = -1  # earlier than any time in a document
_UNKNOWN_BYTES: Final = -1  # memory_bytes None

# pod_uid, namespace, pod, container, controller_kind, controller_name, slots
_Names = tuple[str | None, str | None, str | None, str | None, str | None, str | None, int]
# mig_uuid of the device, the owners' names, unattributed_reason, findings. Plain tuples, because the garbage
# collector stops following those that hold only text and numbers.
Shape = tuple[str | None, tuple[_Names, ...], Unattributed | None, tuple[Finding, ...]]
Heads = Mapping[str | None, Device]


class Row(NamedTuple):
    """One interval [from_ms, to_ms)."""

    from_ms: int
    to_ms: int
    shape: Shape
    numbers: bytes

    @property
    def mig_uuid(self) -> str | None:
        """Which of the devices that had this key one after the other."""
        return self.shape[0]

    def interval(self) -> Interval:
        """The interval as a document had it."""
        _, names, reason, findings = self.shape
        overhead, unattributed, *memory = unpack(f"<{2 + len(names)}q", self.numbers)
        owners = tuple(map(_owner, names, memory))
        end = None if self.to_ms == FOREVER else self.to_ms
        return Interval(self.from_ms, end, owners, overhead, unattributed, reason, findings)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows in time order, in columns; the numbers of row i are `numbers[offsets[i]:offsets[i + 1]]`.

    `heads` are the devices, without their intervals, by the mig_uuid that the rows name.
    """

    starts: "array[int]"
    ends: "array[int]"
    shapes: tuple[Shape, ...]
    offsets: "array[int]"
    numbers: bytes
    heads: Heads

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Row:
        numbers = self.numbers[self.offsets[index] : self.offsets[index + 1]]
        return Row(self.starts[index], self.ends[index], self.shapes[index], numbers)

    def __iter__(self) -> Iterator[Row]:
        return map(self.__getitem__, range(len(self)))

    def at(self, at_ms: int) -> Row | None:
        """The row that covers a time."""
        index = bisect_right(self.starts, at_ms) - 1
        return self[index] if index >= 0 and at_ms < self.ends[index] else None

    def gap(self, at_ms: int) -> tuple[int, int]:
        """The end of the last row that begins by that time (or NEVER), and the start of the next (or FOREVER)."""
        after = bisect_right(self.starts, at_ms)
        return (
            self.ends[after - 1] if after else NEVER,
            self.starts[after] if after < len(self) else FOREVER,
        )

    def since(self, horizon_ms: int) -> "Timeline":
        """Without the rows that ended at the horizon or before it."""
        first = bisect_right(self.ends, horizon_ms)
        if not first:
            return self
        shapes, cut = self.shapes[first:], self.offsets[first]
        named = {shape[0] for shape in shapes}
        return Timeline(
            self.starts[first:],
            self.ends[first:],
            shapes,
            array("q", [offset - cut for offset in self.offsets[first:]]),
            self.numbers[cut:],
            {mig_uuid: head for mig_uuid, head in self.heads.items() if mig_uuid in named},
        )

    def amended(self, said: Sequence[Row], heads: Heads) -> "Timeline":
        """With the rows of a partial document, as `superseded`, and its devices."""
        keep = bisect_right(self.ends, said[0].from_ms) if said else len(self)
        tail = [self[index] for index in range(keep, len(self))]
        return self.followed_by(superseded(tail, said), {**self.heads, **heads}, keep)

    def followed_by(self, rows: Sequence[Row], heads: Heads, keep: int = 0) -> "Timeline":
        """The first `keep` rows, then `rows`, in time order and without overlaps; `heads` for all of them."""
        offsets, shapes = self.offsets[: keep + 1], self.shapes[:keep]
        numbers = self.numbers[: offsets[-1]]
        offsets.extend([*accumulate([len(row.numbers) for row in rows], initial=offsets[-1])][1:])
        pool = {shape: shape for shape in {id(shape): shape for shape in shapes}.values()}
        return Timeline(
            self.starts[:keep] + array("q", [row.from_ms for row in rows]),
            self.ends[:keep] + array("q", [row.to_ms for row in rows]),
            shapes + tuple([pool.setdefault(row.shape, row.shape) for row in rows]),
            offsets,
            b"".join([numbers, *(row.numbers for row in rows)]),
            heads,
        )


NOTHING: Final = Timeline(array("q"), array("q"), (), array("q", [0]), b"", {})


def rows_of(devices: Iterable[Device]) -> list[Row]:
    """The intervals of the devices of one key in a document, in time order."""
    rows = [
        Row(
            interval.from_ms,
            FOREVER if interval.to_ms is None else interval.to_ms,
            (device.mig_uuid, tuple(map(_names, interval.owners)), interval.unattributed_reason, interval.findings),
            _numbers(interval),
        )
        for device in devices
        for interval in device.intervals
    ]
    return sorted(rows, key=_start)


def superseded(held: Iterable[Row], said: Sequence[Row]) -> list[Row]:
    """Held rows and what a document says, which wins.

    A held row that begins inside one of the document's is gone, one that reaches into it ends where that begins.
    """
    starts = [row.from_ms for row in said]
    kept: list[Row] = []
    for row in held:
        after = bisect_right(starts, row.from_ms)
        if after and row.from_ms < said[after - 1].to_ms:
            continue
        reaches = after < len(said) and starts[after] < row.to_ms
        kept.append(row._replace(to_ms=starts[after]) if reaches else row)
    return sorted([*kept, *said], key=_start)


def _start(row: Row) -> int:
    return row.from_ms


def _names(owner: Owner) -> _Names:
    return (
        owner.pod_uid,
        owner.namespace,
        owner.pod,
        owner.container,
        owner.controller_kind,
        owner.controller_name,
        owner.slots,
    )


def _numbers(interval: Interval) -> bytes:
    memory = [_UNKNOWN_BYTES if owner.memory_bytes is None else owner.memory_bytes for owner in interval.owners]
    return pack(f"<{2 + len(memory)}q", interval.overhead_bytes, interval.unattributed_bytes, *memory)


def _owner(names: _Names, memory_bytes: int) -> Owner:
    pod_uid, namespace, pod, container, controller_kind, controller_name, slots = names
    return Owner(
        pod_uid=pod_uid,
        namespace=namespace,
        pod=pod,
        container=container,
        controller_kind=controller_kind,
        controller_name=controller_name,
        slots=slots,
        memory_bytes=None if memory_bytes == _UNKNOWN_BYTES else memory_bytes,
    )
