"""From text to settings, or to everything that is wrong with it; whatever the text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import tree
from config.load import load, parse
from config.problems import ConfigError
from config.settings import Settings

VECTORS = Path(__file__).parent.parent / "vectors" / "config"


def problems(text: str) -> list[str]:
    """What parsing a text complains about, one line each."""
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    return [str(problem) for problem in e.value.problems]


_SECTIONS = "those here are proxy, tenants, dynamic_tenants, ownership, labeler, signer"

ONE_VALUE = [
    pytest.param("- proxy", "must be a section of `key: value` lines, not a list", id="root-is-a-list"),
    pytest.param("proxy", 'must be a section of `key: value` lines, not "proxy"', id="root-is-text"),
    pytest.param("prxy: {}", "prxy: is no setting; proxy is", id="unknown-section-near-one"),
    pytest.param(
        "x: 1",
        f"x: is no setting; {_SECTIONS}",
        id="unknown-section",
    ),
    pytest.param(
        "x: ",
        f"x: is no setting; {_SECTIONS}",
        id="unknown-and-empty",
    ),
    pytest.param(
        "proxy: {limits: {decoded: 1}}", "proxy.limits.decoded: is no setting; decoded_bytes is", id="unknown-key"
    ),
    pytest.param(
        "a: &a {x: 1}\n",
        f"a: is no setting; {_SECTIONS}",
        id="anchor",
    ),
    pytest.param(
        "proxy: {<<: {workers: 1}}",
        "proxy['<<']: YAML's merge key is not supported; "
        "let an alias stand for a whole value, or write the settings out",
        id="merge-key",
    ),
    pytest.param("tenants: [{id: a}]", "tenants[0].endpoint: is required", id="missing"),
    pytest.param("tenants: [{endpoint: {embedded: true}}]", "tenants[0].id: is required", id="missing-id"),
    pytest.param("tenants: [{id: , endpoint: {embedded: true}}]", "tenants[0].id: is required", id="empty-id"),
    pytest.param(
        "tenants: [{id: '', endpoint: {embedded: true}}]", "tenants[0].id: must not be empty", id="quoted-empty-id"
    ),
    pytest.param(
        "tenants: [null]", "tenants[0]: must be a section of `key: value` lines, not an empty value", id="empty-item"
    ),
    pytest.param("tenants: {id: a}", "tenants: must be a list, not a section", id="section-for-list"),
    pytest.param("proxy: {workers: many}", 'proxy.workers: must be a whole number, not "many"', id="no-number"),
    pytest.param("proxy: {workers: 0}", "proxy.workers: must be more than 0", id="zero"),
    pytest.param(
        f"proxy: {{workers: {'9' * 5000}}}", f'proxy.workers: must be a whole number, not "{"9" * 60}..."', id="huge"
    ),
    pytest.param("proxy: {limits: {read_timeout: 0s}}", "proxy.limits.read_timeout: must be more than 0", id="no-time"),
    pytest.param(
        "proxy: {limits: {decoded_bytes: 4GiB}}",
        "proxy.limits.decoded_bytes: must be at most 4294967295",
        id="more-than-snappy",
    ),
    pytest.param(
        "proxy: {limits: {decoded_bytes: 0}}", "proxy.limits.decoded_bytes: must be at least 1", id="no-bytes"
    ),
    pytest.param(
        "proxy: {limits: {read_timeout: [1]}}",
        "proxy.limits.read_timeout: must be a whole number, not a list",
        id="list-for-duration",
    ),
    pytest.param("proxy: {listen: [1]}", "proxy.listen: must be text like 127.0.0.1:9009", id="list-for-address"),
    pytest.param("proxy: {data_dir: ''}", "proxy.data_dir: must name a file or folder", id="empty-path"),
    pytest.param(
        'proxy: {data_dir: "a\\0"}', "proxy.data_dir: has a zero byte, which no path can have", id="zero-byte"
    ),
    pytest.param("proxy: {data_dir: {}}", "proxy.data_dir: must be text, not a section", id="section-for-path"),
    pytest.param(
        "proxy: {unowned: keep}",
        'proxy.unowned: must be quarantine, drop, reject or tenant:<id>, not "keep"',
        id="fate",
    ),
    pytest.param(
        "proxy: {delivery: {queue_full: wait}}",
        'proxy.delivery.queue_full: must be drop_oldest or refuse, not "wait"',
        id="word-of-two",
    ),
    pytest.param(
        "tenants: [{id: a, view: all, endpoint: {embedded: true}}]",
        'tenants[0].view: must be owned, joined or raw, not "all"',
        id="word-of-three",
    ),
    pytest.param(
        "proxy: {senders: [{name: p, bearer_token_file: f, admin: maybe}]}",
        'proxy.senders[0].admin: must be true or false, not "maybe"',
        id="no-boolean",
    ),
    pytest.param(
        "proxy: {senders: [{name: p, bearer_token: hush}]}",
        "proxy.senders[0].bearer_token: secrets do not stand here; "
        "put the token into a file and name it under bearer_token_file",
        id="secret-in-the-file",
    ),
    pytest.param(
        "proxy: {senders: [{name: p, basic_auth: {username: 'a:b', password_file: f}}]}",
        "proxy.senders[0].basic_auth.username: must not have a colon, which ends the user name on the wire",
        id="colon-in-user-name",
    ),
    pytest.param(
        "proxy: {senders: [{name: p, basic_auth: {username: a}}]}",
        "proxy.senders[0].basic_auth.password_file: is required",
        id="half-a-credential",
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {embedded: true}, write_relabel_configs: [{if: x}]}]",
        "tenants[0].write_relabel_configs[0].if: is VictoriaMetrics' own; "
        "write the condition as source_labels and regex",
        id="rule-of-vmagent",
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {embedded: true}, write_relabel_configs: [null]}]",
        "tenants[0].write_relabel_configs[0]: must be a section of `key: value` lines, not an empty value",
        id="empty-rule",
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {embedded: true}, write_relabel_configs: [{modulus: 18446744073709551616}]}]",
        "tenants[0].write_relabel_configs[0].modulus: must be at most 18446744073709551615",
        id="modulus-over-64-bits",
    ),
    pytest.param(
        "dynamic_tenants: {id_from: pod, endpoint: {embedded: true}}",
        'dynamic_tenants.id_from: must be namespace or namespace_label:<key>, not "pod"',
        id="id-from",
    ),
    pytest.param(
        "labeler: {share_step: 0%}",
        'labeler.share_step: "0%" is no part; write a percentage over 0% and up to 100%, like 1% or 0.5%',
        id="share-step",
    ),
    pytest.param(
        "signer: {focus: {currency: euro}}",
        'signer.focus.currency: "euro" is no currency code of ISO 4217; write it like EUR',
        id="currency",
    ),
    pytest.param(
        "signer: {focus: {currency: EUR, prices: {A 100: much}}}",
        "signer.focus.prices['A 100']: must be a number with up to nine decimal places, not \"much\"",
        id="price",
    ),
    pytest.param(
        "signer: {source: file}",
        'signer.source: "file" is no absolute URL; write it like https://mimir.example/api/v1/push',
        id="signer-source",
    ),
]


@pytest.mark.parametrize(("text", "problem"), ONE_VALUE)
def test_says_what_is_wrong_with_a_value(text: str, problem: str) -> None:
    """A value that is wrong by itself is one problem, a sentence that says what it must be."""
    assert problems(text) == [f"f.yaml:1: {problem}"]


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


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "{}", "~", "proxy:\ntenants:\nsigner: null\n", "proxy: {listen: , limits: }"]
)
def test_empty_is_the_default(text: str) -> None:
    """What is left empty, from a value to the whole file, is its default."""
    assert parse(text, "f.yaml").settings == Settings()


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


def test_reads_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    """An editor's byte order mark is no part of the first key."""
    path = tmp_path / "whosegpu.yaml"
    path.write_bytes(b"\xef\xbb\xbfproxy: {workers: 1}\n")
    assert load(path).source == str(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        pytest.param("absent", None, ": cannot be read: No such file or directory", id="absent"),
        pytest.param(".", None, ": cannot be read: Is a directory", id="folder"),
        pytest.param("f", b"a: b\nc: \xff\n", ":2: is not UTF-8 text", id="latin-1"),
        pytest.param("f", b"\xff\xfea\x00:\x00", ":1: is not UTF-8 text", id="utf-16"),
        pytest.param("f", b"\x00" * 10, ": is no YAML: character 0 is one that no YAML file can have", id="zeros"),
    ],
)
def test_names_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
    """A file that is no text, or none at all, is one problem with the file's name."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as e:
        load(path)
    assert str(e.value) == f"{path}{problem}"


def test_a_path_with_a_zero_byte_is_a_problem() -> None:
    """Not even an impossible path gets anything but our own error out."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Path("a\x00b"))


