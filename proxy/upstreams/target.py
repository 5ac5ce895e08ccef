"""Where a tenant's samples are posted, made ready once when the configuration is loaded.

The request's head is built here and never again: whatever a URL, a header or a secret holds, it is one request line
and one line per header (RFC 9110 5.5, RFC 9112 3), or it is a TargetError. Which headers a configuration may set is
said in `config.headers`.
"""

import base64
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from proxy.core.errors import ProxyError

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")  # visible ASCII, blanks inside only
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
_PATH_SAFE: Final = "/%:@!$&'()*+,;=~?[]"
_PORTS: Final = {"http": 80, "https": 443}


class TargetError(ProxyError):
    """An endpoint cannot be used as it is written; raised when the configuration is loaded."""

    reason: ClassVar[str] = "endpoint"


@dataclass(frozen=True, slots=True)
class UpstreamTarget:
    """One endpoint. `head` is the request up to and with `Content-Length: `, and bears credentials."""

    host: str
    port: int
    head: bytes = field(repr=False)
    tls: ssl.SSLContext | None
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Credentials:
    """What stands in `Authorization`."""

    authorization: str = field(repr=False)

    @classmethod
    def basic(cls, username: str, password: str) -> "Credentials":
        """RFC 7617, in UTF-8."""
        return cls("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii"))

    @classmethod
    def bearer(cls, token: str) -> "Credentials":
        """RFC 6750."""
        return cls(f"Bearer {token}")


def target(
    url: str,
    headers: Iterable[tuple[str, str]],
    credentials: Credentials | None,
    tls: ssl.SSLContext | None,
    timeout_seconds: float,
) -> UpstreamTarget:
    """The target of an absolute http or https URL, used as it is.

    A user in the URL becomes basic auth where there are no other credentials. `tls` is for https only. Raises
    TargetError with one sentence, which never holds a secret.
    """
    parts = _split(url)
    host, port = _host(parts)
    if credentials is None and parts.username is not None:
        credentials = Credentials.basic(unquote(parts.username), unquote(parts.password or ""))
    lines = [f"POST {_request_target(parts)} HTTP/1.1", f"Host: {_host_header(host, port, parts.scheme)}"]
    lines.extend(_line(name, value) for name, value in headers)
    if credentials is not None:
        lines.append(_line("Authorization", credentials.authorization))
    head = "\r\n".join((*lines, "Content-Length: ")).encode("ascii")
    return UpstreamTarget(host, port, head, tls if parts.scheme == "https" else None, timeout_seconds)


def _split(url: str) -> SplitResult:
    if _CONTROL.search(url):
        raise TargetError("the URL holds a blank or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetError(f"the URL cannot be read: {error}") from error
    if parts.scheme not in _PORTS:
        raise TargetError("the URL must begin with http:// or https://")
    if not parts.hostname:
        raise TargetError("the URL has no host")
    if port == 0:
        raise TargetError("the URL's port is 0")
    return parts


def _host(parts: SplitResult) -> tuple[str, int]:
    host = (parts.hostname or "").replace("%25", "%", 1)  # RFC 6874: the zone of a link-local address
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError as error:
            raise TargetError("the URL's host is no name") from error
    if not _HOST.fullmatch(host):
        raise TargetError("the URL's host is no name")
    return host, parts.port or _PORTS[parts.scheme]


def _host_header(host: str, port: int, scheme: str) -> str:
    name = f"[{host.partition('%')[0]}]" if ":" in host else host
    return name if port == _PORTS[scheme] else f"{name}:{port}"


def _request_target(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_PATH_SAFE)
    return f"{path}?{quote(parts.query, safe=_PATH_SAFE)}" if parts.query else path


def _line(name: str, value: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise TargetError(f"{name!r} is no header name")
    if not _VALUE.fullmatch(value):
        raise TargetError(f"the value of header {name} must be visible ASCII characters, with blanks inside only")
    return f"{name}: {value}"
