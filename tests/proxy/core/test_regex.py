import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import RelabelError
from proxy.core.regex import MAX_GROUPS, MAX_PATTERN_BYTES, MAX_REASON_CHARACTERS, compile_regex
from proxy.core.template import Template


@pytest.mark.parametrize(
    ("pattern", "text", "groups"),
    [
        ("(.*)", "foo", ("foo", "foo")),
        ("(.*)", "", ("", "")),
        ("(.*)", "a\nb", ("a\nb", "a\nb")),
        (".*", "foo", ("foo",)),
        ("foo", "foo", ("foo",)),
        ("foo", "foo\n", None),
        ("foo", "xfoo", None),
        ("", "", ("",)),
        ("", "x", None),
        ("foo|bar", "bar", ("bar",)),
        ("foo|", "", ("",)),
        ("foo.+", "foo", None),
        ("foo.+", "foo\n", ("foo\n",)),
        ("é.*", "éa", ("éa",)),
        ("(a)(b)?", "a", ("a", "a", "")),
        ("(é)(.)", "éß", ("éß", "é", "ß")),
        ("foo)|(bar", "foobar", ("foo", "")),
        ("foo)|(bar", "xbar", ("bar", "bar")),
        ("foo)|(bar", "barx", None),
        (r"x)|(\B", "éé", ("", "")),
        (r"x)|\B|(z", "aéa", None),
        ("(?-s).", "\n", None),
        ("(?i)É", "é", ("é",)),
        (r"a\.b", "a.b", ("a.b",)),
        (r"\x00", "\0", ("\0",)),
        (r"\Q\C\E", r"\C", (r"\C",)),
        (r"\\C", r"\C", (r"\C",)),
        ("(?P<n>a)(?<m>b)", "ab", ("ab", "a", "b")),
    ],
)
def test_groups(pattern: str, text: str, groups: tuple[str, ...] | None) -> None:
    """An expression matches all of a text, with what each group took."""
    regex = compile_regex(pattern)
    assert regex.groups(text) == groups
    assert regex.matches(text) == (groups is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "replaced"),
    [
        ("foo", "foo", "<foo>"),
        ("foo", "bar", "bar"),
        ("foo)|(bar", "foobar", "<foo><bar>"),
        ("foo)|(bar", "foo-bar", "<foo>-<bar>"),
        ("foo)|(", "foob", "<foo>b<>"),
        (")|(", "é", "<>é<>"),
        (r")|\B|(", "aéé", "<>aé<>é<>"),
        (")|(b", "b", "<>b"),
        (r"x)|\B|(z", "aéa", "aéa"),
    ],
)
def test_replace_all(pattern: str, text: str, replaced: str) -> None:
    """Each match is replaced and the rest stays; an empty match right after another is none."""
    regex = compile_regex(pattern)
    assert regex.replace_all(text, Template.read("<$0>", regex.names, regex.group_count)) == replaced


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("(", id="syntax"),
        pytest.param("a\n(", id="syntax on two lines"),
        pytest.param(r"\C", id="half a character"),
        pytest.param(r"\Qa\E\C", id="half a character after quoted text"),
        pytest.param("(?P<é>a)", id="a group name beyond ASCII"),
        pytest.param("(?P<n>a)(?P<n>b)", id="a group name twice"),
        pytest.param(r"\p{Letter}", id="a long class name"),
        pytest.param("(a{1000}){1000}", id="too large when compiled"),
        pytest.param("\udc80", id="not UTF-8"),
        pytest.param("(" * 5000, id="nested"),
        pytest.param("()" * (MAX_GROUPS + 1), id="too many groups"),
        pytest.param("x" * (MAX_PATTERN_BYTES + 1), id="too long"),
        pytest.param("é" * (MAX_PATTERN_BYTES // 2) + "x", id="too long in bytes"),
    ],
)
def test_refused(pattern: str) -> None:
    """What is no expression, or one that Go does not take, or too large, is refused in a short sentence."""
    with pytest.raises(RelabelError) as caught:
        compile_regex(pattern)
    assert len(str(caught.value)) < MAX_REASON_CHARACTERS + 100
    assert str(caught.value).isprintable()


def test_bounds() -> None:
    """An expression of the greatest length and one with the most groups compile."""
    assert compile_regex("é" * (MAX_PATTERN_BYTES // 2)).matches("é" * (MAX_PATTERN_BYTES // 2))
    assert compile_regex("()" * MAX_GROUPS).groups("") == ("",) * (MAX_GROUPS + 1)


def test_equal_by_what_is_written() -> None:
    """Two compilations of one expression are equal."""
    assert compile_regex("(a)") == compile_regex("(a)")
    assert compile_regex("(a)") != compile_regex("(b)")


@given(
    st.text(st.sampled_from("ab.*+|()é\\"), max_size=8),
    st.lists(st.text(st.sampled_from("abé.\n"), max_size=4), min_size=1, max_size=8),
)
def test_short_cuts_agree_with_re2(pattern: str, texts: list[str]) -> None:
    """Expressions that are matched without RE2 match what RE2 matches."""
    try:
        regex = compile_regex(pattern)
    except RelabelError:
        return
    reference = re2.compile(f"^(?s:{pattern})$")
    for text in [*texts, *pattern.split("|")]:
        match = reference.search(text)
        assert regex.matches(text) == (match is not None)
        assert regex.groups(text) == (match and (match.group(), *match.groups(default="")))


@pytest.mark.fuzz
@given(st.text(st.characters(), max_size=30), st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
def test_any_text_is_an_expression_or_our_error(pattern: str, text: str) -> None:
    """Whatever a pattern says, it compiles or raises `RelabelError`, and matching raises nothing."""
    try:
        regex = compile_regex(pattern)
    except RelabelError:
        return
    assert regex.matches(text) == (regex.groups(text) is not None)
    assert regex.replace_all(text, Template(("$",))) is not None
