"""What the attempts of one request have brought about so far, as the next attempt must know it.

Senders send a request that was answered 503, or not answered, again byte for byte (remote-write facts 2.3). Who has a
part of it already is told entry by entry: the decision on a series may have changed between two attempts, and then a
tenant that had its part still lacks that series. An entry is known by its *mark*, a hash that is keyed anew in each
process, of the bytes as a tenant got them or as they lie in the quarantine.
"""

from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from proxy.core import fields
from proxy.core.gathering import Addressed, Taken
from proxy.core.outcome import Outcome, Refused, Retryable
from proxy.core.wire import Part

MARKS: Final = 1 << 16
"""Entries of one request at most: a hundredth of a second. Prometheus' 2,000 series make 6,000 for three tenants."""

_NOBODY: Final = ""  # in place of a tenant's id, for the quarantine


@dataclass(frozen=True, slots=True)
class Complete:
    """Nothing was handed back: `received` samples, and the answer, a status and its text."""

    received: int
    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Something was handed back.

    `marks` are those of all entries that have ended: a tenant's store has them or never will, or they are durable.
    `endings` are the markers of our own making that a tenant lacks, `refused` what tenants' stores refused for good.
    """

    marks: Sequence[int]
    endings: tuple[Addressed, ...] = ()
    refused: tuple[tuple[str, Refused], ...] = ()


Had = Complete | Incomplete


def mark_of(tenant: str, pair: Hashable, entry: bytes) -> int:
    """The mark of a framed entry that a tenant got under a (cluster, replica) pair."""
    return hash((tenant, pair, entry))


def held_mark(entry: bytes) -> int:
    """The mark of a framed entry in the quarantine."""
    return mark_of(_NOBODY, (), entry)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: parts, or pieces of them, that are neither delivered nor queued, each with its outcome.

    `held` tells whether what had to be quarantined is durable; `status` and `text` are the answer.
    """

    troubles: Sequence[tuple[str, Part, Outcome]]
    held: bool = field(kw_only=True)
    status: int = field(kw_only=True)
    text: str = field(kw_only=True)


def had_after(taken: Taken, ended: Ended, before: Incomplete | None) -> Had | None:
    """What is known after an attempt, if this was known before it; None where that is too much to remember."""
    handed_back = [part for _, part, outcome in ended.troubles if isinstance(outcome, Retryable)]
    if ended.held and not handed_back:
        return Complete(taken.received, ended.status, ended.text)
    known = len(before.marks) if before is not None else 0
    added = len(taken.held) + len(taken.collided) + sum(part.samples + part.exemplars for part in taken.parts)
    if known + added > MARKS:
        return None
    marks = {mark for part in taken.parts for mark in _marks_of(part)}
    for part in handed_back:
        marks.difference_update(_marks_of(part))
    marks.update(mark_of(*each) for each in taken.collided)
    if ended.held:
        marks.update(held_mark(each.entry) for each in taken.held)
    refused = {(tenant, outcome): None for tenant, _, outcome in ended.troubles if isinstance(outcome, Refused)}
    if before is not None:
        marks.update(before.marks)
        refused = dict.fromkeys(before.refused) | refused
    endings = tuple(ending for ending in taken.endings if mark_of(*ending) not in marks)
    return Incomplete(array("q", marks), endings, tuple(refused))


def _marks_of(part: Part) -> Iterator[int]:
    body = part.body
    bounds = fields.frames(body).bounds
    at = 0
    for end in bounds[1::2]:
        yield mark_of(part.tenant, part.pair, body[at:end])
        at = end
