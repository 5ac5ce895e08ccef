"""The writer of one tenant's file: appends requests of remote write 1.0, each in one transaction.

One object in one process writes a file; a lock makes its methods safe from any thread. An append that returned is on
the disk (`synchronous=FULL`: SQLite syncs its log before COMMIT returns), one that raised left nothing.

What a series is, is decided once for each label block: its bytes are looked up in a cache of ids, so a request whose
series are known costs no label. Exemplars and metadata are not kept: nothing reads them here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from google.protobuf.message import DecodeError

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import TimeSeries
from store.errors import StoreBodyError
from store.reading import Labels, float_bits
from store.schema import open_writer, told

CACHED_SERIES: Final = 65_536  # label blocks of 500 bytes: 40 MB at most, for one node's series many times over

_Row = tuple[int, int, int | bytes]  # at_ms, series, value


class SampleStore:
    """One tenant's file for appending; made, with its folder, where it is not there yet. Raises StoreError everywhere.

    What is in it is read by a `SampleReader`, in this process or another.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the file, see `store.schema.store_path`."""
        self.path = path
        self._connection = open_writer(path)
        self._ids: dict[bytes, int] = {}
        self._lock = Lock()  # guards the connection and the ids

    def append(self, body: bytes) -> int:
        """Stores an uncompressed WriteRequest; the number of samples that were new.

        Of several values for a series and time the first that came stays, in a request and over requests; the order
        of times does not matter. Raises StoreBodyError for a body that can never be stored, and
        StoreUnavailableError when the disk does not take it now; in both cases nothing of it is stored.
        """
        try:
            request = WriteRequest.FromString(body)
        except DecodeError as error:
            raise StoreBodyError(f"{self.path}: the body is no write request of remote write 1.0") from error
        with self._lock, told(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                rows = [row for entry in request.timeseries for row in self._rows(entry)]
                before = self._connection.total_changes
                self._connection.executemany("INSERT OR IGNORE INTO samples VALUES (?, ?, ?)", rows)
                stored = self._connection.total_changes - before
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        return stored

    def close(self) -> None:
        """Ends the use of the file; what was appended is on the disk already."""
        with self._lock, told(self.path):
            self._connection.close()

    def _roll_back(self) -> None:
        self._ids.clear()  # some may name series that are now gone
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _rows(self, entry: TimeSeries) -> Iterator[_Row]:
        values: list[tuple[int, int | bytes]] = [(each.timestamp, float_bits(each.value)) for each in entry.samples]
        values += [(each.timestamp, each.SerializeToString()) for each in entry.histograms]
        if values:
            for field in ("samples", "exemplars", "histograms"):
                entry.ClearField(field)
            block = entry.SerializeToString()
            series = self._ids.get(block) or self._learn(block, entry)
            for at_ms, value in values:
                yield at_ms, series, value

    def _learn(self, block: bytes, entry: TimeSeries) -> int:
        try:
            labels = _labels(entry)
        except ValueError as error:
            raise StoreBodyError(f"{self.path}: a series of the body cannot be stored: {error}") from error
        if len(self._ids) >= CACHED_SERIES:
            self._ids.clear()
        series = self._ids[block] = self._series(labels)
        return series

    def _series(self, labels: Labels) -> int:
        text = json.dumps(labels, ensure_ascii=False, separators=(",", ":"))
        found: tuple[int] | None = self._connection.execute(
            "SELECT id FROM series WHERE labels = ?", (text,)
        ).fetchone()
        if found is not None:
            return found[0]
        series = self._connection.execute("INSERT INTO series (labels) VALUES (?)", (text,)).lastrowid or 0
        pairs = [(name, value, series) for name, value in labels.items()]
        self._connection.executemany("INSERT INTO label_pairs VALUES (?, ?, ?)", pairs)
        return series


def _labels(entry: TimeSeries) -> Labels:
    """The label set of an entry, names sorted; raises ValueError for one that is none. Empty values are absent."""
    pairs = sorted((label.name.decode(), label.value.decode()) for label in entry.labels)
    labels = {name: value for name, value in pairs if value}
    if not labels:
        raise ValueError("it has no labels")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("it has a label twice")
    if "" in labels:
        raise ValueError("it has a label without a name")
    return labels
