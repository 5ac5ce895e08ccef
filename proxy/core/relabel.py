"""Relabel rules: Prometheus' eleven actions, each one a row of a table.

A `RelabelConfig` is what a person wrote, a `RelabelRule` is what it means: defaults filled in, checked, compiled. Rules
run in order on one changing set of labels; the first that drops ends it. `apply` and `steps` run the same code. Rules
follow Prometheus 3.16 (model/relabel and model/labels.Builder) with names in UTF-8, with one exception: where labelmap
makes an empty name, which every receiver refuses, the label is not copied.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from proxy.core.casemap import to_lower, to_upper
from proxy.core.errors import RelabelError
from proxy.core.labels import LabelSet, is_utf8
from proxy.core.regex import Regex, compile_regex
from proxy.core.template import Template

MAX_TEXT_BYTES = 64 * 1024  # of a separator, a target or a replacement; as for a regex
MAX_MODULUS = 2**64 - 1  # the hash has 64 bits

_FIELDS = ("source_labels", "separator", "regex", "modulus", "target_label", "replacement")
_TEXT_FIELDS = ("separator", "target_label", "replacement")


class RelabelConfig(Protocol):
    """One rule as written; None is a field that is absent, which differs from an empty one."""

    @property
    def source_labels(self) -> tuple[str, ...] | None: ...
    @property
    def separator(self) -> str | None: ...
    @property
    def regex(self) -> str | None: ...
    @property
    def modulus(self) -> int | None: ...
    @property
    def target_label(self) -> str | None: ...
    @property
    def replacement(self) -> str | None: ...
    @property
    def action(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Written:
    """A `RelabelConfig` with Prometheus' defaults in place of what is absent."""

    source_labels: tuple[str, ...] = ()
    separator: str = ";"
    regex: str = "(.*)"
    modulus: int = 0
    target_label: str = ""
    replacement: str = "$1"
    action: str = "replace"


