"""Where to listen, where to send, and which files: checked text."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator

from config.durations import cut

_LARGEST_PORT: Final = 65_535
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")
_VISIBLE_ASCII: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on. Port 0 lets the system choose one; the `listening` log event tells which."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on the same machine can connect. A name other than `localhost` is not believed."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """The address that `host:port` or `[ipv6]:port` says. Raises ValueError with a sentence."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if not colon or not _PORT.fullmatch(port) or int(port) > _LARGEST_PORT:
        message = f"{cut(text)} is no address to listen on; write host:port, like 127.0.0.1:9009 or [::1]:9009"
        raise ValueError(message)
    if not bare:
        message = f"{cut(text)} does not say where to listen; write 0.0.0.0:{port} for all addresses of this machine"
        raise ValueError(message)
    if (":" in bare) is not bracketed or not _HOST.fullmatch(bare):
        message = f"{cut(text)} has no host name or address before the port; an IPv6 address goes in brackets"
        raise ValueError(message)
    return Address(bare, int(port))


def _address(given: object) -> Address:
    if isinstance(given, Address):
        return given
    if isinstance(given, str):
        return parse_address(given)
    message = "must be text like 127.0.0.1:9009"
    raise ValueError(message)


def check_url(text: str) -> str:
    """The URL itself, if it is absolute, http or https, without credentials or fragment.

    Raises ValueError with a sentence, which never repeats credentials.
    """
    if not _VISIBLE_ASCII.fullmatch(text):
        message = "has a character that no URL can have; percent-encode it"
        raise ValueError(message)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as e:
        message = f"is no URL: {e}" if "@" not in text else "is no URL"
        raise ValueError(message) from e
    if "@" in parts.netloc:
        message = "has credentials in it; put them into files and name those under basic_auth or bearer_token_file"
        raise ValueError(message)
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        message = f"{cut(text)} is no absolute URL; write it like https://mimir.example/api/v1/push"
        raise ValueError(message)
    if parts.fragment or text.endswith("#"):
        message = f"{cut(text)} has a fragment, which is never sent; remove it from the # on"
        raise ValueError(message)
    return text


def _file_path(given: object) -> object:
    if given == "":
        message = "must name a file or folder"
        raise ValueError(message)
    if isinstance(given, str) and "\x00" in given:
        message = "has a zero byte, which no path can have"
        raise ValueError(message)
    return given


def _not_empty(text: str) -> str:
    if not text:
        message = "must not be empty"
        raise ValueError(message)
    return text


Listen = Annotated[Address, PlainValidator(_address), PlainSerializer(str, return_type=str, when_used="json")]
"""An address to listen on, `host:port` in the file."""

Url = Annotated[str, AfterValidator(check_url)]
"""An absolute http or https URL."""

FilePath = Annotated[Path, BeforeValidator(_file_path)]
"""A path; a relative one is against the working directory of the process."""

Text = Annotated[str, AfterValidator(_not_empty)]
"""Text that says something."""
