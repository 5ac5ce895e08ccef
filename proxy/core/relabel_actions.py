"""The eleven actions of relabel rules, each a function of a rule and of the labels as the rules before left them.

A function changes the labels, and answers whether the series stays. Meaning: Prometheus 3.16, model/relabel and
model/labels.Builder.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.core.casemap import to_lower, to_upper
from proxy.core.labels import LabelSet
from proxy.core.regex import Regex
from proxy.core.template import Template


class WorkingLabels:
    """The labels while rules change them, in the order in which labelmap goes through them.

    First those of the series that no rule has set, sorted; then those that rules have set, in the order of their
    first setting. Setting "" takes a label off. An empty name, which labelmap can make, lives until the last rule.
    """

    __slots__ = ("_base", "_changed", "_ours", "_values")

    def __init__(self, base: LabelSet) -> None:
        self._base = base
        self._values = dict(base.pairs)
        self._ours: set[str] = set()
        self._changed = False

    def get(self, name: str) -> str:
        """The value of a label, "" when it is absent."""
        return self._values.get(name, "")

    def set(self, name: str, value: str) -> None:
        """Sets a label; "" takes it off."""
        self._changed = True
        if not value:
            self._values.pop(name, None)
            self._ours.discard(name)
            return
        if name not in self._ours:
            self._values.pop(name, None)
            self._ours.add(name)
        self._values[name] = value

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The labels as they are now, in their order here."""
        return tuple(self._values.items())

    def label_set(self) -> LabelSet:
        """The labels as they are now; the set that this began with while nothing was set."""
        if not self._changed:
            return self._base
        return LabelSet(tuple(sorted([pair for pair in self._values.items() if pair[0]])))


@dataclass(frozen=True, slots=True)
class RelabelRule:
    """One compiled rule; `index` is its place in the list, `text` is what was written, on one line.

    `matches_name` and `new_name` (labelmap; None without a match) remember their answers: all series have the same few
    names, and all of a series' names are asked for.
    """

    index: int
    text: str
    action: str
    source_labels: tuple[str, ...]
    separator: str
    regex: Regex
    modulus: int
    target_label: str
    target: Template
    replacement: Template
    run: Callable[["RelabelRule", "WorkingLabels"], bool] = field(repr=False)
    matches_name: Callable[[str], bool] = field(repr=False, compare=False)
    new_name: Callable[[str], str | None] = field(repr=False, compare=False)

    def source(self, labels: "WorkingLabels") -> str:
        """The values of the source labels, joined; a label that is absent counts as ""."""
        return self.separator.join([labels.get(name) for name in self.source_labels])


def _replace(rule: RelabelRule, labels: WorkingLabels) -> bool:
    groups = rule.regex.groups(rule.source(labels))
    if groups is not None and (target := rule.target.expand(groups)):
        labels.set(target, rule.replacement.expand(groups))
    return True


def _keep(rule: RelabelRule, labels: WorkingLabels) -> bool:
    return rule.regex.matches(rule.source(labels))


def _drop(rule: RelabelRule, labels: WorkingLabels) -> bool:
    return not rule.regex.matches(rule.source(labels))


def _keepequal(rule: RelabelRule, labels: WorkingLabels) -> bool:
    return labels.get(rule.target_label) == rule.source(labels)


def _dropequal(rule: RelabelRule, labels: WorkingLabels) -> bool:
    return labels.get(rule.target_label) != rule.source(labels)


def _hashmod(rule: RelabelRule, labels: WorkingLabels) -> bool:
    digest = hashlib.md5(rule.source(labels).encode(), usedforsecurity=False).digest()
    labels.set(rule.target_label, str(int.from_bytes(digest[8:], "big") % rule.modulus))
    return True


def _labelmap(rule: RelabelRule, labels: WorkingLabels) -> bool:
    for name, value in labels.pairs():
        target = rule.new_name(name)
        if target is not None:
            labels.set(target, value)
    return True


def _labeldrop(rule: RelabelRule, labels: WorkingLabels) -> bool:
    for name, _ in labels.pairs():
        if rule.matches_name(name):
            labels.set(name, "")
    return True


def _labelkeep(rule: RelabelRule, labels: WorkingLabels) -> bool:
    for name, _ in labels.pairs():
        if not rule.matches_name(name):
            labels.set(name, "")
    return True


def _lowercase(rule: RelabelRule, labels: WorkingLabels) -> bool:
    labels.set(rule.target_label, to_lower(rule.source(labels)))
    return True


def _uppercase(rule: RelabelRule, labels: WorkingLabels) -> bool:
    labels.set(rule.target_label, to_upper(rule.source(labels)))
    return True


@dataclass(frozen=True, slots=True)
class Action:
    """An action: what it does, the fields that it cannot do without, and those that it does not take."""

    run: Callable[[RelabelRule, WorkingLabels], bool]
    needs: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()


ACTIONS: Mapping[str, Action] = {
    "replace": Action(_replace, needs=("target_label",)),
    "keep": Action(_keep),
    "drop": Action(_drop),
    "keepequal": Action(_keepequal, needs=("target_label",), refuses=("regex", "modulus", "separator", "replacement")),
    "dropequal": Action(_dropequal, needs=("target_label",), refuses=("regex", "modulus", "separator", "replacement")),
    "hashmod": Action(_hashmod, needs=("modulus", "target_label")),
    "labelmap": Action(_labelmap, needs=("replacement",)),
    "labeldrop": Action(_labeldrop, refuses=("source_labels", "target_label", "modulus", "separator", "replacement")),
    "labelkeep": Action(_labelkeep, refuses=("source_labels", "target_label", "modulus", "separator", "replacement")),
    "lowercase": Action(_lowercase, needs=("target_label",), refuses=("replacement",)),
    "uppercase": Action(_uppercase, needs=("target_label",), refuses=("replacement",)),
}
