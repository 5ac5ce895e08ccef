"""TLS and credentials. Every secret is the name of a file: nothing secret stands in the configuration itself."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from config.addresses import FilePath, Text
from config.model import Section


def _no_colon(text: str) -> str:
    if ":" in text:
        message = "must not have a colon, which ends the user name on the wire"
        raise ValueError(message)
    return text


class BasicAuth(Section):
    """A user name and the file with its password (RFC 7617)."""

    username: Annotated[Text, AfterValidator(_no_colon)]
    """Without a colon, which ends the name on the wire."""

    password_file: FilePath
    """Read at start and at each reload; one line break at its end is not part of the password."""


def _all_empty_is_none(given: Any) -> Any:
    return None if isinstance(given, dict) and not any(given.values()) else given


OptionalBasicAuth = Annotated[BasicAuth | None, BeforeValidator(_all_empty_is_none)]
"""Basic authentication; with all of its values empty it is not set."""


class ServerTls(Section):
    """TLS on the address that senders connect to."""

    cert_file: FilePath | None = None
    """Certificate chain in PEM. Default: none, plain HTTP."""

    key_file: FilePath | None = None
    """The certificate's key in PEM."""

    client_ca_file: FilePath | None = None
    """Authorities whose client certificates are believed. Default: none are asked for."""


class ClientTls(Section):
    """TLS towards a tenant's store; used with an https URL only."""

    ca_file: FilePath | None = None
    """Authorities in PEM. Default: the system's. A store with a private authority is unreachable without it."""

    cert_file: FilePath | None = None
    """Our client certificate in PEM, with key_file. Default: none."""

    key_file: FilePath | None = None
    """The client certificate's key in PEM."""

    insecure_skip_verify: bool = False
    """Believe any certificate. Whoever is on the way can then read and change what is sent; for tests only."""
