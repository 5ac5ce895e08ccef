"""What the tests of routing and intake are told with: ownership documents, tenancies, requests as bytes, and answers.

Times are seconds after T0, and milliseconds since the epoch wherever the code under test sees them.
"""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ownership import Changes, Fleet, parse_document
from proto.prompb import remote_pb2, types_pb2
from proxy.core.books import Books
from proxy.core.gathering import Moment, Taken
from proxy.core.intake import Intake
from proxy.core.labels import LabelSet
from proxy.core.relabel import compile_rules
from proxy.core.relabel_actions import RelabelRule
from proxy.core.series_cache import CacheBudget
from proxy.core.sorter import Limits
from proxy.core.tenancy import Tenancy, Tenant, Trust
from tests.proxy.core.relabel_rows import Written

T0 = 1_796_056_700_000
MAX_AGE = 30
HISTORY = 3 * 3600
CARD = "GPU-5b1e0c44-7a0d-4f6b-9a52-0d6f2f7c1a10"
OTHER_CARD = "GPU-77777777-7a0d-4f6b-9a52-0d6f2f7c1a11"
STALE_BITS = 0x7FF0000000000002
STALE: float = struct.unpack("<d", struct.pack("<Q", STALE_BITS))[0]

Document = dict[str, Any]
Labels = Mapping[str, str] | Sequence[tuple[str, str]]
Got = list[tuple[str, float, float | str]]


def ms(seconds: float) -> int:
    """Seconds after T0 as milliseconds since the epoch."""
    return T0 + round(seconds * 1000)


def owner(namespace: str | None, pod: str | None = None, **over: Any) -> Document:
    """An owner of a StatefulSet; its pod is called after its namespace unless `pod` is given."""
    name = pod or f"{namespace}-0"
    return {
        "pod_uid": f"uid-{name}",
        "namespace": namespace,
        "pod": name,
        "container": "main",
        "controller_kind": "StatefulSet",
        "controller_name": f"{namespace}-set",
        "slots": 1,
        "memory_bytes": 1 << 30,
        **over,
    }


def interval(begin: float, end: float | None, *owners: Document, **over: Any) -> Document:
    """An interval of a device; `end` None is open."""
    return {
        "from": ms(begin),
        "to": None if end is None else ms(end),
        "owners": list(owners),
        "overhead_bytes": 0,
        "unattributed_bytes": 0,
        "findings": [],
        **over,
    }


def card(*intervals: Document, uuid: str = CARD, sharing: str = "exclusive", **over: Any) -> Document:
    """A device of an ownership document."""
    return {
        "uuid": uuid,
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "memory_total_bytes": 80 << 30,
        "gpu_instance_id": None,
        "replicas": 1,
        "sharing": sharing,
        "intervals": list(intervals),
        **over,
    }


def load(fleet: Fleet, devices: Iterable[Document], until: float, node: str = "node-a", revision: int = 1) -> Changes:
    """Give the fleet a whole document of a node that was observed until then."""
    raw = {
        "version": 1,
        "revision": revision,
        "node": node,
        "observed_from": ms(-3600),
        "observed_until": ms(until),
        "devices": list(devices),
    }
    return fleet.replace(parse_document(json.dumps(raw).encode()))


def fleet_of(*devices: Document, until: float = 100) -> Fleet:
    """A fleet of one node."""
    fleet = Fleet(MAX_AGE * 1000, HISTORY * 1000)
    load(fleet, devices, until)
    return fleet


def rules(*written: Written) -> tuple[RelabelRule, ...]:
    """Compiled relabel rules."""
    return compile_rules(written)


def tenants(*spec: tuple[str, str] | tuple[str, str, tuple[RelabelRule, ...]]) -> tuple[Tenant, ...]:
    """Tenants in file order, each an id, a view, and its rules if it has any."""
    return tuple(Tenant(row[0], at, row[1], *row[2:]) for at, row in enumerate(spec))  # type: ignore[arg-type]


def util(**labels: str) -> LabelSet:
    """A series as dcgm-exporter makes it, with these labels put over it; "" takes one off."""
    base = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": CARD, "gpu": "0", "job": "dcgm", "instance": "10.0.0.7:9400"}
    return LabelSet.of({**base, **labels})


class Series:
    """One entry of a request: labels in the order given, points, and fields that nobody knows."""

    def __init__(self, labels: LabelSet | Labels, *samples: tuple[float, float], unknown: bytes = b"") -> None:
        pairs = labels.pairs if isinstance(labels, LabelSet) else labels
        self.message = types_pb2.TimeSeries()
        for name, text in pairs.items() if isinstance(pairs, Mapping) else pairs:
            self.message.labels.add(name=name.encode(), value=text.encode())
        for at, value in samples:
            self.message.samples.add(value=value, timestamp=ms(at))
        self._unknown = unknown

    def exemplar(self, at: float, value: float, **labels: str) -> "Series":
        """The same with an exemplar more."""
        made = self.message.exemplars.add(value=value, timestamp=ms(at))
        for name, text in labels.items():
            made.labels.add(name=name.encode(), value=text.encode())
        return self

    def histogram(self, at: float, total: float, count: int = 3) -> "Series":
        """The same with a native histogram more; the sum STALE makes it a stale marker."""
        made = self.message.histograms.add(count_int=count, sum=total, schema=0, timestamp=ms(at))
        made.positive_spans.add(offset=0, length=1)
        made.positive_deltas.append(count)
        return self

    def to_bytes(self) -> bytes:
        """The framed entry."""
        entry = self.message.SerializeToString() + self._unknown
        return b"\x0a" + varint(len(entry)) + entry


