"""Tenants as written: ids, headers, names at the store, views, rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.load import parse
from config.problems import ConfigError
from config.tenant_id import tenant_id_fault
from config.tenants import TenantConfig


def tenant(rest: str) -> TenantConfig:
    """The one tenant of a file, its settings given as YAML in flow style."""
    (only,) = parse(f"tenants: [{{id: a, {rest}}}]", "f.yaml").settings.tenants
    return only


@pytest.mark.parametrize(
    "tenant_id", ["a", "team-ml", "A.b_c-d", "!-_.*'()", "...", "__mimir_clusters", "x" * 150, "0"]
)
def test_takes_ids_that_every_store_takes(tenant_id: str) -> None:
    """Letters, digits and ten marks, up to 150 of them."""
    assert tenant_id_fault(tenant_id) is None


@pytest.mark.parametrize(
    ("tenant_id", "why"),
    [
        ("", "must not be empty"),
        ("x" * 151, "has 151 characters; no store takes more than 150"),
        (".", "keep for themselves"),
        ("..", "keep for themselves"),
        ("__mimir_cluster", "keep for themselves"),
        ("a|b", "has a character that no store takes"),
        ("a:b", "has a character that no store takes"),
        ("a/b", "has a character that no store takes"),
        ("a b", "has a character that no store takes"),
        ("a\\b", "has a character that no store takes"),
        ("%41", "has a character that no store takes"),
        ("a\x00", "has a character that no store takes"),
        ("a\n", "has a character that no store takes"),
        ("ä", "has a character that no store takes"),
    ],
)
def test_refuses_ids_that_a_store_refuses_or_changes(tenant_id: str, why: str) -> None:
    """A store answers these with 500 for ever, reads them as several tenants, or writes to another one."""
    assert why in (tenant_id_fault(tenant_id) or "")


@pytest.mark.parametrize(
    ("rest", "view"),
    [
        ("namespaces: [n]", "owned"),
        ("namespaces: [n], view: ", "owned"),
        ("namespaces: []", "joined"),
        ("namespaces: ", "joined"),
        ("view: raw", "raw"),
        ("namespaces: [n], view: joined", "joined"),
    ],
)
def test_the_view_follows_the_namespaces(rest: str, view: str) -> None:
    """With namespaces a tenant sees its own, without it sees everything joined, unless it says which."""
    assert tenant(f"{rest}, endpoint: {{embedded: true}}").view == view


def test_the_org_id_is_the_id_unless_written() -> None:
    """X-Scope-OrgID is the tenant's id by default, and nothing for embedded storage."""
    assert tenant("endpoint: {url: http://s/p}").endpoint.org_id == "a"
    assert tenant("endpoint: {url: http://s/p, org_id: }").endpoint.org_id == "a"
    assert tenant("endpoint: {url: http://s/p, org_id: b}").endpoint.org_id == "b"
    assert tenant("endpoint: {embedded: true}").endpoint.org_id is None


def test_a_bad_org_id_is_refused() -> None:
    """An org id is a tenant id of the store's."""
    with pytest.raises(ConfigError, match=r"tenants\[0\]\.endpoint\.org_id: .* no store takes"):
        tenant("endpoint: {url: http://s/p, org_id: a|b}")


def test_dynamic_tenants_have_each_its_own_org_id() -> None:
    """The shared endpoint becomes one of the tenant's own."""
    dynamic = parse("dynamic_tenants: {endpoint: {url: http://s/p}}", "f.yaml").settings.dynamic_tenants
    assert dynamic is not None
    assert dynamic.endpoint_of("x").org_id == "x"
    assert dynamic.endpoint_of("y").url == "http://s/p"


def test_headers_are_read_only_text() -> None:
    """Header values are as written, and nobody changes them later."""
    headers = tenant("endpoint: {url: http://s/p, headers: {X-Team: 007, X-Empty: ''}}").endpoint.headers
    assert dict(headers) == {"X-Team": "007", "X-Empty": ""}
    with pytest.raises(TypeError):
        headers["X-Team"] = "1"  # type: ignore[index]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ("Authorization: x", "use basic_auth or bearer_token_file"),
        ("x-scope-ORGID: x", "use org_id"),
        ("Content-Type: x", "the protocol says what it must be"),
        ("Host: x", "the protocol says what it must be"),
        ("X-A: x, x-a: y", "stands there twice"),
        ("'X A': x", "is no header name"),
        ("'': x", "is no header name"),
        ('X-A: "x\\ny: z"', "has a character that no header can have"),
        ('X-A: "x\\0"', "has a character that no header can have"),
        ("X-A: ü", "has a character that no header can have"),
        ("X-A: ", "must be text, not an empty value"),
        ("X-A: [x]", "must be text, not a list"),
    ],
)
def test_refuses_headers_that_break_a_request_or_another_setting(headers: str, why: str) -> None:
    """Names and values that end a header, repeat one, or belong to the protocol."""
    with pytest.raises(ConfigError, match=why):
        tenant(f"endpoint: {{url: http://s/p, headers: {{{headers}}}}}")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3))
def test_no_header_ends_early(headers: dict[str, str]) -> None:
    """Whatever the header values, none that is let in has a line break or a zero byte."""
    try:
        made = TenantConfig.model_validate({"id": "a", "endpoint": {"url": "http://s/p", "headers": headers}})
    except ValueError:
        return
    assert all(set("\r\n\x00").isdisjoint(name + value) for name, value in made.endpoint.headers.items())


def test_rules_know_what_was_written() -> None:
    """An absent key is None, an empty one the type's zero value, as in Prometheus; only the action has a default."""
    rules = "[{}, {source_labels: , separator: , regex: , modulus: , target_label: ~, replacement: null, action: ''}]"
    absent, empty = tenant(f"endpoint: {{embedded: true}}, write_relabel_configs: {rules}").write_relabel_configs
    keys = ("source_labels", "separator", "regex", "modulus", "target_label", "replacement", "action")
    assert [getattr(absent, key) for key in keys] == [None, None, None, None, None, None, "replace"]
    assert [getattr(empty, key) for key in keys] == [(), "", "", 0, "", "", ""]
