"""A mistake hides no other one, and makes none: every two rows of the error tables together."""

import itertools
from typing import Final

import pytest

from config.load import parse
from config.problems import ConfigError
from tests.config.pairs import NoPairError, Row, both, rows, told
from tests.config.test_checks import ROWS
from tests.config.test_values import ONE_VALUE

_NOBODY: Final = {"open-to-all", "host-names-are-not-loopback"}
_UNDECLARED: Final = {"idle-tenant-not-declared", "unowned-tenant-not-declared"}
_MAY_DECLARE: Final = {"missing-id", "empty-id", "quoted-empty-id", "empty-item", "namespace-of-two-tenants"}


def _touch(first: Row, second: Row) -> bool:
    """Whether one row mends what the other has wrong, or may do so once it is mended itself."""
    if first.id in _NOBODY and (second.id == "merge-key" or "senders" in second.tree.get("proxy", ())):
        return True
    return first.id in _UNDECLARED and second.id in _MAY_DECLARE


def _read(text: str) -> object:
    return parse(text, "f.yaml")


def test_two_mistakes_are_two_problems() -> None:
    """Each pair of mistakes that do not touch each other is told at once, nothing missing and nothing added."""
    tried = 0
    for first, second in itertools.combinations(rows([*ONE_VALUE, *ROWS], _read), 2):
        try:
            tree, expected = both(first, second)
        except NoPairError:
            continue
        if not _touch(first, second) and not _touch(second, first):
            assert told(_read, tree) == expected, f"{first.id} and {second.id}"
            assert len(expected) == 2
            tried += 1
    assert tried > 2_000


FOLLOWING = [
    pytest.param(
        "proxy: {idle_tenant: a}\ntenants: [{endpoint: {embedded: true}}]\n", ["tenants[0].id"], id="tenant-without-id"
    ),
    pytest.param(
        "proxy: {idle_tenant: team ml}\ntenants: [{id: team ml, endpoint: {embedded: true}}]\n",
        ["tenants[0].id"],
        id="tenant-with-a-bad-id",
    ),
    pytest.param(
        "proxy: {unowned: tenant:team-ml}\ntenants: [{id: team ml, endpoint: {embedded: true}}]\n",
        ["tenants[0].id"],
        id="what-a-bad-id-was-meant-as",
    ),
    pytest.param(
        "proxy: {idle_tenant: platform}\ntenants: [{id: team ml, endpoint: {embedded: true}}]\n",
        ["proxy.idle_tenant", "tenants[0].id"],
        id="another-id-than-the-bad-one",
    ),
    pytest.param(
        "proxy: {idle_tenant: a}\ntenants: [{id: a, endpoint: none}]\n", ["tenants[0].endpoint"], id="tenant-all-but-id"
    ),
    pytest.param("proxy: {idle_tenant: a}\ntenants: {id: a}\n", ["tenants"], id="no-list-of-tenants"),
    pytest.param("proxy: {idle_tenant: a}\ntenant: [{id: a}]\n", ["tenant"], id="tenants-misspelt"),
    pytest.param("proxy: {listen: 0.0.0.0:9009, sender: [x]}\n", ["proxy.sender"], id="senders-misspelt"),
    pytest.param(
        "proxy: {listen: 0.0.0.0:9009, sneders: [x], workers: 2}\n",
        ["proxy.sneders", "proxy.workers"],
        id="a-misspelt-key-hides-no-other",
    ),
    pytest.param("proxy: {listen: 0.0.0.0:9009, senders: [x]}\n", ["proxy.senders[0]"], id="a-sender-that-is-none"),
    pytest.param("proxy: {delivery: {park_after: 1m, timeout: x}}\n", ["proxy.delivery.timeout"], id="timeout"),
    pytest.param("proxy: {delivery: {timeout: 1ms, park_after: x}}\n", ["proxy.delivery.park_after"], id="park-after"),
    pytest.param("ownership: {max_age: 9h, history: x}\n", ["ownership.history"], id="history"),
    pytest.param("ownership: {max_age: x, history: 1s}\n", ["ownership.max_age"], id="max-age"),
    pytest.param(
        "ownership: {labelers: [x]}\n", ["ownership.labelers[0]", "ownership.labelers"], id="two-things-wrong"
    ),
    pytest.param("tenants: [{id: a, endpoint: {uri: http://s/p}}]\n", ["tenants[0].endpoint.uri"], id="url-misspelt"),
    pytest.param(
        "tenants: [{idd: a, endpoint: {embedded: true}}]\n", ["tenants[0].idd"], id="required-but-only-misspelt"
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {embedded: maybe}}]\n", ["tenants[0].endpoint.embedded"], id="embedded-unclear"
    ),
    pytest.param(
        "tenants: [{id: a, view: owned, namespaces: x, endpoint: {embedded: true}}]\n",
        ["tenants[0].namespaces"],
        id="owned-with-bad-namespaces",
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {url: https://s/p, tls: {cert_file: c, key_file: []}}}]\n",
        ["tenants[0].endpoint.tls.key_file"],
        id="half-of-a-pair-of-files",
    ),
    pytest.param(
        "tenants: [{id: a b, namespaces: [n], endpoint: {}, write_relabel_configs: [x]}, {id: a c, namespaces: [n]}]\n",
        [
            "tenants[0].id",
            "tenants[0].write_relabel_configs[0]",
            "tenants[1].id",
            "tenants[1].endpoint",
            "tenants[0].endpoint",
            "tenants[1].namespaces[0]",
        ],
        id="everything-of-a-tenant",
    ),
    pytest.param(
        "tenants: [{id: a, endpoint: {url: http://s/p, headers: {X-A: [], Host: h}}}]\n",
        ["tenants[0].endpoint.headers.X-A", "tenants[0].endpoint.headers"],
        id="a-header-and-the-headers",
    ),
    pytest.param(
        "proxy: {idle_tenant: b}\ntenants: [{id: a, endpoint: {embedded: true}}]\ntenants: [{id: b}]\n",
        ["tenants"],
        id="tenants-written-twice",
    ),
    pytest.param(
        "ownership: {max_age: 9h, max_age: 1h, workers: 1}\n",
        ["ownership.max_age", "ownership.workers"],
        id="written-twice",
    ),
]


@pytest.mark.parametrize(("text", "places"), FOLLOWING)
def test_what_comes_of_a_mistake_is_not_told(text: str, places: list[str]) -> None:
    """What would be good if a broken value were is no problem yet; what is wrong in any case is."""
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    assert sorted(problem.where for problem in e.value.problems) == sorted(places)
