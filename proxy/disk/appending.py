"""What is to be appended to a queue: in which order, into which segments, and what of it finds no room."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proxy.core.errors import QueueFullError, StorageError
from proxy.core.frames import RecordError, frame
from proxy.core.record import QueueRecord
from proxy.core.retention import QueueKeep, beyond
from proxy.disk.contents import Effect


@dataclass(slots=True)
class Call:
    """Records that become durable together, or not at all; `durable` or `error` tells how it ended, for `done`.

    `taken`: the first of them is under way already. `kept` are those for which there is room, with their `frames`.
    """

    records: Sequence[QueueRecord]
    done: Callable[[StorageError | None], None]
    taken: bool = False
    kept: list[QueueRecord] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    durable: bool = False
    error: StorageError | None = None

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(map(len, self.frames))

    @property
    def overflows(self) -> bool:
        """Whether some of the records found no room, so that nothing older than these may stay."""
        return len(self.kept) < len(self.records)

    def prepare(self, keep: QueueKeep, used_bytes: int) -> None:
        """Encode the records. Of more than may be kept the oldest find no room, but for one that is under way."""
        try:
            frames = [frame(record.encode()) for record in self.records]
        except RecordError as error:
            self.error = StorageError(f"a record cannot be written: {error}")
            return
        sizes = [len(framed) for framed in frames]
        if keep.full == "refuse" and used_bytes + sum(sizes) > keep.bytes:
            self.error = QueueFullError(f"{used_bytes} bytes wait, {keep.bytes} may; raise queue_bytes")
            return
        first = 1 if self.taken else 0
        behind = first + beyond(sizes[first:], keep.bytes)
        self.kept = [*self.records[:first], *self.records[behind:]]
        self.frames = [*frames[:first], *frames[behind:]]

    def count(self, effect: Effect) -> None:
        """All that has room is durable now."""
        self.durable = True
        effect.records += len(self.records)
        effect.samples += sum(record.samples for record in self.records)
        if self.overflows:
            samples = sum(record.samples for record in self.records) - sum(record.samples for record in self.kept)
            effect.drop("queue_full", len(self.records) - len(self.kept), samples)


def runs(calls: Iterable[Call], segment_bytes: int) -> Iterator[list[Call]]:
    """The calls in order, cut so that each run goes into one segment; none is cut itself, however large it is.

    Only the first of a run overflows.
    """
    run: list[Call] = []
    size = 0
    for call in calls:
        if run and (size + call.size > segment_bytes or call.overflows):
            yield run
            run, size = [], 0
        run.append(call)
        size += call.size
    if run:
        yield run
