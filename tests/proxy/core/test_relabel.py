import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import RelabelError
from proxy.core.labels import LabelSet
from proxy.core.regex import MAX_PATTERN_BYTES
from proxy.core.relabel import MAX_MODULUS, MAX_TEXT_BYTES, apply, compile_rule, compile_rules, steps
from proxy.core.relabel_actions import ACTIONS
from tests.proxy.core.relabel_rows import VECTORS, Written, written

ERRORS = yaml.safe_load((VECTORS / "errors.yaml").read_text(encoding="utf-8"))
HASH = Written(action="hashmod", target_label="t", modulus=1)
FOO = LabelSet.of({"__name__": "up", "a": "foo"})


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ERRORS])
def test_refused_when_loaded(row: dict[str, Any]) -> None:
    """A rule that Prometheus refuses is refused here, in one line that names what is wrong."""
    with pytest.raises(RelabelError) as caught:
        compile_rule(written(row["rule"]), 0)
    assert row["says"] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "action",
    [
        *("replace_all", "labelmap_all", "keep_if_equal", "drop_if_equal", "keep_if_contains", "drop_if_contains"),
        *("keep_metrics", "drop_metrics", "graphite", "Keep_Metrics"),
    ],
)
def test_victoriametrics_actions(action: str) -> None:
    """An action that only VictoriaMetrics has is refused by name, and with whose it is."""
    with pytest.raises(RelabelError) as caught:
        compile_rule(Written(action=action, source_labels=("a",), target_label="b"), 0)
    assert action.lower() in str(caught.value)
    assert "VictoriaMetrics" in str(caught.value)


LONGEST = "x" * MAX_TEXT_BYTES


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        pytest.param(replace(HASH, modulus=MAX_MODULUS), replace(HASH, modulus=MAX_MODULUS + 1), id="modulus"),
        pytest.param(replace(HASH, separator=LONGEST), replace(HASH, separator=LONGEST + "x"), id="separator"),
        pytest.param(replace(HASH, target_label=LONGEST), replace(HASH, target_label=LONGEST + "x"), id="target"),
        pytest.param(replace(HASH, replacement=LONGEST), replace(HASH, replacement=LONGEST[:-1] + "é"), id="bytes"),
        pytest.param(
            replace(HASH, regex="x" * MAX_PATTERN_BYTES), replace(HASH, regex="x" * (MAX_PATTERN_BYTES + 1)), id="regex"
        ),
    ],
)
def test_bounds(inside: Written, outside: Written) -> None:
    """Each bound is within reach, and one more is refused."""
    compile_rule(inside, 0)
    with pytest.raises(RelabelError):
        compile_rule(outside, 0)


@pytest.mark.parametrize("field", ["separator", "regex", "target_label", "replacement", "action", "source_labels"])
def test_text_that_is_not_utf8(field: str) -> None:
    """A lone surrogate in any field is a rule that does not load."""
    value = ("\ud800",) if field == "source_labels" else "\ud800"
    with pytest.raises(RelabelError):
        compile_rule(written({"target_label": "t", field: value}), 0)


def test_a_list_names_its_first_bad_rule() -> None:
    """The error of a list of rules says which of them it is, from 0."""
    with pytest.raises(RelabelError, match=r"^rule 1: action hashmod needs modulus"):
        compile_rules([HASH, replace(HASH, modulus=0), replace(HASH, action="")])


def test_a_rule_is_what_was_written_on_one_line() -> None:
    """The text of a rule has its action and the fields that were given, in a fixed order, line breaks escaped."""
    rule = compile_rule(Written(action="KEEP", source_labels=("a", "é"), regex='x\n"', separator=""), 7)
    assert rule.text == r'keep source_labels=["a", "é"] separator="" regex="x\n\""'
    assert rule.index == 7


def test_no_rules() -> None:
    """Without rules a series stays as it is."""
    assert apply(FOO, ()).labels is FOO
    assert steps(FOO, ()) == ()


def test_all_labels_can_go() -> None:
    """A series that lost every label is not a dropped one; whoever sends it decides."""
    verdict = apply(FOO, compile_rules([Written(action="labeldrop")]))
    assert verdict.labels == LabelSet()
    assert verdict.dropped_by is None


def test_an_empty_name_lives_between_rules_only() -> None:
    """A labelmap can make an empty name, a later labelmap sees it, and it is not in the result."""
    empty = Written(action="labelmap", regex="(a)()", replacement="$2")
    prefixed = Written(action="labelmap", regex="()", replacement="x_$1")
    before = LabelSet.of({"a": "1"})
    assert apply(before, compile_rules([empty])).labels == before
    assert apply(before, compile_rules([empty, prefixed])).labels == LabelSet.of({"a": "1", "x_": "1"})


