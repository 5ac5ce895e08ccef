import pytest

from proxy.core.labels import LabelSet
from proxy.core.relabel import apply, compile_rules
from proxy.core.relabel_actions import ACTIONS, WorkingLabels
from tests.proxy.core.relabel_rows import VECTORS, Row, action_rows

TABLE = {path.stem: action_rows(path.stem) for path in sorted((VECTORS / "actions").glob("*.yaml"))}


def test_every_action_has_rows() -> None:
    """The tables cover the eleven actions, each with five rows or more of its own."""
    assert len(ACTIONS) == 11
    assert TABLE.keys() == {*ACTIONS, "chains"}
    for action in ACTIONS:
        assert len(TABLE[action]) >= 5
        assert {(rule.action or "replace").lower() for row in TABLE[action] for rule in row.rules} == {action}


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{file}: {row.name}") for file, rows in TABLE.items() for row in rows]
)
def test_action(row: Row) -> None:
    """The rules make of the labels what Prometheus makes of them."""
    verdict = apply(LabelSet.of(row.before), compile_rules(row.rules))
    assert verdict.labels == (None if row.after is None else LabelSet.of(row.after))


def test_working_labels_are_in_the_order_of_prometheus() -> None:
    """Labels of the series come first, sorted, then those that were set, each where it was first set."""
    labels = WorkingLabels(LabelSet.of({"b": "1", "c": "1", "a": "1"}))
    for name, value in (("z", "2"), ("b", "2"), ("y", "2"), ("z", "3"), ("y", ""), ("y", "4")):
        labels.set(name, value)
    assert labels.pairs() == (("a", "1"), ("c", "1"), ("z", "3"), ("b", "2"), ("y", "4"))
    assert labels.label_set() == LabelSet.of({"a": "1", "b": "2", "c": "1", "y": "4", "z": "3"})


def test_working_labels_that_nothing_was_set_in_are_what_they_began_with() -> None:
    """The same object comes back, so that a rule that only decides costs no copy."""
    labels = LabelSet.of({"a": "1"})
    assert WorkingLabels(labels).label_set() is labels
