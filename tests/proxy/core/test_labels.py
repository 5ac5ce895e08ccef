import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import DuplicateLabelError, EmptyLabelNameError, InvalidUtf8Error, SeriesError
from proxy.core.labels import LabelSet, NameScheme, is_utf8, quoted, valid_label_name
from proxy.core.text import parse_line

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["__name__", "a", "b_1", "é", "x.y", 'q"', "\\", "\n", " "]) | TEXT.filter(bool)
LABELS = st.dictionaries(NAMES, TEXT | st.sampled_from(["up", "a:b", "\r", "a\\n\n", '"}']), max_size=8)


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        pytest.param([], (), id="none"),
        pytest.param([("b", "2"), ("a", "1")], (("a", "1"), ("b", "2")), id="sorted"),
        pytest.param([("a", ""), ("b", "2")], (("b", "2"),), id="an empty value is absent"),
        pytest.param([("a", ""), ("a", "1"), ("a", "")], (("a", "1"),), id="an absent label is not a second one"),
        pytest.param([("a", "1"), ("B", "2"), ("_", "3")], (("B", "2"), ("_", "3"), ("a", "1")), id="bytewise"),
        pytest.param([("\U00010000", "1"), ("\uffff", "2")], (("\uffff", "2"), ("\U00010000", "1")), id="not UTF-16"),
        pytest.param([("a b", "1")], (("a b", "1"),), id="any name in UTF-8"),
    ],
)
def test_of(labels: list[tuple[str, str]], pairs: tuple[tuple[str, str], ...]) -> None:
    """A set is sorted, without empty values."""
    assert LabelSet.of(labels).pairs == pairs


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        pytest.param([("a", "1"), ("b", "2"), ("a", "3")], DuplicateLabelError, id="twice"),
        pytest.param([("a", "1"), ("a", "1")], DuplicateLabelError, id="twice the same"),
        pytest.param([("", "1")], EmptyLabelNameError, id="no name"),
        pytest.param([("", "")], EmptyLabelNameError, id="no name and no value"),
        pytest.param([("\ud800", "1")], InvalidUtf8Error, id="a surrogate in a name"),
        pytest.param([("a", "\udfff")], InvalidUtf8Error, id="a surrogate in a value"),
    ],
)
def test_not_a_label_set(labels: list[tuple[str, str]], error: type[SeriesError]) -> None:
    """Labels that no series can have are refused, each kind by its own error."""
    with pytest.raises(error):
        LabelSet.of(labels)


def test_access() -> None:
    """Names and values can be asked for; an absent label has the value "" as Prometheus has it."""
    labels = LabelSet.of({"b": "2", "a": "1"})
    assert labels.names() == ("a", "b")
    assert (labels.get("a"), labels.get("b"), labels.get("c")) == ("1", "2", "")


def test_changes_make_new_sets() -> None:
    """Labels are taken off and put over a set; where nothing comes off, the same set comes back."""
    labels = LabelSet.of({"a": "1", "b": "2"})
    assert labels.without({"a", "z"}) == LabelSet.of({"b": "2"})
    assert labels.without(["z"]) is labels
    assert labels.with_labels({"b": "3", "a0": "4", "a": ""}) == LabelSet.of({"a0": "4", "b": "3"})
    assert labels.with_labels({}) == labels
    with pytest.raises(EmptyLabelNameError):
        labels.with_labels({"": "x"})


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({}, "{}"),
        ({"__name__": "up"}, "up"),
        ({"__name__": "a:b", "x": "1", "y": "2"}, 'a:b{x="1",y="2"}'),
        ({"x": "1"}, '{x="1"}'),
        ({"__name__": "my.name"}, '{"my.name"}'),
        ({"__name__": "my.name", "x": "1"}, '{"my.name",x="1"}'),
        ({"__name__": "up", "x.y": "1", "a:b": "2"}, 'up{"a:b"="2","x.y"="1"}'),
        ({"__name__": "up", "x": 'a"b\\c\nd\te'}, 'up{x="a\\"b\\\\c\\nd\te"}'),
        ({"__name__": "1up"}, '{"1up"}'),
        ({"__name__": "up\n"}, '{"up\\n"}'),
    ],
)
def test_text_form(labels: dict[str, str], text: str) -> None:
    """A set prints as the exposition format writes a series; names beyond the legacy ones are in quotes."""
    assert str(LabelSet.of(labels)) == text


@pytest.mark.parametrize(
    ("name", "utf8", "legacy"),
    [
        ("a", True, True),
        ("_A9", True, True),
        ("__name__", True, True),
        ("9a", True, False),
        ("a:b", True, False),
        ("a.b", True, False),
        ("é", True, False),
        ("a\n", True, False),
        ("${1}", True, False),
        ("", False, False),
        ("\ud800", False, False),
    ],
)
def test_valid_label_name(name: str, *, utf8: bool, legacy: bool) -> None:
    """Names are judged by their scheme, all of the name."""
    answers: dict[NameScheme, bool] = {"utf8": utf8, "legacy": legacy}
    for scheme, answer in answers.items():
        assert valid_label_name(name, scheme) is answer


def test_quoted() -> None:
    """A quoted text has a backslash before a quote and a backslash, and no line break."""
    assert quoted('a"\\\n') == r'"a\"\\\n"'


@given(st.text(st.characters()))
def test_is_utf8(text: str) -> None:
    """A text is UTF-8 exactly when it has no surrogate."""
    assert is_utf8(text) == (not any("\ud800" <= character <= "\udfff" for character in text))


@given(LABELS, st.randoms(use_true_random=False))
def test_order_does_not_matter(labels: dict[str, str], random: object) -> None:
    """Labels in any order make one set, equal and with one hash."""
    shuffled = list(labels.items())
    getattr(random, "shuffle")(shuffled)  # noqa: B009
    one, other = LabelSet.of(labels), LabelSet.of(shuffled)
    assert one == other
    assert hash(one) == hash(other)
    assert list(one.pairs) == sorted(one.pairs, key=lambda pair: pair[0].encode())


@given(LABELS)
def test_what_is_printed_reads_back(labels: dict[str, str]) -> None:
    """The text form of a set is that set again, without a value or a time."""
    label_set = LabelSet.of(labels)
    sample = parse_line(str(label_set))
    assert (sample.labels, sample.value, sample.at_ms) == (label_set, None, None)


@pytest.mark.fuzz
@given(st.lists(st.tuples(st.text(st.characters(), max_size=3), st.text(st.characters(), max_size=3)), max_size=6))
def test_any_labels_are_a_set_or_our_error(labels: list[tuple[str, str]]) -> None:
    """Whatever the labels, there is a set of them or one of our errors."""
    try:
        label_set = LabelSet.of(labels)
    except SeriesError:
        return
    assert LabelSet.of(label_set.pairs) == label_set
