"""Two inbound series that are one series of a tenant, with two values of one time: a copy, or the work of rules.

Exporters repeat one device value under labels that we take off (gpu-ownership facts 1.4). Copies are told from series
that a tenant's rules made one by what they are before rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.core.feed import rivals
from proxy.core.labels import LabelSet
from proxy.core.route import exporter_names
from proxy.core.tenancy import Tenancy
from proxy.core.timeseries import parse_series
from proxy.core.wire import Entry, Output


@dataclass(frozen=True, slots=True)
class Clash:
    """`taken` are the outputs that have a value of that time from another series; a copy goes to raw views only."""

    taken: tuple[Output, ...] = ()
    is_copy: bool = False


_NONE = Clash()


def find_clash(labels: LabelSet, entry: Entry, outputs: Iterable[Output], at_ms: int, tenancy: Tenancy) -> Clash:
    """What stands in the way of a sample of `entry`, whose labels as sent are `labels`.

    The same inbound series again, by another sender or in another order of labels, is a resend and no clash.
    """
    taken: list[Output] = []
    is_copy = False
    for output in outputs:
        others = [other for other in map(_inbound_labels, rivals(output, entry, at_ms)) if other != labels]
        if others:
            taken.append(output)
            bare = _bare(labels, tenancy)
            is_copy = is_copy or (entry.device and any(_bare(other, tenancy) == bare for other in others))
    return Clash(tuple(taken), is_copy) if taken else _NONE


def _inbound_labels(entry: Entry) -> LabelSet:
    """The labels that an entry came with, which were checked when it was first read."""
    return LabelSet.of(parse_series(entry.block, 0, len(entry.block)).text_labels())


def _bare(labels: LabelSet, tenancy: Tenancy) -> LabelSet:
    return labels.without(exporter_names(labels, tenancy))
