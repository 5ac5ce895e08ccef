"""Every kind of value that is wrong by itself."""

import pytest

from config.load import parse
from config.problems import ConfigError

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
    with pytest.raises(ConfigError) as e:
        parse(text, "f.yaml")
    assert [str(each) for each in e.value.problems] == [f"f.yaml:1: {problem}"]
