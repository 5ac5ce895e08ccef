import ssl
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstreams.target import Credentials, TargetError, UpstreamTarget, target


def _target(
    url: str, headers: tuple[tuple[str, str], ...] = (), credentials: Credentials | None = None
) -> UpstreamTarget:
    return target(url, headers, credentials, None, 10)


def _lines(made: UpstreamTarget) -> list[str]:
    return made.head.decode().split("\r\n")


@pytest.mark.parametrize(
    ("url", "host", "port", "line", "header"),
    [
        ("http://mimir/api/v1/push", "mimir", 80, "/api/v1/push", "mimir"),
        ("https://Mimir.Example/push", "mimir.example", 443, "/push", "mimir.example"),
        ("http://mimir:9009/push", "mimir", 9009, "/push", "mimir:9009"),
        ("https://mimir:443/push", "mimir", 443, "/push", "mimir"),
        ("http://mimir:443/push", "mimir", 443, "/push", "mimir:443"),
        ("http://mimir", "mimir", 80, "/", "mimir"),
        ("http://mimir/push/", "mimir", 80, "/push/", "mimir"),
        ("http://mimir?tenant=a%20b&x=", "mimir", 80, "/?tenant=a%20b&x=", "mimir"),
        ("http://mimir/a#fragment", "mimir", 80, "/a", "mimir"),
        ("http://mimir/größe", "mimir", 80, "/gr%C3%B6%C3%9Fe", "mimir"),
        ('http://mimir/"<>', "mimir", 80, "/%22%3C%3E", "mimir"),
        ("http://127.0.0.1:1/", "127.0.0.1", 1, "/", "127.0.0.1:1"),
        ("http://[::1]/", "::1", 80, "/", "[::1]"),
        ("http://[fe80::1%25eth0]:65535/", "fe80::1%eth0", 65535, "/", "[fe80::1]:65535"),
        ("http://bücher.example/", "xn--bcher-kva.example", 80, "/", "xn--bcher-kva.example"),
    ],
)
def test_url_is_used_as_it_is(url: str, host: str, port: int, line: str, header: str) -> None:
    """Host, port, request line and Host header follow from the URL, and nothing is appended to it."""
    made = _target(url)
    assert (made.host, made.port) == (host, port)
    assert _lines(made) == [f"POST {line} HTTP/1.1", f"Host: {header}", "Content-Length: "]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mimir/push",
        "//mimir/push",
        "ftp://mimir/push",
        "http:///push",
        "http://:80/push",
        "http://mimir:0/",
        "http://mimir:65536/",
        "http://mimir:port/",
        "http://mi mir/",
        "http://mimir/a b",
        "http://mimir/\r\nX-Scope-OrgID: other",
        "http://mimir/\n",
        "http://mimir/\x00",
        "http://mi\tmir/",
        "http://mi<mir/",
        "http://[::1/",
        "http://[::zz]/",
        "http://" + "a" * 64 + "ü.example/",
    ],
)
def test_bad_urls(url: str) -> None:
    """What is no absolute http URL, or could become two lines of a request, is refused."""
    with pytest.raises(TargetError):
        _target(url)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "a\r\nX-B: b"),
        ("X-A", "a\nb"),
        ("X-A", "a\x00b"),
        ("X-A", " a"),
        ("X-A", "a "),
        ("X-A", "ä"),
        ("X-A\r\nX-B", "b"),
        ("X-A: b\r\nX-C", "c"),
        ("X A", "b"),
        ("", "b"),
        ("Xä", "b"),
    ],
)
def test_bad_headers(name: str, value: str) -> None:
    """A header that is not one line of visible ASCII is refused, and its value is not in the error."""
    with pytest.raises(TargetError) as raised:
        _target("http://mimir/", ((name, value),))
    assert repr(value) not in str(raised.value)


@pytest.mark.fuzz
@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_no_text_adds_a_line(path: str, query: str, name: str, value: str, secret: str) -> None:
    """Whatever a URL, header or secret holds, the head has one line for each, or is refused with our error."""
    try:
        made = _target(f"http://mimir/{path}?{query}", ((name, value),), Credentials.bearer(secret))
    except TargetError:
        return
    lines = _lines(made)
    assert len(lines) == 5
    assert lines[0].count(" ") == 2
    assert lines[2] == f"{name}: {value}"
    assert lines[3] == f"Authorization: Bearer {secret}"


def test_credentials() -> None:
    """Basic auth is in UTF-8, a URL's user is basic auth, and credentials of the configuration outrank it."""
    basic = "Authorization: Basic cHJvbTpnZWhlaW06w6Q="
    assert basic in _lines(_target("http://mimir/", (), Credentials.basic("prom", "geheim:ä")))
    assert basic in _lines(_target(f"http://prom:{quote('geheim:ä', safe='')}@mimir/"))
    with_both = _lines(_target("http://prom:x@mimir/", (), Credentials.bearer("token")))
    assert [line for line in with_both if line.startswith("Auth")] == ["Authorization: Bearer token"]


def test_a_secret_is_not_shown() -> None:
    """Neither the target nor the credentials print what they bear."""
    credentials = Credentials.bearer("s3cret")
    assert "s3cret" not in repr((credentials, _target("http://mimir/", (), credentials)))


def test_tls_is_for_https_only() -> None:
    """An http URL is never spoken to in TLS, an https one always."""
    context = ssl.create_default_context()
    assert target("http://mimir/", (), None, context, 1).tls is None
    assert target("https://mimir/", (), None, context, 1).tls is context
