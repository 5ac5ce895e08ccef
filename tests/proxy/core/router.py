"""A sorter in miniature: gives `wire.scan` its decisions, and takes what scan leaves to the slow way.

`walk` is the reference: every entry goes the slow way and nothing is remembered.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from proxy.core.errors import MalformedSeriesError
from proxy.core.sharing import Shared
from proxy.core.wire import ALWAYS_FROM, ALWAYS_TO
from tests.proxy.core.twins import Twin

Pair = tuple[str, str]
NO_PAIR: Final[Pair] = ("", "")


class To(NamedTuple):
    """Where a series goes: the tenant, the pair, and the label block that it gets."""

    tenant: str
    pair: Pair
    block: bytes


class Part(NamedTuple):
    """What one scan brought to one slot."""

    tenant: str
    pair: Pair
    body: bytes
    samples: int
    exemplars: int


@dataclass(frozen=True, slots=True)
class Way:
    """A decision: good for times in [`from_ms`, `to_ms`) while its epoch lasts; not kept where `kept` is false."""

    to: tuple[To, ...]
    from_ms: int = ALWAYS_FROM
    to_ms: int = ALWAYS_TO
    device: bool = False
    kept: bool = True
    epoch: int = 0


Policy = Callable[[bytes, int, "Router"], Way]


def as_sent(block: bytes, _at_ms: int, _router: "Router") -> Way:
    """Everything goes to one tenant, unchanged."""
    return Way((To("a", NO_PAIR, block),))


def _cut(block: bytes) -> tuple[bytes, bytes]:
    """A label block in two pieces, at any place, or in one."""
    at = len(block) * (zlib.crc32(block) % 5) // 4
    return block[:at], block[at:]


@dataclass(slots=True)
class Router:
    """Decides by label block and time. `slow` are the entries that came the slow way, `kept` says to remember."""

    twin: Twin
    policy: Policy = as_sent
    kept: bool = True
    slow: list[bytes] = field(default_factory=list)
    refused: int = 0
    markers: list[tuple[bytes, int]] = field(default_factory=list)
    newest: dict[bytes, int] = field(default_factory=dict)
    cache: Any = None
    shared: Shared = field(default_factory=Shared)
    epochs: tuple[Any, ...] = ()
    _fates: dict[int, Any] = field(default_factory=dict)
    _slots: dict[tuple[str, Pair], Any] = field(default_factory=dict)
    _scans: int = 0

    def __post_init__(self) -> None:
        self.cache = self.twin.wire.SeriesCache(self.take)
        self.epochs = tuple(self.twin.wire.Epoch(0, ALWAYS_TO) for _ in range(2))

    def scan(self, body: bytes, tick: int = 1) -> list[Part]:
        """The parts of a request, by `wire.scan`."""
        self.slow.clear()
        self._scans += 1
        wire = self.twin.wire
        return self._parts(wire.scan(body, wire.frames(body).bounds, self.cache, self._scans, tick))

    def walk(self, body: bytes) -> list[Part]:
        """The parts of a request, each of its entries the slow way."""
        self.slow.clear()
        self._scans += 1
        touched: list[Any] = []
        bounds = self.twin.wire.frames(body).bounds
        for i in range(0, len(bounds), 2):
            self.take(body, bounds[i], bounds[i + 1], self._scans, touched)
        return self._parts(touched)

    def forget(self, block: bytes) -> None:
        """Evict the entry of a block, if there is one."""
        self.newest.pop(block, None)
        entry = self.cache.find(block)
        if entry is not None:
            self.cache.remove(entry)
            entry.forget()

    @property
    def fates(self) -> dict[int, int]:
        """Samples by the number of their outputs."""
        return {outputs: fate.samples for outputs, fate in self._fates.items() if fate.samples}

    def take(self, body: bytes, start: int, end: int, number: int, touched: list[Any]) -> Any:
        """The slow way of one entry; what it becomes in the cache."""
        self.slow.append(body[start:end])
        try:
            series = self.twin.timeseries.parse_series(body, start, end)
        except MalformedSeriesError:
            self.refused += 1
            return None
        block: bytes = series.block
        way = None
        run: list[Any] = []
        run_to: tuple[To, ...] = ()
        for point in series.points:
            way = self.policy(block, point.time_ms, self)
            if point.stale and way.device:
                self.markers.append((block, point.time_ms))
                continue
            if way.to != run_to:
                self._emit(run_to, run, series.unknown, (number, touched))
                run, run_to = [], way.to
            run.append(point)
            if point.counts:
                self._fate(way).samples += 1
                self.newest[block] = max(self.newest.get(block, ALWAYS_FROM), point.time_ms)
        self._emit(run_to, run, series.unknown, (number, touched))
        return None if way is None else self._keep(block, way)

    def _keep(self, block: bytes, way: Way) -> Any:
        wire = self.twin.wire
        entry = self.cache.find(block)
        if entry is None:
            if not (self.kept and way.kept):
                return None
            entry = wire.Entry(block, self.epochs[way.epoch], self._fate(way))
            assert self.cache.add(entry)
            entry.split(entry.cut(), self.shared.one)
        entry.epoch = self.epochs[way.epoch]
        entry.generation = entry.epoch.generation
        entry.fate = self._fate(way)
        entry.outputs = tuple(wire.Output(self._slot(to), *_cut(to.block)) for to in way.to)
        entry.from_ms, entry.to_ms = way.from_ms, way.to_ms
        entry.device = way.device
        entry.fast = way.kept
        entry.last_ms = max(entry.last_ms, self.newest.get(block, ALWAYS_FROM))
        return entry

    def _emit(self, way: tuple[To, ...], run: list[Any], unknown: bytes, scan: tuple[int, list[Any]]) -> None:
        if not run:
            return
        tail = b"".join(point.raw for point in run) + unknown
        samples = sum(point.counts for point in run)
        for to in way:
            slot = self._slot(to)
            part = slot.open(*scan)
            chunk = self.twin.wire.frame(len(to.block) + len(tail)) + to.block + tail
            part.add(chunk)
            part.samples += samples
            part.exemplars += len(run) - samples

    def _slot(self, to: To) -> Any:
        key = (to.tenant, to.pair)
        return self._slots.setdefault(key, self.twin.wire.Slot(*key))

    def _fate(self, way: Way) -> Any:
        count = len(way.to)
        return self._fates.setdefault(count, self.twin.wire.Fate("routed", "", str(count)))

    def _parts(self, touched: list[Any]) -> list[Part]:
        taken = [slot.take() for slot in touched]
        parts = [Part(part.tenant, part.pair, part.body, part.samples, part.exemplars) for part in taken]
        assert [part.size for part in taken] == [len(part.body) for part in parts]
        return parts
