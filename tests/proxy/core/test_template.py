import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.template import Template

# As for the expression (?P<n>.)(?P<1x>.)(?P<01>.)(?P<long_1>.)?(.)?: five groups, of which the last two took no part.
NAMES = {"n": 1, "1x": 2, "01": 3, "long_1": 4}
GROUPS = ("whole", "one", "two", "three", "", "")


@pytest.mark.parametrize(
    ("template", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$1", "one"),
        ("${1}", "one"),
        ("$0", "whole"),
        ("a$1b", "a"),
        ("a${1}b", "aoneb"),
        ("$1-$2", "one-two"),
        ("$1$2", "onetwo"),
        ("$1$1", "oneone"),
        ("$1.x", "one.x"),
        ("$1é", ""),
        ("$1\xd7", "one\xd7"),
        ("$1²", "one²"),
        ("$1٣", ""),
        ("$n", "one"),
        ("${n}1", "one1"),
        ("$n1", ""),
        ("$1x", "two"),
        ("${1x}", "two"),
        ("$01", "three"),
        ("$00", ""),
        ("$long_1", ""),
        ("$5", ""),
        ("$6", ""),
        ("$999999999", ""),
        ("$10000000000", ""),
        ("$" + "9" * 5000, ""),
        ("${none}", ""),
        ("$$", "$"),
        ("$$1", "$1"),
        ("$$$1", "$one"),
        ("$$$$", "$$"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$$", "$$"),
        ("$ 1", "$ 1"),
        ("$-", "$-"),
        ("${", "${"),
        ("${}", "${}"),
        ("${1", "${1"),
        ("${1 }", "${1 }"),
        ("${ 1}", "${ 1}"),
        ("${1$2}", "${1two}"),
        ("$}{1}", "$}{1}"),
        ("{$1}", "{one}"),
    ],
)
def test_expand(template: str, expanded: str) -> None:
    """A template expands as Go's `regexp.Expand` expands it."""
    assert Template.read(template, NAMES, 5).expand(GROUPS) == expanded


@pytest.mark.parametrize(
    ("template", "parts"),
    [("", ()), ("a$$b", ("a$b",)), ("$1$7$2", (1, 2)), ("a${7}b${9}c", ("abc",)), ("x${1}y", ("x", 1, "y"))],
)
def test_read(template: str, parts: tuple[str | int, ...]) -> None:
    """What is known when a template is read is settled then: neighbouring texts are one, unknown groups are gone."""
    assert Template.read(template, NAMES, 5).parts == parts


@given(st.text())
def test_a_text_without_a_dollar_is_itself(text: str) -> None:
    """Only a dollar makes a template more than text, and doubled ones are dollars."""
    assert Template.read(text.replace("$", "$$"), NAMES, 5).expand(GROUPS) == text


@given(st.text(st.sampled_from("${}1xn_é- ")))
def test_every_text_is_a_template(text: str) -> None:
    """Nothing that a template says can fail."""
    assert isinstance(Template.read(text, NAMES, 5).expand(GROUPS), str)
