"""What becomes of quarantined samples by now: parts for tenants, or they go on waiting.

The decision is `route.decide`, the same as for traffic, for each sample as of its own time, with what was believed of
its sender. Beyond that:

- A sample that tenants keep is *released*. A tenant with the view `raw` had its part when the sample was received, and
  gets none here; where it is the only one, the sample is released without a part.
- A sample that would be filtered or rejected is *dropped*: as `filtered` (by rules, idle, without a claim) or as
  `unowned` (by `unowned: drop` or `reject`: no sender is left to be told). One that is unreadable is dropped as that.
- What `decide` holds back waits on, and its fate, which was told to its sender, stays as it was. So does everything
  that was held back as `shared_not_split`: a copy of a value that a tenant has cannot be told from the other samples
  of that reason, and would be a second value of its time. Copies among what is replayed become such samples here.
- Markers are never in quarantine, and none are made.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ownership import DeviceKey, Fleet, device_key
from proxy.core.books import FILTERED, QUARANTINED, ROUTED
from proxy.core.errors import SeriesError
from proxy.core.givers import Givers
from proxy.core.labels import LabelSet
from proxy.core.parcels import Piece, Target, make_part
from proxy.core.record import QuarantineRecord
from proxy.core.route import OVER_LIMIT, SHARED, UNOWNED, Claim, decide, exporter_names
from proxy.core.sorter import COLLISION
from proxy.core.tenancy import Tenancy, Trust
from proxy.core.timeseries import Point, Series, encode_text_labels, parse_series
from proxy.core.waiting import read_entry
from proxy.core.wire import Part

UNREADABLE: Final = "unreadable"
NAMESPACE_LABEL: Final = "namespace_label"
"""What the `trust` of a record says of a sender whose `namespace` label is believed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one record: `record.samples` are those released, those dropped by reason, and those of `kept`.

    `tenants` get parts of it, but for the `lost` ones (tenant, reason), one for each sample: those are no parts. Where
    `waits_for` is set, it has to wait for that tenant, and nothing becomes of it yet.
    """

    record: QuarantineRecord
    kept: tuple[QuarantineRecord, ...]
    released: int = 0
    dropped: tuple[tuple[str, int], ...] = ()
    tenants: frozenset[str] = frozenset()
    lost: tuple[tuple[str, str], ...] = ()
    waits_for: str = ""
    key: DeviceKey | None = None

    @property
    def changes(self) -> bool:
        """Whether the record does not simply wait on."""
        return self.kept != (self.record,)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Parts with `replay` set, each tenant's in order of sample time, and one verdict for each record as given."""

    parts: tuple[Part, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """Where one sample goes: to targets, or it is dropped, or waits on for a reason, or for a tenant."""

    targets: tuple[Target, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    dropped: str = ""
    reason: str = ""
    waits_for: str = ""


@dataclass(slots=True)
class _Sorted:
    """The samples of one record by what becomes of them."""

    kept: dict[str, list[Point]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    released: int = 0
    lost: list[tuple[str, str]] = field(default_factory=list)
    tenants: set[str] = field(default_factory=set)


class _Inbound(NamedTuple):
    """A record that is being judged, with the labels of its series, which came as `block`."""

    record: QuarantineRecord
    block: bytes
    labels: LabelSet


_Pieces = dict[tuple[str, tuple[str, str]], list[Piece]]


class Replay:
    """Records replayed in one go, some at a time; remembers for which series it has made parts, to tell copies.

    `paused` are tenants whose records have to wait, `had` those who have had their part of a record already.
    """

    def __init__(
        self,
        tenancy: Tenancy,
        fleet: Fleet,
        paused: Collection[str] = (),
        had: Mapping[QuarantineRecord, Collection[str]] | None = None,
    ) -> None:
        self._tenancy = tenancy
        self._fleet = fleet
        self._paused = paused
        self._had = {} if had is None else had
        self._givers = Givers()
        self._pieces: _Pieces = {}

    def take(self, records: Sequence[QuarantineRecord]) -> Replayed:
        """What becomes of records, given in order of arrival, and none older than those before them if it is to be so.

        Those of one call are taken by the time of their first sample.
        """
        self._pieces = {}
        verdicts = list(map(_untouched, records))
        for at in sorted(range(len(records)), key=lambda at: records[at].sample_ms):
            verdicts[at] = self._judge(records[at])
        return Replayed(tuple(make_part(*where, pieces) for where, pieces in self._pieces.items()), tuple(verdicts))

    def _judge(self, record: QuarantineRecord) -> Verdict:
        if record.reason == SHARED:
            return _untouched(record)
        series = read_entry(record.entry)
        labels = None if series is None else _labels(series)
        if series is None or labels is None or not _is_whole(series, record):
            return Verdict(record, (), dropped=((UNREADABLE, record.samples),))
        key = device_key(labels.get)
        inbound = _Inbound(record, series.block, labels)
        ways = [self._way(inbound, point.time_ms) for point in series.points]
        waits_for = next((way.waits_for for way in ways if way.waits_for), "")
        if waits_for:
            return Verdict(record, (record,), waits_for=waits_for, key=key)
        found = self._sort(series, ways)
        kept = tuple(_remainder(record, series, points, reason) for reason, points in found.kept.items())
        if not found.released and not found.dropped and set(found.kept) == {record.reason}:
            kept = (record,)
        return Verdict(
            record,
            kept,
            found.released,
            tuple(found.dropped.items()),
            frozenset(found.tenants),
            tuple(found.lost),
            key=key,
        )

    def _way(self, inbound: _Inbound, at_ms: int) -> _Way:
        trust = trust_of(inbound.record)
        decision = decide(inbound.labels, at_ms, trust, self._tenancy, self._fleet)
        fate = decision.fate
        if fate.kind == QUARANTINED:
            return _Way(reason=inbound.record.reason)
        if fate.kind != ROUTED:
            return _Way(dropped=FILTERED if fate.kind == FILTERED and fate.detail != UNOWNED else UNOWNED)
        had = self._had.get(inbound.record, ()) if self._had else ()
        claims = [claim for claim in decision.claims if claim.tenant.view != "raw" and claim.tenant.id not in had]
        kept = [claim for claim in claims if claim.kept is not None]
        return self._routed(inbound, at_ms, kept, device=decision.device)

    def _routed(self, inbound: _Inbound, at_ms: int, claims: Sequence[Claim], *, device: bool) -> _Way:
        pair = (inbound.labels.get("cluster"), inbound.labels.get("__replica__"))
        targets: list[Target] = []
        lost: list[tuple[str, str]] = []
        for claim in claims:
            if claim.over_limit or claim.kept is None:
                lost.append((claim.tenant.id, OVER_LIMIT))
                continue
            if claim.tenant.id in self._paused:
                return _Way(waits_for=claim.tenant.id)
            target = Target(claim.tenant.id, pair, encode_text_labels(claim.kept.pairs))
            rival = _rival(inbound, self._givers.of(target, at_ms))
            if rival is None:
                targets.append(target)
            elif device and self._bare(rival) == self._bare(inbound.labels):
                return _Way(reason=SHARED)
            else:
                lost.append((claim.tenant.id, COLLISION))
        self._givers.note(targets, at_ms, inbound.block)
        return _Way(tuple(targets), tuple(lost))

    def _bare(self, labels: LabelSet) -> LabelSet:
        return labels.without(exporter_names(labels, self._tenancy))

    def _sort(self, series: Series, ways: Sequence[_Way]) -> _Sorted:
        """Enter the samples into pieces of parts, those side by side that go the same way into one, and count them."""
        found = _Sorted()
        for way, points in _runs(series.points, ways):
            found.lost += way.lost * len(points)
            if way.reason:
                found.kept.setdefault(way.reason, []).extend(points)
            elif way.dropped:
                found.dropped[way.dropped] += len(points)
            else:
                found.released += len(points)
            for target in way.targets:
                found.tenants.add(target.tenant)
                pieces = self._pieces.setdefault((target.tenant, target.pair), [])
                pieces.append(Piece(target.block, points, series.unknown))
        return found


def trust_of(record: QuarantineRecord) -> Trust:
    """What is believed of the series of a record: a trusted job's series never come into quarantine."""
    return Trust(namespace_label=record.trust == NAMESPACE_LABEL)


def _untouched(record: QuarantineRecord) -> Verdict:
    return Verdict(record, (record,))


def _rival(inbound: _Inbound, giver: bytes | None) -> LabelSet | None:
    """The labels of another series that gave the value, by the block that it came under: the same one is a resend."""
    if giver is None or giver == inbound.block:
        return None
    labels = _labels(parse_series(giver, 0, len(giver)))
    return None if labels == inbound.labels else labels


def _labels(series: Series) -> LabelSet | None:
    try:
        return LabelSet.of(series.text_labels())
    except SeriesError:
        return None


def _is_whole(series: Series, record: QuarantineRecord) -> bool:
    """Whether the entry bears the samples that are in the books for it, and nothing else."""
    return len(series.points) == record.samples and all(point.counts for point in series.points)


def _remainder(record: QuarantineRecord, series: Series, points: Sequence[Point], reason: str) -> QuarantineRecord:
    entry = Piece(series.block, tuple(points), series.unknown).entry
    return replace(record, reason=reason, sample_ms=points[0].time_ms, samples=len(points), entry=entry)


def _runs(points: Sequence[Point], ways: Sequence[_Way]) -> Iterator[tuple[_Way, tuple[Point, ...]]]:
    """Points side by side that go the same way and are of one kind, as traffic gathers them."""
    begin = 0
    for at in range(1, len(points) + 1):
        if at == len(points) or ways[at] != ways[begin] or points[at].kind != points[begin].kind:
            yield ways[begin], tuple(points[begin:at])
            begin = at
