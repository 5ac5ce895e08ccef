"""What a data folder holds, as its keeper tells it: the answers to `orders`, plain values all of them.

Times are RFC 3339, ages in seconds; samples are the unit of the books.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from proxy.core.errors import SeriesError
from proxy.core.labels import LabelSet
from proxy.core.pieces import split_entries
from proxy.core.record import QueueRecord
from proxy.core.summary import Summary
from proxy.core.times import format_time
from proxy.core.waiting import read_entry

State = Literal["delivering", "waiting", "stopped", "not_configured", "not_seen"]
"""Of a queue: its records go out; its upstream does not take them; no proxy runs; there is no such tenant any more; its
tenant is made from data, and was not since the start."""

SERIES_SHOWN: Final = 3
"""Series of one record of a queue that are told; it may hold thousands."""

_LOOKED_AT: Final = 100
"""Entries of a record in which they are looked for: a backlog has the same series again and again."""

SERIES_CHARACTERS: Final = 4096
"""Of a series in text form, which may be as long as a request."""


@dataclass(frozen=True, slots=True)
class QueueStock:
    """One tenant's queue. `oldest` is when its first record was received; `why` how the last request to it failed."""

    tenant: str
    samples: int
    records: int
    bytes: int
    torn_bytes: int
    oldest: str | None
    age_seconds: float | None
    state: State
    why: str


@dataclass(frozen=True, slots=True)
class QueuesListed:
    """All queues that hold something or wait, in order of their tenants' ids."""

    queues: tuple[QueueStock, ...]


@dataclass(frozen=True, slots=True)
class QueuedRecord:
    """One record of a queue: `bytes` are those of its `entries`, each of a series; `series` are the first of these."""

    received: str
    age_seconds: float
    samples: int
    made: int
    exemplars: int
    bytes: int
    cluster: str
    replica: str
    attempted: bool
    replay: bool
    version: str
    entries: int
    series: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueInspected:
    """The first records of a tenant's queue, which has so many in all."""

    tenant: str
    samples: int
    records: int
    shown: tuple[QueuedRecord, ...]


@dataclass(frozen=True, slots=True)
class QueueDropped:
    """What was dropped of a tenant's queue, and what is left of it."""

    tenant: str
    records: int
    samples: int
    left_records: int
    left_samples: int


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """One record of the quarantine. `at` is the time of its first sample; `why` says what it waits for by now.

    `namespace` is that of its owner, as far as there is one by now.
    """

    at: str
    received: str
    age_seconds: float
    sender: str
    reason: str
    samples: int
    series: str
    namespace: str
    why: str


@dataclass(frozen=True, slots=True)
class QuarantineListed:
    """What waits in quarantine: samples by reason, and the first records of those that were asked for."""

    samples: Mapping[str, int]
    torn_bytes: int
    shown: tuple[HeldRecord, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class QuarantineReplayed:
    """What became of the quarantine: samples released, dropped by reason, and waiting on by reason.

    `unsettled` are tenants that could not take what is theirs, not even their queues; that waits on too. `running`
    tells whether a proxy runs; else what was released lies in the tenants' queues.
    """

    released: int
    dropped: Mapping[str, int]
    waiting: Mapping[str, int]
    unsettled: tuple[str, ...]
    running: bool


@dataclass(frozen=True, slots=True)
class QuarantineDropped:
    """What was dropped of the quarantine, and the samples that are left in it, by reason."""

    records: int
    samples: int
    left: Mapping[str, int]


Answer = QueuesListed | QueueInspected | QueueDropped | QuarantineListed | QuarantineReplayed | QuarantineDropped


def queued_record(record: QueueRecord, now_ms: int) -> QueuedRecord:
    """A record of a queue, told."""
    entries = [piece.entry for piece in split_entries(record.entries)]
    return QueuedRecord(
        received=format_time(record.received_ms),
        age_seconds=age_seconds(record.received_ms, now_ms),
        samples=record.samples,
        made=record.made,
        exemplars=record.exemplars,
        bytes=len(record.entries),
        cluster=record.pair[0],
        replica=record.pair[1],
        attempted=record.attempted,
        replay=record.replay,
        version=record.version,
        entries=len(entries),
        series=tuple(dict.fromkeys(map(series_text, entries[:_LOOKED_AT])))[:SERIES_SHOWN],
    )


def held_record(record: Summary, now_ms: int) -> HeldRecord:
    """A record of the quarantine, told."""
    return HeldRecord(
        at=format_time(record.sample_ms),
        received=format_time(record.received_ms),
        age_seconds=age_seconds(record.received_ms, now_ms),
        sender=record.sender,
        reason=record.reason,
        samples=record.samples,
        series=_cut(record.series),
        namespace=record.namespace,
        why=record.why,
    )


def age_seconds(since_ms: int, now_ms: int) -> float:
    """How long ago that is; 0 for what a clock that was set back has put into the future."""
    return max(0, now_ms - since_ms) / 1000


def series_text(entry: bytes) -> str:
    """The series of a framed entry in text form; empty where it cannot be read."""
    series = read_entry(entry)
    try:
        return "" if series is None else _cut(str(LabelSet.of(series.text_labels())))
    except SeriesError:
        return ""


def _cut(text: str) -> str:
    return text if len(text) <= SERIES_CHARACTERS else f"{text[:SERIES_CHARACTERS]}..."
