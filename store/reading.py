"""Range reads of one tenant's file, from any process and any thread, while another one writes.

Each call opens the file, reads one moment of it (a snapshot) and closes it: a reader keeps nothing open that would
hold up the writer's checkpoints, as long as what `select` returns is used up or closed.
"""

import json
import struct
from collections.abc import Generator, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from store.errors import StoreError
from store.schema import open_reader

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

Labels = dict[str, str]
Value = TypeVar("Value")
Selected = Generator[tuple[Labels, list[tuple[int, Value]]], None, None]

_SERIES: Final = "SELECT labels FROM series WHERE true"
_RANGE: Final = "SELECT series, at_ms, value FROM samples WHERE at_ms >= ? AND at_ms < ? AND typeof(value) = ?"
_HAS: Final = " AND {} IN (SELECT series FROM label_pairs WHERE name = ? AND value = ?)"
_LACKS: Final = " AND {} NOT IN (SELECT series FROM label_pairs WHERE name = ?)"

_BITS = struct.Struct("<q")
_FLOAT = struct.Struct("<d")


def float_bits(value: float) -> int:
    """The 64 bits of a float as a signed number; unlike the float itself they tell one NaN from another."""
    bits: int = _BITS.unpack(_FLOAT.pack(value))[0]
    return bits


def bits_float(bits: int) -> float:
    """The float with these 64 bits."""
    value: float = _FLOAT.unpack(_BITS.pack(bits))[0]
    return value


class SampleReader:
    """Reads one tenant's file; every method raises StoreError, also where the file is not there (yet).

    Matchers are exact: a name and the value that the label must have, "" for a label that must be absent.
    Times are milliseconds since the epoch, ranges are [from_ms, to_ms).
    """

    def __init__(self, path: Path) -> None:
        """`path` is the file, see `store.schema.store_path`."""
        self._path = path

    def select(self, matchers: Mapping[str, str], from_ms: int, to_ms: int) -> Selected[float]:
        """The float samples of each matching series that has any, in time order."""
        for labels, rows in self._select(matchers, (from_ms, to_ms, "integer")):
            yield labels, [(at_ms, bits_float(bits)) for at_ms, bits in rows]

    def select_histograms(self, matchers: Mapping[str, str], from_ms: int, to_ms: int) -> Selected[bytes]:
        """The native histograms of each matching series that has any, in time order, as protobuf messages."""
        yield from self._select(matchers, (from_ms, to_ms, "blob"))

    def series(self, matchers: Mapping[str, str] | None = None) -> Iterator[Labels]:
        """The label sets of all matching series, in the order in which they first came."""
        clauses, values = _conditions("id", matchers or {})
        with open_reader(self._path) as connection:
            for (text,) in connection.execute(_SERIES + clauses + " ORDER BY id", values):
                yield self._labels(text)

    def count(self) -> int:
        """How many samples there are, histograms too."""
        with open_reader(self._path) as connection:
            (count,) = connection.execute("SELECT count(*) FROM samples").fetchone()
        return int(count)

    def _select(self, matchers: Mapping[str, str], span: tuple[int, int, str]) -> Selected[Any]:
        from_ms, to_ms, kind = span
        clauses, values = _conditions("series", matchers)
        bounds = (max(from_ms, INT64_MIN), min(to_ms, INT64_MAX), kind)
        with open_reader(self._path) as connection:
            rows = connection.execute(_RANGE + clauses + " ORDER BY series, at_ms", (*bounds, *values))
            for series, group in groupby(rows, itemgetter(0)):
                (text,) = connection.execute("SELECT labels FROM series WHERE id = ?", (series,)).fetchone() or (None,)
                yield self._labels(text), [(at_ms, value) for _, at_ms, value in group]

    def _labels(self, text: str | bytes | None) -> Labels:
        try:
            labels = json.loads(text or b"")
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._path} is damaged: labels of a series cannot be read") from error
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise StoreError(f"{self._path} is damaged: labels of a series are no labels")
        return labels


def _conditions(column: str, matchers: Mapping[str, str]) -> tuple[str, list[str]]:
    """What narrows a query to the matching series, and the values for its marks."""
    clauses, values = "", list[str]()
    for name, value in matchers.items():
        clauses += (_HAS if value else _LACKS).format(column)
        values += [name, value] if value else [name]
    return clauses, values
