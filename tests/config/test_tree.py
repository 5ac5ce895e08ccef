"""The file as text with lines: what is no plain data, what is too much, and where things stand."""

import pytest

from config import tree
from config.load import parse
from config.problems import ConfigError


def problems(text: str) -> list[str]:
    """What parsing a text complains about, one line each."""
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    return [str(problem) for problem in e.value.problems]


NO_YAML = [
    pytest.param(
        "a: [", "f.yaml:1: a[0]: is no YAML: expected the node content, but found '<stream end>'", id="open-list"
    ),
    pytest.param("a: b: c", "f.yaml:1: is no YAML: mapping values are not allowed here", id="two-colons"),
    pytest.param("a:\n\t- b", "f.yaml:2: a: is no YAML: found character '\\t' that cannot start any token", id="tab"),
    pytest.param(
        "a: \x07", "f.yaml: is no YAML: character 3 is one that no YAML file can have", id="control-character"
    ),
    pytest.param("a: \ud800", "f.yaml: is no YAML: character 3 is one that no YAML file can have", id="surrogate"),
    pytest.param(
        '- "\\ud800"',
        "f.yaml:1: [0]: has half of a surrogate pair, which is no character; write it whole",
        id="surrogate-escape",
    ),
    pytest.param(
        '"\\udfff": 1',
        "f.yaml:1: has half of a surrogate pair, which is no character; write it whole",
        id="surrogate-key",
    ),
    pytest.param(
        'a: "\\U7fffffff"', "f.yaml: a: is no YAML: it has a malformed escape or directive", id="impossible-character"
    ),
    pytest.param(
        "a: !!binary x", 'f.yaml:1: a: has a tag, "tag:yaml.org,2002:binary"; write the plain value', id="tag"
    ),
    pytest.param("a: !x [b]", 'f.yaml:1: a: has a tag, "!x"; write the plain value', id="tag-on-a-list"),
    pytest.param("a: *b", 'f.yaml:1: a: names "*b", which is not defined before it', id="unknown-alias"),
    pytest.param("a: &a [*a]", 'f.yaml:1: a[0]: names "*a", which is not defined before it', id="alias-of-itself"),
    pytest.param(
        "{}\n---\n{}",
        "f.yaml:2: has a second document; a configuration is one, so remove what follows ---",
        id="documents",
    ),
    pytest.param("? [a]\n: b", "f.yaml:1: has a list or a mapping for a key; a key is text", id="list-for-key"),
    pytest.param(
        "- &a [b]\n- *a : c", "f.yaml:2: [1]: has a list or a mapping for a key; a key is text", id="alias-for-key"
    ),
]


@pytest.mark.parametrize(("text", "problem"), NO_YAML)
def test_refuses_what_is_not_plain_data(text: str, problem: str) -> None:
    """Text that is no YAML of ours is one problem, with the line where that is known."""
    assert problems(text) == [problem]


def test_keeps_scalars_as_they_are_written() -> None:
    """Neither an id nor a regular expression becomes a number, a boolean or a date on the way."""
    rules = "[{regex: 5}, {regex: 1e3}, {regex: yes}, {regex: 2026-01-01}, {regex: 0x10}, {regex: 'null'}]"
    text = f"tenants: [{{id: 007, endpoint: {{embedded: yes}}, write_relabel_configs: {rules}}}]"
    (tenant,) = parse(text, "f.yaml").settings.tenants
    assert tenant.id == "007"
    assert tenant.endpoint.embedded is True
    assert [rule.regex for rule in tenant.write_relabel_configs] == ["5", "1e3", "yes", "2026-01-01", "0x10", "null"]


def test_an_alias_stands_for_a_whole_value() -> None:
    """One endpoint can be written once and used by several tenants, each under its own name."""
    text = "tenants:\n- {id: a, endpoint: &e {url: http://store/push}}\n- id: b\n  endpoint: *e\n"
    loaded = parse(text, "f.yaml")
    assert [tenant.endpoint.org_id for tenant in loaded.settings.tenants] == ["a", "b"]
    assert loaded.line_of(("tenants", 1, "endpoint")) == 4


def test_a_key_written_twice_names_both_lines() -> None:
    """Neither of two values wins silently."""
    assert problems("proxy:\n  workers: 1\n\n  workers: 1\n") == [
        "f.yaml:4: proxy.workers: is written twice, first in line 2; keep one of them"
    ]


def test_line_of_falls_back_to_what_is_around() -> None:
    """A place where nothing is written has the line of the nearest thing that is."""
    loaded = parse("\nproxy:\n  senders: []\n  limits:\n    read_timeout: 5s\n", "f.yaml")
    assert loaded.line_of(("proxy", "limits", "read_timeout")) == 5
    assert loaded.line_of(("proxy", "limits", "decoded_bytes")) == 4
    assert loaded.line_of(("proxy", "senders", 3, "name")) == 3
    assert loaded.line_of(("tenants", 0)) == 2
    assert str(loaded.problem(("proxy", "limits", "read_timeout"), "is too short")) == (
        "f.yaml:5: proxy.limits.read_timeout: is too short"
    )


def test_depth_has_a_bound() -> None:
    """As deep as the bound is read, one level more is refused, and so is a file that only opens lists."""
    at_bound = "[" * tree.MAX_DEPTH + "]" * tree.MAX_DEPTH
    assert problems(at_bound) == ["f.yaml:1: must be a section of `key: value` lines, not a list"]
    for deeper in (f"[{at_bound}]", "[" * 100_000, "- " * 10_000, "{a: " * 10_000):
        (problem,) = problems(deeper)
        assert problem.endswith(f"is nested more than {tree.MAX_DEPTH} levels deep")


def test_aliases_cannot_make_a_small_file_large() -> None:
    """Ten names of ten names of ten names are refused before anything is made of them."""
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"] + [
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)
    ]
    (problem,) = problems("\n".join(lines))
    assert problem.endswith(f"stands for more than {tree.MAX_VALUES} values, its aliases counted each time")


def test_size_has_a_bound() -> None:
    """A file is refused by its size before it is parsed."""
    assert problems("#" * (tree.MAX_CHARACTERS + 1)) == [f"f.yaml: has more than {tree.MAX_CHARACTERS} characters"]
    parse("#" * tree.MAX_CHARACTERS, "f.yaml")
