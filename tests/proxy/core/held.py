"""Samples held back by an intake at work, as the quarantine keeps them, and what a replay makes of them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from ownership import Fleet
from proxy.core.gathering import Held
from proxy.core.labels import LabelSet
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Replay, Replayed
from proxy.core.tenancy import Tenancy, Trust
from proxy.core.wire import Part
from tests.proxy.core.scene import T0, Scene, Series, labels_of, points_of, read_series

RECEIVED_MS = T0 + 7


class Got(NamedTuple):
    """One sample as a tenant gets it."""

    tenant: str
    pair: Hashable
    labels: LabelSet
    at: float
    value: float | str


class Done(Replayed):
    """What a replay came to, in sums over its verdicts."""

    @property
    def released(self) -> int:
        """Samples that leave the quarantine for their tenants."""
        return sum(verdict.released for verdict in self.verdicts)

    @property
    def dropped(self) -> Counter[str]:
        """Samples that leave it for nobody, by reason."""
        return sum((Counter(dict(verdict.dropped)) for verdict in self.verdicts), Counter())

    @property
    def kept(self) -> tuple[QuarantineRecord, ...]:
        """What waits on."""
        return tuple(kept for verdict in self.verdicts for kept in verdict.kept)


def replay(records: Sequence[QuarantineRecord], tenancy: Tenancy, fleet: Fleet) -> Done:
    """What becomes of records, given in order of arrival, in a replay of their own."""
    done = Replay(tenancy, fleet).take(records)
    return Done(done.parts, done.verdicts)


def records_of(held: Iterable[Held], trust: Trust = Trust()) -> list[QuarantineRecord]:  # noqa: B008 - frozen
    """What the service writes of samples that a request held back."""
    said = "namespace_label" if trust.namespace_label else ""
    return [
        QuarantineRecord(RECEIVED_MS, "sender", said, one.reason, one.time_ms, one.samples, one.entry) for one in held
    ]


def held_back(tenancy: Tenancy, *series: Series, fleet: Scene | None = None) -> list[QuarantineRecord]:
    """The records of series whose owners nobody knows, or only those that `fleet` knows."""
    scene = Scene(tenancy) if fleet is None else fleet
    return records_of(scene.take(*series).held)


def got_of(parts: Iterable[Part]) -> list[Got]:
    """Each sample of parts, in order; the parts count what they hold."""
    out: list[Got] = []
    for part in parts:
        points = [
            Got(part.tenant, part.pair, labels_of(series), at, value)
            for series in read_series(part.body)
            for at, value in points_of(series)
        ]
        assert (part.samples, part.size) == (len(points), len(part.body))
        out += points
    return out


def replayed(records: list[QuarantineRecord], tenancy: Tenancy, fleet: Fleet) -> tuple[Done, list[Got]]:
    """A replay, of which every sample that it was given is found again once."""
    done = replay(records, tenancy, fleet)
    assert [verdict.record for verdict in done.verdicts] == records
    for verdict in done.verdicts:
        ended = verdict.released + sum(count for _, count in verdict.dropped)
        assert ended + sum(kept.samples for kept in verdict.kept) == verdict.record.samples
    assert all(part.replay and not part.made and not part.exemplars for part in done.parts)
    return done, got_of(done.parts)
