"""Which inbound series feeds which series of a tenant, and when a stale marker ends it (design 5).

Prometheus ends and begins a series whenever the exporter's pod label changes; ours goes on, because those labels are
taken off. So a marker ends an output only if nothing else feeds it, and a hand-over ends an output that its sender does
not know of. Pure functions over entries and outputs.
"""

from dataclasses import dataclass, field
from typing import Final

from ownership import Holding, Unknown
from proxy.core.fields import varint
from proxy.core.route import Decision
from proxy.core.timeseries import STALE_BITS, Point, framed
from proxy.core.wire import ALWAYS_FROM, Entry, Fate, Output

FEEDING_MS: Final = 5 * 60 * 1000
"""How long after its newest sample an inbound series still feeds: Prometheus' lookback, after which a series ends."""

FEEDERS: Final = 64
"""Series that may feed one at a time: an exporter repeats a value for each replica of a card, which has 48 at most."""

RIVALS: Final = 4
"""Values of one time that are compared with a new one: those of other senders of the same series are few."""


@dataclass(slots=True)
class Marker:
    """A stale marker of an inbound device series, whose place in each slot is kept until the request has been read.

    `at_ms` is when it ends the outputs: its own time, or the hand-over if the owner has changed since. `unknown` is the
    rest of its entry, as sent.
    """

    entry: Entry
    point: Point
    unknown: bytes
    at_ms: int
    outputs: tuple[Output, ...]
    fate: Fate
    places: list[int] = field(default_factory=list)


def is_fed(entry: Entry) -> bool:
    """Whether any sample of the entry has been taken."""
    return entry.last_ms > ALWAYS_FROM


def holds(entry: Entry, at_ms: int) -> bool:
    """Whether the decision of an entry is good for a sample of that time."""
    epoch = entry.epoch
    return (
        not entry.ended
        and entry.generation == epoch.generation
        and entry.from_ms <= at_ms < entry.to_ms
        and at_ms < epoch.until_ms
    )


def rivals(output: Output, entry: Entry, at_ms: int) -> tuple[Entry, ...]:
    """The other entries that have given the output a value of that very time, the latest RIVALS of them."""
    if len(output.feeders) == 1 and output.feeders[0] is entry:
        return ()
    return tuple(other for other in output.feeders if other is not entry and other.last_ms == at_ms)[-RIVALS:]


def fed_by_others(output: Output, entry: Entry, at_ms: int) -> bool:
    """Whether another inbound series keeps the output going at that time."""
    return any(
        other is not entry and not other.ended and other.last_ms >= at_ms - FEEDING_MS for other in output.feeders
    )


def goes_on(output: Output, entry: Entry, at_ms: int) -> bool:
    """Whether a marker of `entry` must not be sent: the output has a value then, or is fed by another series."""
    has_value = entry.last_ms == at_ms or any(other.last_ms == at_ms for other in output.feeders)
    return has_value or fed_by_others(output, entry, at_ms)


def hand_over_ms(entry: Entry, old: Holding | Unknown, decision: Decision, at_ms: int) -> int | None:
    """When what `entry` fed until now ended, if its owner is another one by `at_ms`; always after its newest sample.

    `old` is what is known by now of the time that the entry was decided for, `decision` is the one for `at_ms`. An
    interval that has not ended by then has been completed: its owner's labels were learnt later. Where nobody knows the
    owner at `at_ms`, the end of a closed interval is still known.
    """
    if decision.key is None or decision.owner == entry.owner:
        return None
    end_ms = old.interval.to_ms if isinstance(old, Holding) else decision.window[0]
    if decision.owner is None and (isinstance(old, Unknown) or end_ms is None or end_ms > at_ms):
        return None
    if end_ms is None or end_ms > at_ms:
        return entry.last_ms + 1
    return max(end_ms, entry.last_ms + 1)


def marker_entry(block: bytes, at_ms: int) -> bytes:
    """A framed entry that ends the series of a label block at `at_ms`."""
    sample = b"\x09" + STALE_BITS + b"\x10" + varint(at_ms % (1 << 64))
    tail = b"\x12" + varint(len(sample)) + sample
    return framed(block, tail)


def attach(entry: Entry, known: dict[Output, Output]) -> None:
    """Make the outputs of `entry` known; it feeds them from its first sample on that they are given."""
    for output in entry.outputs:
        known.setdefault(output, output)


def rejoin(entry: Entry, known: dict[Output, Output]) -> None:
    """Let `entry`, which may have been let go as silent, feed the outputs that others know by now."""
    if any(known.get(output) is not output for output in entry.outputs):
        entry.outputs = tuple(known.setdefault(output, output) for output in entry.outputs)


def detach(entry: Entry, known: dict[Output, Output]) -> None:
    """Note that `entry` feeds its outputs no more; an output without a feeder is forgotten."""
    for output in entry.outputs:
        output.feeders = tuple(other for other in output.feeders if other is not entry)
        if not output.feeders:
            known.pop(output, None)


def is_alone(entry: Entry, at_ms: int) -> bool:
    """Whether nothing else feeds the outputs of `entry`, which feeds them from now on, so that it may go the fast way.

    Feeders that ended, or have been silent for FEEDING_MS, are let go, and the oldest of more than FEEDERS; they come
    back by the slow way. Those that are left lose the fast way, because two series that feed one output must be
    compared at each sample.
    """
    alone = True
    for output in entry.outputs:
        if len(output.feeders) == 1 and output.feeders[0] is entry:
            continue
        others = [other for other in output.feeders if other is not entry]
        live = [other for other in others if not other.ended and other.last_ms >= at_ms - FEEDING_MS]
        for other in others:
            other.fast = False
        output.feeders = (*live[1 - FEEDERS :], entry)
        alone = alone and not live
    return alone
