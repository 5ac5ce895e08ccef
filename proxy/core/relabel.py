"""Relabel rules: Prometheus' eleven actions, each one a row of a table.

A `RelabelConfig` is what a person wrote, a `RelabelRule` is what it means: defaults filled in, checked, compiled. Rules
run in order on one changing set of labels; the first that drops ends it. `apply` and `steps` run the same code. Rules
follow Prometheus 3.16 (model/relabel and model/labels.Builder) with names in UTF-8, but for a label that labelmap gives
an empty name: every receiver refuses the series then, so it is left out of the result.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from proxy.core.casemap import to_lower
from proxy.core.errors import RelabelError
from proxy.core.labels import LabelSet, is_utf8, valid_label_name
from proxy.core.regex import compile_regex
from proxy.core.relabel_actions import ACTIONS, RelabelRule, WorkingLabels
from proxy.core.template import Template

MAX_TEXT_BYTES = 64 * 1024  # of a separator, a target or a replacement; as for a regex
MAX_MODULUS = 2**64 - 1  # the hash has 64 bits
MAX_SHOWN_CHARACTERS = 80  # of an action that is none
MAX_REMEMBERED_NAMES = 256  # per rule; several times what the series of one exporter have together

__all__ = [
    "RelabelConfig",
    "RelabelRule",
    "Step",
    "Verdict",
    "apply",
    "compile_rule",
    "compile_rules",
    "steps",
]

_FIELDS = ("source_labels", "separator", "regex", "modulus", "target_label", "replacement")
_TEXT_FIELDS = ("separator", "target_label", "replacement")
_SET_WHEN_GIVEN = frozenset({"source_labels", "regex"})  # for others, writing the default is as good as not writing it
_VICTORIAMETRICS_ACTIONS = {
    "replace_all": "",
    "labelmap_all": "",
    "keep_if_equal": "; keepequal does this for one label",
    "drop_if_equal": "; dropequal does this for one label",
    "keep_if_contains": "",
    "drop_if_contains": "",
    "keep_metrics": "; keep with source_labels [__name__] does this",
    "drop_metrics": "; drop with source_labels [__name__] does this",
    "graphite": "",
}


class RelabelConfig(Protocol):
    """One rule as written; None is a field that is absent, which differs from an empty one."""

    @property
    def source_labels(self) -> tuple[str, ...] | None:
        """The labels whose values are joined; none by default."""

    @property
    def separator(self) -> str | None:
        """What stands between these values; ";" by default."""

    @property
    def regex(self) -> str | None:
        """What the joined values must match, for some actions a label's name; "(.*)" by default."""

    @property
    def modulus(self) -> int | None:
        """What hashmod divides by; 0 by default, which hashmod does not take."""

    @property
    def target_label(self) -> str | None:
        """The label that is set, or compared with; a template for replace."""

    @property
    def replacement(self) -> str | None:
        """The template of the new value, of the new name for labelmap; "$1" by default."""

    @property
    def action(self) -> str | None:
        """One of the eleven, in upper or lower case; replace by default."""


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


_DEFAULTS = _Written()


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
    if name not in ACTIONS:
        raise RelabelError(_unknown_action(name, written.action))
    _check_values(written)
    _check_fields(name, given, written)
    regex = compile_regex(written.regex)
    replacement = Template.read(written.replacement, regex.names, regex.group_count)

    def new_name(label_name: str) -> str | None:
        return regex.replace_all(label_name, replacement) if regex.matches(label_name) else None

    return RelabelRule(
        index=index,
        text=_text(name, given),
        action=name,
        source_labels=tuple(written.source_labels),
        separator=written.separator,
        regex=regex,
        modulus=written.modulus,
        target_label=written.target_label,
        target=Template.read(written.target_label, regex.names, regex.group_count),
        replacement=replacement,
        run=ACTIONS[name].run,
        matches_name=lru_cache(MAX_REMEMBERED_NAMES)(regex.matches),
        new_name=lru_cache(MAX_REMEMBERED_NAMES)(new_name),
    )


def apply(labels: LabelSet, rules: Sequence[RelabelRule]) -> Verdict:
    """The labels after all rules, or which rule dropped the series; raises nothing."""
    working = WorkingLabels(labels)
    for rule in rules:
        if not rule.run(rule, working):
            return Verdict(None, rule.index)
    return Verdict(working.label_set(), None)


def steps(labels: LabelSet, rules: Sequence[RelabelRule]) -> tuple[Step, ...]:
    """What each rule did in turn, up to and with the one that dropped the series; agrees with `apply`."""
    taken: list[Step] = []
    working = WorkingLabels(labels)
    before = labels
    for rule in rules:
        after = working.label_set() if rule.run(rule, working) else None
        taken.append(Step(rule.index, rule.text, before, after, changed=after != before))
        if after is None:
            break
        before = after
    return tuple(taken)


def _unknown_action(name: str, written: str) -> str:
    known = ", ".join(ACTIONS)
    if name in _VICTORIAMETRICS_ACTIONS:
        return f"action {name} is only VictoriaMetrics' own{_VICTORIAMETRICS_ACTIONS[name]}; Prometheus has {known}"
    return f"action {json.dumps(written[:MAX_SHOWN_CHARACTERS])} is unknown; there are {known}"


def _check_values(written: _Written) -> None:
    """Refuses values that no action can take."""
    for name in _TEXT_FIELDS:
        text: str = getattr(written, name)
        if not is_utf8(text):
            raise RelabelError(f"{name} is not UTF-8")
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise RelabelError(f"{name} is longer than {MAX_TEXT_BYTES} bytes")
    if not all(valid_label_name(name, "utf8") for name in written.source_labels):
        raise RelabelError("source_labels has an empty name or one that is not UTF-8")
    if not 0 <= written.modulus <= MAX_MODULUS:
        raise RelabelError(f"modulus is not from 0 to {MAX_MODULUS}")


def _check_fields(name: str, given: Mapping[str, Any], written: _Written) -> None:
    """Refuses a rule that lacks what its action needs, or sets what its action does not take."""
    for needed in ACTIONS[name].needs:
        if not getattr(written, needed):
            raise RelabelError(f"action {name} needs {needed}{' above 0' if needed == 'modulus' else ''}")
    for refused in ACTIONS[name].refuses:
        if refused in given and (refused in _SET_WHEN_GIVEN or given[refused] != getattr(_DEFAULTS, refused)):
            raise RelabelError(f"action {name} does not take {refused}")


def _text(name: str, given: Mapping[str, Any]) -> str:
    fields = [f"{key}={json.dumps(given[key], ensure_ascii=False)}" for key in _FIELDS if key in given]
    return " ".join([name, *fields])