def test_input_stays_out_of_tracebacks() -> None:
    """A header's value is nowhere in the error, its causes included: it can be a secret all the same."""
    text = 'tenants: [{id: "a|b", endpoint: {url: http://s/p, headers: {X-Token: hush, X-Bad: "hu\\nsh"}}}]'
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    error: BaseException | None = e.value
    assert len(e.value.problems) == 2
    while error is not None:
        assert "hush" not in str(error)
        assert "hu\\nsh" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.fuzz
@given(st.binary(max_size=400))
def test_any_bytes_are_settings_or_our_error(raw: bytes) -> None:
    """Any bytes: settings, or ConfigError with at least one problem."""
    _settings_or_our_error(raw.decode("utf-8", errors="surrogateescape"))


_VOCABULARY = """
proxy tenants dynamic_tenants ownership labeler signer limits listen id endpoint url headers regex modulus namespaces
view embedded senders basic_auth focus prices files null ~ yes 5s 32MiB a|b http://x/y *a &a !t << : - ? | > ' " # % @
9999999999999999999999999 .5 0x1f 1e999 nan -1 0 2026-01-01 [ ] { } , --- ...
"""
_WORDS = st.sampled_from(_VOCABULARY.split())


@pytest.mark.fuzz
@given(st.lists(st.tuples(_WORDS, st.sampled_from(["", " ", ": ", "\n", "\n  ", "\n    - ", ", "])), max_size=40))
def test_any_yaml_like_text_is_settings_or_our_error(words: list[tuple[str, str]]) -> None:
    """Text made of the words of configuration files: settings, or ConfigError with at least one problem."""
    _settings_or_our_error("".join(word + space for word, space in words))


@pytest.mark.fuzz
@given(st.data())
def test_a_damaged_file_is_settings_or_our_error(data: st.DataObject) -> None:
    """A real file with a piece cut out, doubled or replaced: settings, or ConfigError with lines that exist."""
    text = (VECTORS / "interface.yaml").read_text()
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 200)))
    piece = data.draw(st.one_of(st.just(""), st.just(text[start:stop] * 2), st.text(max_size=5)))
    _settings_or_our_error(text[:start] + piece + text[stop:])


def _settings_or_our_error(text: str) -> None:
    try:
        assert isinstance(parse(text, "f.yaml").settings, Settings)
    except ConfigError as e:
        assert e.problems
        lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029")
        assert all(problem.line is None or 1 <= problem.line <= lines + 1 for problem in e.problems)
        assert all(problem.sentence for problem in e.problems)
