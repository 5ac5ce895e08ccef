"""A configuration made ready, or everything that is wrong with it: settings, rules, secrets and certificates."""

import itertools
from pathlib import Path
from typing import Final

import pytest

from config.problems import ConfigError
from proxy.configured import configure
from tests.config.breakages import LEANING, breakages
from tests.config.pairs import NoPairError, both, rows, told
from tests.config.test_checks import ROWS
from tests.config.test_values import ONE_VALUE

_ABSENT: Final = "cannot be read: No such file or directory"
_TENANT: Final = "tenants:\n- id: a\n  endpoint: {url: http://store/push}\n"
_DYNAMIC: Final = "dynamic_tenants:\n  endpoint:\n    url: http://store/push\n"

LATER = [
    pytest.param(
        _TENANT + "  write_relabel_configs:\n  - {regex: 'a(b', target_label: c}\n",
        "f.yaml:5: tenants[0].write_relabel_configs[0]: regex does not compile: missing ): ^(?s:a(b)$",
        id="regex",
    ),
    pytest.param(
        _DYNAMIC + "  write_relabel_configs:\n  - {action: hashmod, source_labels: [a], target_label: b}\n",
        "f.yaml:5: dynamic_tenants.write_relabel_configs[0]: action hashmod needs modulus above 0",
        id="rule-of-dynamic-tenants",
    ),
    pytest.param(
        "proxy:\n  senders:\n  - name: p\n    bearer_token_file: absent\n",
        f"f.yaml:4: proxy.senders[0].bearer_token_file: absent: {_ABSENT}",
        id="sender-token",
    ),
    pytest.param(
        "proxy:\n  senders:\n  - name: p\n    basic_auth:\n      username: v\n      password_file: absent\n",
        f"f.yaml:6: proxy.senders[0].basic_auth.password_file: absent: {_ABSENT}",
        id="sender-password",
    ),
    pytest.param(
        "proxy:\n  senders:\n  - {name: p, bearer_token_file: t}\n  - {name: q, bearer_token_file: same-as-t}\n",
        "f.yaml:4: proxy.senders[1].bearer_token_file: has the token of another sender; each needs its own",
        id="same-token",
    ),
    pytest.param(
        "tenants:\n- id: a\n  endpoint:\n    url: http://store/push\n    bearer_token_file: empty\n",
        "f.yaml:5: tenants[0].endpoint.bearer_token_file: empty: is empty; write the secret into it",
        id="store-token",
    ),
    pytest.param(
        _DYNAMIC + "    basic_auth: {username: u, password_file: absent}\n",
        f"f.yaml:4: dynamic_tenants.endpoint.basic_auth.password_file: absent: {_ABSENT}",
        id="store-password-of-dynamic-tenants",
    ),
    pytest.param(
        "tenants:\n- id: a\n  endpoint:\n    url: https://store/push\n    tls:\n      ca_file: absent\n",
        "f.yaml:6: tenants[0].endpoint.tls.ca_file: absent: cannot be loaded: No such file or directory",
        id="authorities",
    ),
    pytest.param(
        "tenants:\n- id: a\n  endpoint:\n    url: https://store/push\n"
        "    tls:\n      key_file: k\n      cert_file: absent\n",
        "f.yaml:7: tenants[0].endpoint.tls.cert_file: absent with the key k: "
        "cannot be loaded: No such file or directory",
        id="client-certificate",
    ),
    pytest.param(
        "tenants:\n- id: a\n  endpoint:\n    url: http://store/push\n    headers: {X-A: ' b'}\n",
        "f.yaml:3: tenants[0].endpoint: "
        "the value of header X-A must be visible ASCII characters, with blanks inside only",
        id="header",
    ),
]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets that the rows name, each another one, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("t", "t2", "u", "u2", "f", "f2", "g", "prom-a.token", "prom-b.pw", "ml.pw", "nlp.token"):
        Path(name).write_text(f"secret of {name}\n")
    Path("same-as-t").write_text("secret of t\n")
    Path("same-as-t2").write_text("secret of t2\n")
    for name in ("empty", "empty2"):
        Path(name).write_text("")


def _read(text: str) -> object:
    Path("f.yaml").write_text(text)
    return configure(Path("f.yaml"))


@pytest.mark.parametrize(("text", "problem"), LATER)
def test_says_what_cannot_be_used_and_where(text: str, problem: str) -> None:
    """A rule, a secret or a certificate that cannot be used is one problem, with its line."""
    with pytest.raises(ConfigError) as e:
        _read(text)
    assert [str(each) for each in e.value.problems] == [problem]


def test_two_mistakes_are_two_problems() -> None:
    """Each of these mistakes is told with each other one and with each mistake in the settings, and nothing else."""
    later = rows(LATER, _read)
    quick = [row for row in later if "https:" not in str(row.tree)]  # certificates take 30 ms each time
    sooner = rows([*ONE_VALUE, *ROWS], _read)
    tried = 0
    for first, second in [*itertools.combinations(later, 2), *itertools.product(quick, sooner)]:
        try:
            tree, expected = both(first, second)
        except NoPairError:
            continue
        if "proxy.senders" in {where for where, _ in expected} and "senders" in tree["proxy"]:
            continue  # whoever adds a sender has mended that nobody was listed
        assert told(_read, tree) == expected, f"{first.id} and {second.id}"
        assert len(expected) == 2
        tried += 1
    assert tried > 500


def test_every_breakage_is_one_problem() -> None:
    """Stand-ins for what is broken have no rules, secrets or certificates that could be wrong."""
    assert configure(LEANING).tenancy.tenants
    for done, text, where in breakages():
        with pytest.raises(ConfigError) as e:
            _read(text)
        assert [problem.where for problem in e.value.problems] == [where], done


def test_everything_of_one_tenant_is_told_at_once() -> None:
    """A tenant with a bad id and a bad URL has its rules compiled and its secrets read all the same."""
    with pytest.raises(ConfigError) as e:
        _read(
            "proxy: {idle_tenant: nobody}\n"
            "tenants:\n"
            "- id: team ml\n"
            "  endpoint: {url: store, bearer_token_file: absent, tls: {ca_file: absent}}\n"
            "  write_relabel_configs:\n"
            "  - {modulus: many, regex: 'a(b'}\n"
            "  - {regex: 'a(b'}\n"
        )
    assert [(problem.line, problem.where) for problem in e.value.problems] == [
        (1, "proxy.idle_tenant"),
        (3, "tenants[0].id"),
        (4, "tenants[0].endpoint.url"),
        (4, "tenants[0].endpoint.bearer_token_file"),
        (4, "tenants[0].endpoint.tls.ca_file"),
        (6, "tenants[0].write_relabel_configs[0].modulus"),
        (7, "tenants[0].write_relabel_configs[1]"),
    ]


def test_a_reload_tells_what_needs_a_restart_with_the_rest() -> None:
    """What cannot change while it runs is one problem among others, and none while it cannot be read itself."""
    Path("f.yaml").write_text("proxy: {listen: '127.0.0.1:1', data_dir: elsewhere}\n")
    before = configure(Path("f.yaml"))
    Path("f.yaml").write_text("proxy: {listen: here, workers: 2}\n")
    with pytest.raises(ConfigError) as e:
        configure(Path("f.yaml"), before)
    assert [(problem.where, problem.sentence[:13]) for problem in e.value.problems] == [
        ("proxy.listen", '"here" is no '),
        ("proxy.workers", "must be 1, un"),
        ("proxy.data_dir", "cannot change"),
        ("proxy.workers", "cannot change"),
    ]
