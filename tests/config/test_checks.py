"""Each thing that only several settings together show to be wrong."""

import pytest

from config.load import parse
from config.problems import ConfigError

_LIST_THEM = "list the senders, or listen on 127.0.0.1"
_SENDER = "proxy:\n  senders:\n"
_TENANT = "tenants:\n- id: a\n  endpoint: {url: http://store/push}\n"
_ENDPOINT = "tenants:\n- id: a\n  endpoint:\n"

ROWS = [
    pytest.param(
        "proxy:\n  workers: 2\n",
        2,
        "proxy.workers: must be 1, until order and books are kept over several processes",
        id="several-workers",
    ),
    pytest.param(
        "proxy:\n  listen: 0.0.0.0:9009\n",
        1,
        f"proxy.senders: nobody is listed, and other machines can reach 0.0.0.0:9009; {_LIST_THEM}",
        id="open-to-all",
    ),
    pytest.param(
        "proxy:\n  listen: gateway:9009\n  senders: []\n",
        3,
        f"proxy.senders: nobody is listed, and other machines can reach gateway:9009; {_LIST_THEM}",
        id="host-names-are-not-loopback",
    ),
    pytest.param(
        "signer:\n  listen: '[::]:9410'\n",
        1,
        "signer.auth: must not be none, as other machines can reach [::]:9410; "
        "use token-review, or listen on 127.0.0.1",
        id="downloads-open-to-all",
    ),
    pytest.param(
        "proxy:\n  tls:\n    cert_file: c.pem\n",
        3,
        "proxy.tls.cert_file: is not built yet; leave it empty, and put a TLS proxy in front",
        id="tls-certificate",
    ),
    pytest.param(
        "proxy:\n  tls:\n    key_file: k.pem\n",
        3,
        "proxy.tls.key_file: is not built yet; leave it empty, and put a TLS proxy in front",
        id="tls-key",
    ),
    pytest.param(
        "proxy:\n  tls:\n    client_ca_file: ca.pem\n",
        3,
        "proxy.tls.client_ca_file: is not built yet; leave it empty, and put a TLS proxy in front",
        id="tls-client-authority",
    ),
    pytest.param(
        _SENDER + "  - name: p\n",
        3,
        "proxy.senders[0]: needs exactly one of bearer_token_file, basic_auth, client_cert_subject; it has none",
        id="sender-without-credential",
    ),
    pytest.param(
        _SENDER + "  - name: p\n    basic_auth: {username: , password_file: }\n",
        3,
        "proxy.senders[0]: needs exactly one of bearer_token_file, basic_auth, client_cert_subject; it has none",
        id="sender-with-empty-credential",
    ),
    pytest.param(
        _SENDER + "  - {name: p, bearer_token_file: t, basic_auth: {username: u, password_file: f}}\n",
        3,
        "proxy.senders[0]: needs exactly one of bearer_token_file, basic_auth, client_cert_subject; "
        "it has bearer_token_file and basic_auth",
        id="sender-with-two-credentials",
    ),
    pytest.param(
        _SENDER + "  - name: p\n    client_cert_subject: CN=p\n",
        4,
        "proxy.senders[0].client_cert_subject: is not built yet; use bearer_token_file or basic_auth",
        id="client-certificates",
    ),
    pytest.param(
        _SENDER + "  - {name: p, bearer_token_file: t}\n  - {name: p, bearer_token_file: u}\n",
        4,
        'proxy.senders[1].name: "p" is the name of two senders; metrics could not tell them apart',
        id="sender-name-twice",
    ),
    pytest.param(
        _SENDER + "  - {name: p, bearer_token_file: t}\n  - {name: q, bearer_token_file: t}\n",
        4,
        "proxy.senders[1].bearer_token_file: t is the token of two senders; they could not be told apart",
        id="token-file-twice",
    ),
    pytest.param(
        _SENDER
        + "  - {name: p, basic_auth: {username: u, password_file: f}}\n"
        + "  - {name: q, basic_auth: {username: u, password_file: g}}\n",
        4,
        'proxy.senders[1].basic_auth.username: "u" is the user name of two senders; they could not be told apart',
        id="user-name-twice",
    ),
    pytest.param(
        "proxy: {idle_tenant: b}\n" + _TENANT,
        1,
        'proxy.idle_tenant: "b" is no tenant of this file; declare it under tenants',
        id="idle-tenant-not-declared",
    ),
    pytest.param(
        "proxy:\n  unowned: tenant:b\n" + _TENANT,
        2,
        'proxy.unowned: "b" is no tenant of this file; declare it under tenants',
        id="unowned-tenant-not-declared",
    ),
    pytest.param(
        "proxy:\n  unowned: 'tenant:'\n" + _TENANT,
        2,
        'proxy.unowned: "" is no tenant of this file; declare it under tenants',
        id="unowned-tenant-empty",
    ),
    pytest.param(
        "proxy:\n  delivery:\n    park_after: 10s\n",
        3,
        "proxy.delivery.park_after: must be shorter than timeout, which is 10s",
        id="parks-after-the-timeout",
    ),
    pytest.param(
        _TENANT + "- id: a\n  endpoint: {url: http://store/push}\n",
        4,
        'tenants[1].id: "a" is the id of two tenants; join them, or rename one',
        id="tenant-id-twice",
    ),
    pytest.param(
        _TENANT + "  namespaces: [n]\n- id: b\n  endpoint: {url: http://store/push}\n  namespaces:\n  - m\n  - n\n",
        9,
        'tenants[1].namespaces[1]: "n" is listed twice; a namespace has one tenant',
        id="namespace-of-two-tenants",
    ),
    pytest.param(
        _TENANT + "  namespaces: [n, n]\n",
        4,
        'tenants[0].namespaces[1]: "n" is listed twice; a namespace has one tenant',
        id="namespace-twice-in-one-tenant",
    ),
    pytest.param(
        _TENANT + "  view: owned\n",
        4,
        "tenants[0].view: owned shows nothing without namespaces; list them, or use joined",
        id="owned-without-namespaces",
    ),
    pytest.param(
        _TENANT + "  namespace_selector:\n    matchLabels: {team: ml}\n",
        4,
        "tenants[0].namespace_selector: comes with the labeler; list the namespaces",
        id="namespace-selector",
    ),
    pytest.param(
        _ENDPOINT + "    refusal: whole\n",
        3,
        "tenants[0].endpoint: needs a url, or embedded: true",
        id="endpoint-without-url",
    ),
    pytest.param(
        _ENDPOINT + "    embedded: true\n    url: http://store/push\n    org_id: b\n",
        4,
        "tenants[0].endpoint.embedded: needs nothing else; remove url, org_id, or embedded",
        id="embedded-with-url",
    ),
    pytest.param(
        _ENDPOINT
        + "    url: http://store/push\n    bearer_token_file: t\n    basic_auth: {username: u, password_file: f}\n",
        5,
        "tenants[0].endpoint.bearer_token_file: cannot stand beside basic_auth; keep one of them",
        id="two-credentials-for-a-store",
    ),
    pytest.param(
        _ENDPOINT + "    url: http://store/push\n    remote_write: 2\n",
        5,
        "tenants[0].endpoint.remote_write: 2 is not built yet; use 1",
        id="remote-write-2",
    ),
    pytest.param(
        _ENDPOINT + "    url: https://store/push\n    tls: {cert_file: c.pem}\n",
        5,
        "tenants[0].endpoint.tls: needs cert_file and key_file together, or neither",
        id="client-certificate-without-key",
    ),
    pytest.param(
        _ENDPOINT + "    url: http://store/push\n    tls: {ca_file: ca.pem}\n",
        5,
        "tenants[0].endpoint.tls: has no effect on an http url; write https, or remove it",
        id="tls-without-https",
    ),
    pytest.param(
        "dynamic_tenants:\n  id_from: namespace_label:team\n  endpoint: {url: http://store/push}\n",
        2,
        "dynamic_tenants.id_from: namespace labels come with the labeler; use namespace",
        id="dynamic-by-namespace-label",
    ),
    pytest.param(
        "dynamic_tenants:\n  endpoint:\n    url: http://store/push\n    org_id: all\n",
        4,
        "dynamic_tenants.endpoint.org_id: would be the same for all of them; remove it, and each has its own id",
        id="dynamic-with-one-org-id",
    ),
    pytest.param(
        "dynamic_tenants:\n  endpoint:\n    url: http://store/push\n    remote_write: 2\n",
        4,
        "dynamic_tenants.endpoint.remote_write: 2 is not built yet; use 1",
        id="dynamic-endpoint-is-checked-too",
    ),
    pytest.param(
        "ownership:\n  labelers: [http://node-a:9401]\n",
        2,
        "ownership.labelers: comes with the labeler; use files",
        id="labelers",
    ),
    pytest.param(
        "ownership:\n  kubernetes:\n    service: labeler\n",
        3,
        "ownership.kubernetes.service: comes with the labeler; use files",
        id="labelers-by-service",
    ),
    pytest.param(
        "ownership:\n  history: 29s\n",
        2,
        "ownership.history: must not be shorter than max_age, which is 30s",
        id="history-shorter-than-max-age",
    ),
]