@dataclass(frozen=True, slots=True)
class RelabelRule:
    """One compiled rule; `index` is its place in the list, `text` is what was written, on one line."""

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
    run: Callable[["RelabelRule", "_Labels"], bool] = field(repr=False)

    def source(self, labels: "_Labels") -> str:
        """The values of the source labels, joined; a label that is absent counts as ""."""
        return self.separator.join([labels.get(name) for name in self.source_labels])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules make of a series: its labels (there may be none left), or None and the index of who dropped it."""

    labels: LabelSet | None
    dropped_by: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """What one rule did; `after` is None when it dropped the series."""

    index: int
    rule_text: str
    before: LabelSet
    after: LabelSet | None
    changed: bool


def compile_rules(configs: Iterable[RelabelConfig]) -> tuple[RelabelRule, ...]:
    """Compiles a list of rules; raises `RelabelError` that names the first bad one by its index."""
    rules: list[RelabelRule] = []
    for index, config in enumerate(configs):
        try:
            rules.append(compile_rule(config, index))
        except RelabelError as error:
            raise RelabelError(f"rule {index}: {error}") from error
    return tuple(rules)


def compile_rule(config: RelabelConfig, index: int) -> RelabelRule:
    """Checks one rule and compiles it; raises `RelabelError`, one sentence that says what is wrong."""
    given = {name: value for name in (*_FIELDS, "action") if (value := getattr(config, name)) is not None}
    written = _Written(**given)
    name = to_lower(written.action)
    action = _ACTIONS.get(name)
    if action is None:
        raise RelabelError(_unknown_action(written.action))
    _check_values(written)
    for needed in action.needs:
        if not getattr(written, needed):
            raise RelabelError(f"action {name} needs {needed}{' above 0' if needed == 'modulus' else ''}")
    for refused in action.refuses:
        if refused in given and (refused in _SET_BY_PRESENCE or given[refused] != getattr(_DEFAULTS, refused)):
            raise RelabelError(f"action {name} does not take {refused}")
    regex = compile_regex(written.regex)
    return RelabelRule(
        index=index,
        text=" ".join([name, *(f"{key}={json.dumps(given[key], ensure_ascii=False)}" for key in _FIELDS if key in given)]),
        action=name,
        source_labels=tuple(written.source_labels),
        separator=written.separator,
        regex=regex,
        modulus=written.modulus,
        target_label=written.target_label,
        target=Template.read(written.target_label, regex.names, regex.group_count),
        replacement=Template.read(written.replacement, regex.names, regex.group_count),
        run=action.run,
    )


def apply(labels: LabelSet, rules: Sequence[RelabelRule]) -> Verdict:
    """The labels after all rules, or which rule dropped the series; raises nothing."""
    working = _Labels(labels)
    for rule in rules:
        if not rule.run(rule, working):
            return Verdict(None, rule.index)
    return Verdict(working.label_set(), None)


def steps(labels: LabelSet, rules: Sequence[RelabelRule]) -> tuple[Step, ...]:
    """What each rule did in turn, up to and with the one that dropped the series; agrees with `apply`."""
    taken: list[Step] = []
    working = _Labels(labels)
    before = labels
    for rule in rules:
        after = working.label_set() if rule.run(rule, working) else None
        taken.append(Step(rule.index, rule.text, before, after, changed=after != before))
        if after is None:
            break
        before = after
    return tuple(taken)


class _Labels:
    """The labels while rules change them, in the order in which labelmap goes through them.

    First those of the series that no rule has set, sorted; then those that rules have set, in the order of their
    first setting. Setting "" takes a label off.
    """

    __slots__ = ("_base", "_changed", "_ours", "_values")

    def __init__(self, base: LabelSet) -> None:
        self._base = base
        self._values = dict(base.pairs)
        self._ours: set[str] = set()
        self._changed = False

    def get(self, name: str) -> str:
        return self._values.get(name, "")

    def set(self, name: str, value: str) -> None:
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
        return tuple(self._values.items())

    def label_set(self) -> LabelSet:
        return LabelSet(tuple(sorted(self._values.items()))) if self._changed else self._base


def _replace(rule: RelabelRule, labels: _Labels) -> bool:
    groups = rule.regex.groups(rule.source(labels))
    if groups is not None and (target := rule.target.expand(groups)):
        labels.set(target, rule.replacement.expand(groups))
    return True


def _keep(rule: RelabelRule, labels: _Labels) -> bool:
    return rule.regex.matches(rule.source(labels))


def _drop(rule: RelabelRule, labels: _Labels) -> bool:
    return not rule.regex.matches(rule.source(labels))


def _keepequal(rule: RelabelRule, labels: _Labels) -> bool:
    return labels.get(rule.target_label) == rule.source(labels)


def _dropequal(rule: RelabelRule, labels: _Labels) -> bool:
    return labels.get(rule.target_label) != rule.source(labels)


def _hashmod(rule: RelabelRule, labels: _Labels) -> bool:
    digest = hashlib.md5(rule.source(labels).encode(), usedforsecurity=False).digest()
    labels.set(rule.target_label, str(int.from_bytes(digest[8:], "big") % rule.modulus))
    return True


def _labelmap(rule: RelabelRule, labels: _Labels) -> bool:
    for name, value in labels.pairs():
        if rule.regex.matches(name) and (target := rule.regex.replace_all(name, rule.replacement)):
            labels.set(target, value)
    return True


def _labeldrop(rule: RelabelRule, labels: _Labels) -> bool:
    for name, _ in labels.pairs():
        if rule.regex.matches(name):
            labels.set(name, "")
    return True


def _labelkeep(rule: RelabelRule, labels: _Labels) -> bool:
    for name, _ in labels.pairs():
        if not rule.regex.matches(name):
            labels.set(name, "")
    return True


def _lowercase(rule: RelabelRule, labels: _Labels) -> bool:
    labels.set(rule.target_label, to_lower(rule.source(labels)))
    return True


def _uppercase(rule: RelabelRule, labels: _Labels) -> bool:
    labels.set(rule.target_label, to_upper(rule.source(labels)))
    return True
