"""Addresses to listen on and URLs to send to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.addresses import Address, check_url, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:9009", "127.0.0.1", 9009, True),
        ("127.255.0.9:1", "127.255.0.9", 1, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:65535", "::1", 65535, True),
        ("0.0.0.0:9009", "0.0.0.0", 9009, False),
        ("[::]:9009", "::", 9009, False),
        ("[fe80::1%eth0]:9009", "fe80::1%eth0", 9009, False),
        ("10.0.0.1:9009", "10.0.0.1", 9009, False),
        ("gateway-0.example_net:9009", "gateway-0.example_net", 9009, False),
    ],
)
def test_reads_addresses(text: str, host: str, port: int, *, is_loopback: bool) -> None:
    """Host and port, written back the same, and whether only this machine can connect."""
    address = parse_address(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, is_loopback)
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no address"),
        ("9009", "no address"),
        ("127.0.0.1", "no address"),
        ("127.0.0.1:", "no address"),
        ("127.0.0.1:http", "no address"),
        ("127.0.0.1:65536", "no address"),
        ("127.0.0.1:-1", "no address"),
        ("127.0.0.1:٩", "no address"),
        (":9009", "0.0.0.0:9009"),
        ("[]:9009", "0.0.0.0:9009"),
        ("::1:9009", "brackets"),
        ("[127.0.0.1]:9009", "brackets"),
        ("a b:9009", "no host name"),
        ("http://a:9009", "no host name"),
        ("a\n:9009", "no host name"),
    ],
)
def test_refuses_what_is_no_address(text: str, why: str) -> None:
    """Each refusal says what is missing."""
    with pytest.raises(ValueError, match=why):
        parse_address(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://mimir/api/v1/push",
        "https://mimir.example:8443/api/v1/push?x=y",
        "http://[::1]:9009/",
        "HTTP://10.0.0.1",
        "http://mimir/a%20b",
    ],
)
def test_urls_stay_as_they_are(url: str) -> None:
    """A good URL is used to the letter."""
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "character"),
        ("http://a/b c", "character"),
        ("http://a/\n", "character"),
        ("http://bücher/", "character"),
        ("mimir/push", "absolute"),
        ("//mimir/push", "absolute"),
        ("ftp://mimir/push", "absolute"),
        ("http:///push", "absolute"),
        ("http://:80/push", "absolute"),
        ("http://a:0/", "absolute"),
        ("http://a:99999/", "is no URL"),
        ("http://a:b/", "is no URL"),
        ("http://[::1/", "is no URL"),
        ("http://a/#b", "fragment"),
        ("http://a/#", "fragment"),
    ],
)
def test_refuses_urls_that_cannot_be_used_to_the_letter(url: str, why: str) -> None:
    """Relative, other schemes, impossible ports, and parts that are never sent."""
    with pytest.raises(ValueError, match=why):
        check_url(url)


@pytest.mark.parametrize("url", ["http://user:hush@a/", "http://hush@a/", "http://u:hush@a:b/", "http://u:hush@[::1/"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    """Secrets come from files; one that stands in the URL is not shown again."""
    with pytest.raises(ValueError, match=r"credentials|is no URL") as e:
        check_url(url)
    assert "hush" not in str(e.value)


@pytest.mark.fuzz
@given(st.text(max_size=80))
def test_any_text_is_a_place_or_value_error(text: str) -> None:
    """Any text: an address that reads back as itself, a URL as it is, or ValueError."""
    try:
        assert isinstance(parse_address(text), Address)
    except ValueError as e:
        assert str(e)
    try:
        assert check_url(text) == text
    except ValueError as e:
        assert str(e)