@pytest.mark.parametrize(("text", "line", "problem"), ROWS)
def test_says_what_is_wrong_and_where(text: str, line: int, problem: str) -> None:
    """Settings that contradict each other are one problem, with its line and what to do about it."""
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    assert [str(each) for each in e.value.problems] == [f"f.yaml:{line}: {problem}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("proxy: {listen: '[::1]:9009'}\n", id="loopback-needs-no-senders"),
        pytest.param("proxy: {listen: 'localhost:0'}\n", id="localhost-is-loopback"),
        pytest.param(
            "proxy: {listen: 0.0.0.0:9009, senders: [{name: p, bearer_token_file: t}]}\n", id="senders-open-the-door"
        ),
        pytest.param("proxy: {idle_tenant: a, unowned: tenant:a}\n" + _TENANT, id="declared-tenants-can-be-named"),
        pytest.param("proxy: {delivery: {park_after: 9999ms}}\n", id="parks-just-before-the-timeout"),
        pytest.param("ownership: {history: 30s}\n", id="history-as-long-as-max-age"),
        pytest.param("signer: {listen: '0.0.0.0:9410', auth: token-review}\n", id="downloads-with-tokens"),
        pytest.param("tenants: [{id: a, endpoint: {embedded: true, tls: {}, headers: {}}}]\n", id="embedded-and-empty"),
        pytest.param(_TENANT + "  view: raw\n  namespaces: [n]\n", id="any-view-with-namespaces"),
    ],
)
def test_lets_in_what_is_just_allowed(text: str) -> None:
    """The nearest settings that are right have no problem."""
    parse(text, "f.yaml")


def test_names_every_problem_in_the_order_of_the_file() -> None:
    """Nothing has to be mended to see the next problem."""
    text = "ownership:\n  labelers: [http://a]\nproxy:\n  workers: 2\n  workers: 3\n  idle_tenant: nobody\n"
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    assert [(each.line, each.where) for each in e.value.problems] == [
        (2, "ownership.labelers"),
        (4, "proxy.workers"),
        (5, "proxy.workers"),
        (6, "proxy.idle_tenant"),
    ]