def test_steps() -> None:
    """Each step tells the rule, the labels before and after and whether they differ; a drop is the last one."""
    rules = compile_rules(
        [
            Written(action="keep", source_labels=("a",), regex="foo"),
            Written(target_label="b", replacement="x"),
            Written(action="drop", source_labels=("b",), regex="x"),
            Written(target_label="never"),
        ]
    )
    with_b = FOO.with_labels({"b": "x"})
    taken = steps(FOO, rules)
    assert [(step.index, step.before, step.after, step.changed) for step in taken] == [
        (0, FOO, FOO, False),
        (1, FOO, with_b, True),
        (2, with_b, None, True),
    ]
    assert [step.rule_text for step in taken] == [rule.text for rule in rules[:3]]
    assert apply(FOO, rules).dropped_by == 2


def _prometheus_answers() -> list[Any]:
    lines = (VECTORS / "prometheus.jsonl").read_text(encoding="utf-8").splitlines()
    return [pytest.param(json.loads(line), id=str(number)) for number, line in enumerate(lines, 1)]


@pytest.mark.parametrize("case", _prometheus_answers())
def test_answers_of_prometheus(case: dict[str, Any]) -> None:
    """Random rules on random labels give what Prometheus itself gave."""
    configs = [written(fields) for fields in case["rules"]]
    if case["after"] == "error":
        with pytest.raises(RelabelError):
            compile_rules(configs)
        return
    verdict = apply(LabelSet.of(case["before"]), compile_rules(configs))
    assert verdict.labels == (None if case["after"] == "dropped" else LabelSet.of(case["after"]))


# Random rules: enough of them load, and the labels are few, so that rules and labels meet.
NAMES = st.sampled_from(["__name__", "a", "b", "aa", "é", "x.y"])
VALUES = st.sampled_from(["", "a", "foo", "foo\nbar", "İß", "$1", "a;b"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=8
)
LABELS = st.dictionaries(NAMES, VALUES, max_size=6).map(LabelSet.of)
PATTERNS = st.sampled_from(
    ["", ".*", ".+", "(.*)", "a|b", "foo.*", "(a)(b)?", "a)|(b", "x)|\\B|(", "\\pL+", "(?P<n>.)*"]
)
TEMPLATES = st.sampled_from(["$1", "${1}x", "$$", "x", "", "$0$2", "${n}", "${"])
RULES = st.builds(
    Written,
    action=st.sampled_from([*ACTIONS]) | st.none(),
    source_labels=st.lists(NAMES, max_size=3).map(tuple) | st.none(),
    separator=st.sampled_from(["", "-"]) | st.none(),
    regex=PATTERNS | st.none(),
    modulus=st.integers(0, 3) | st.none(),
    target_label=NAMES | TEMPLATES | st.none(),
    replacement=TEMPLATES | st.none(),
)


def _loads(config: Written) -> bool:
    try:
        compile_rule(config, 0)
    except RelabelError:
        return False
    return True


LISTS = st.lists(RULES.filter(_loads), max_size=4).map(compile_rules)
DECISIONS = st.lists(RULES.map(lambda config: replace(config, action="keep")), max_size=4) | st.lists(
    RULES.map(lambda config: replace(config, action="drop")), max_size=4
)
ANY_TEXT = st.text(st.characters(), max_size=20)
ANYTHING = st.builds(
    Written,
    action=st.sampled_from([*ACTIONS]) | ANY_TEXT | st.none(),
    source_labels=st.lists(ANY_TEXT, max_size=3).map(tuple) | st.none(),
    separator=ANY_TEXT | st.none(),
    regex=ANY_TEXT | PATTERNS | st.none(),
    modulus=st.integers() | st.none(),
    target_label=ANY_TEXT | st.none(),
    replacement=ANY_TEXT | TEMPLATES | st.none(),
)


@pytest.mark.fuzz
@given(ANYTHING, LABELS)
def test_any_text_is_a_rule_or_our_error(config: Written, labels: LabelSet) -> None:
    """Whatever a rule says, it loads or raises `RelabelError`, and a loaded one raises nothing."""
    try:
        rules = (compile_rule(config, 0),)
    except RelabelError:
        return
    apply(labels, rules)


@given(DECISIONS, LABELS)
def test_deciding_twice_decides_the_same(configs: list[Written], labels: LabelSet) -> None:
    """What keep and drop rules let through is unchanged, and they let it through again."""
    rules = compile_rules(configs)
    kept = apply(labels, rules).labels
    if kept is not None:
        assert kept == labels
        assert apply(kept, rules).labels == kept


@given(LISTS, LABELS)
def test_steps_agree_with_apply(rules: Any, labels: LabelSet) -> None:
    """The last step is the verdict, and every step begins with what the one before it left."""
    taken = steps(labels, rules)
    verdict = apply(labels, rules)
    assert verdict.labels == (taken[-1].after if taken else labels)
    assert verdict.dropped_by == (taken[-1].index if taken and taken[-1].after is None else None)
    assert [step.before for step in taken] == [labels, *(step.after for step in taken)][: len(taken)]
    assert all(step.changed == (step.before != step.after) for step in taken)


@given(LISTS, LABELS)
def test_a_verdict_is_a_label_set(rules: Any, labels: LabelSet) -> None:
    """The labels after rules are sorted, unique, named and not empty."""
    after = apply(labels, rules).labels
    assert after is None or after == LabelSet.of(after.pairs)