def varint(value: int) -> bytes:
    """A varint of protobuf."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_series(body: bytes) -> list[types_pb2.TimeSeries]:
    """The entries of a part, as protobuf reads them."""
    return list(remote_pb2.WriteRequest.FromString(body).timeseries)


def labels_of(series: types_pb2.TimeSeries) -> LabelSet:
    """The label set of an entry; fails where it is not sorted, or has a name twice or an empty value."""
    pairs = tuple((label.name.decode(), label.value.decode()) for label in series.labels)
    made = LabelSet.of(pairs)
    assert made.pairs == pairs, "not a canonical label set"
    return made


def points_of(series: types_pb2.TimeSeries) -> list[tuple[float, float | str]]:
    """Time and value of each sample and histogram: "stale" for markers, for histograms `sum` as text."""
    out: list[tuple[float, float | str]] = []
    for sample in series.samples:
        stale = struct.pack("<d", sample.value) == struct.pack("<Q", STALE_BITS)
        out.append(((sample.timestamp - T0) / 1000, "stale" if stale else sample.value))
    for histogram in series.histograms:
        stale = struct.pack("<d", histogram.sum) == struct.pack("<Q", STALE_BITS)
        out.append(((histogram.timestamp - T0) / 1000, "stale histogram" if stale else f"sum {histogram.sum:g}"))
    return out


class Scene:
    """An intake with its fleet and books, driven by requests as bytes."""

    def __init__(self, tenancy: Tenancy, *devices: Document, until: float = 100, cache_bytes: int = 1 << 30) -> None:
        self.fleet = Fleet(MAX_AGE * 1000, HISTORY * 1000)
        self.books = Books()
        self.intake = Intake(tenancy, self.fleet, self.books, Limits(), CacheBudget(cache_bytes))
        self.taken = Taken()
        self._revision = 0
        self._changes: dict[str, Changes] = {}
        if devices:
            self.load(*devices, until=until)

    def load(self, *devices: Document, until: float, node: str = "node-a") -> None:
        """A new whole document of a node."""
        self._revision += 1
        changes = self._changes[node] = load(self.fleet, devices, until, node, self._revision)
        self.intake.ownership_changed(changes.node, changes.keys, changes.all_keys, changes.open_until_ms)

    def take(self, *series: Series, trust: Trust = Trust(), tick: int = 1) -> Taken:  # noqa: B008 - frozen
        """Take a request of these series; whatever it holds, the fates of the books add up afterwards."""
        return self.take_bytes(b"".join(one.to_bytes() for one in series), trust, tick)

    def take_bytes(self, body: bytes, trust: Trust = Trust(), tick: int = 1) -> Taken:  # noqa: B008 - frozen
        """Take a request."""
        self.taken = self.intake.take(body, trust, Moment(T0, tick))
        self.books.received["sender", "1.0"] += self.taken.received
        for part in self.taken.parts:
            tenant = self.books.tenant(part.tenant)
            tenant.parts += part.samples
            tenant.made += part.made
            tenant.delivered += part.samples
            assert part.size == len(part.body)
        assert self.books.imbalances() == ()
        return self.taken

    def forget(self) -> None:
        """Forget all that is remembered, as a restart does."""
        tenancy, limits = self.intake.tenancy, Limits()
        self.intake = Intake(tenancy, self.fleet, self.books, limits, CacheBudget())
        for changes in self._changes.values():
            self.intake.ownership_changed(changes.node, changes.keys, changes.all_keys, changes.open_until_ms)

    def got(self, tenant: str, label: str = "pod") -> Got:
        """What the last request brought a tenant: of each point the series' `label`, its time and its value."""
        out: Got = []
        for part in self.taken.parts:
            if part.tenant == tenant:
                entries = [(labels_of(series).get(label), series) for series in read_series(part.body)]
                points = [(shown, at, value) for shown, series in entries for at, value in points_of(series)]
                assert part.samples == len(points)
                assert part.exemplars == sum(len(series.exemplars) for _, series in entries)
                out += points
        return out

    def parts(self) -> list[tuple[object, ...]]:
        """The parts of the last request, each in one piece."""
        return [
            (part.tenant, part.pair, part.body, part.samples, part.made, part.exemplars) for part in self.taken.parts
        ]

    def fast(self) -> int:
        """How many samples of the last request took the fast way."""
        return sum(sorter.cache.fast_samples for sorter in self.intake._sorters.values())

    def made(self, tenant: str) -> int:
        """How many of the parts of the last request we made ourselves."""
        return sum(part.made for part in self.taken.parts if part.tenant == tenant)

    def fates(self) -> dict[str, int]:
        """The books' fates so far that are not 0, as `kind`, `kind:detail` or `kind:tenant:detail`."""
        names = ((":".join(filter(None, (fate.kind, fate.tenant, fate.detail))), fate) for fate in self.books.fates())
        return {name: fate.samples for name, fate in names if fate.samples}
