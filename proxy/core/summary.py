"""A quarantined record as a person is shown it, with why it waits by now: the decision that a replay would follow."""

from dataclasses import dataclass

from ownership import Fleet
from proxy.core.books import QUARANTINED
from proxy.core.errors import SeriesError
from proxy.core.explain import Explanation, explain
from proxy.core.labels import LabelSet
from proxy.core.record import QuarantineRecord
from proxy.core.replay import trust_of
from proxy.core.route import SHARED
from proxy.core.tenancy import Tenancy
from proxy.core.waiting import read_entry


@dataclass(frozen=True, slots=True)
class Summary:
    """One record: when it was received and its first sample was taken (ms since the epoch), from whom, and what.

    `reason` is why it was held back, `why` a sentence for why it waits by now; `namespace` is its owner's by now.
    """

    received_ms: int
    sample_ms: int
    sender: str
    reason: str
    samples: int
    series: str
    namespace: str
    why: str


def summarise(record: QuarantineRecord, tenancy: Tenancy, fleet: Fleet) -> Summary:
    """The record, and the decision for its first sample."""
    series = read_entry(record.entry)
    try:
        labels = None if series is None else LabelSet.of(series.text_labels())
        found = None if labels is None else explain(labels, record.sample_ms, trust_of(record), tenancy, fleet)
    except SeriesError:
        found = None
    return Summary(
        received_ms=record.received_ms,
        sample_ms=record.sample_ms,
        sender=record.sender,
        reason=record.reason,
        samples=record.samples,
        series="" if found is None else found.series,
        namespace="" if found is None or found.owner is None else found.owner.get("namespace", ""),
        why="it cannot be read, and goes with the next replay" if found is None else _why(record, found),
    )


def _why(record: QuarantineRecord, found: Explanation) -> str:
    if found.fate["kind"] == QUARANTINED:
        return found.reason
    if record.reason == SHARED:
        return "the device was shared, and its values are not split yet, or this is a copy of a value that was sent"
    return "it is answered by now, and goes with the next replay"
