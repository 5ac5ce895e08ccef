"""Who sends: the credentials of `proxy.senders`, compared in constant time, and what each sender is trusted with."""

import base64
import binascii
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from proxy.core.errors import UnauthenticatedError
from proxy.core.tenancy import Trust

CHALLENGE: Final = 'Bearer realm="whosegpu", Basic realm="whosegpu"'
"""What a 401 asks for in WWW-Authenticate (RFC 9110 11.6.1)."""


@dataclass(frozen=True, slots=True)
class Sender:
    """One sender: `secret` is its bearer token, or `user:password` for basic authentication."""

    name: str
    scheme: str
    secret: bytes
    trust: Trust
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Senders:
    """All configured senders; `anonymous` stands for everybody where none is configured (loopback only)."""

    senders: tuple[Sender, ...]
    anonymous: Sender

    def identify(self, authorization: str | None) -> Sender:
        """The sender that an Authorization header belongs to; raises UnauthenticatedError.

        Every configured secret is compared, so that the time taken does not tell which one was nearly right.
        """
        if not self.senders:
            return self.anonymous
        if authorization is None:
            raise UnauthenticatedError("no Authorization header; set authorization or basic_auth in remote_write")
        scheme, _, given = authorization.strip().partition(" ")
        secret = _secret(scheme.lower(), given.strip())
        found: Sender | None = None
        for sender in self.senders:
            same = hmac.compare_digest(sender.secret, secret)
            if same and secret and sender.scheme == scheme.lower():
                found = sender
        if found is None:
            raise UnauthenticatedError("these credentials belong to no sender; see proxy.senders")
        return found


def anonymous(trusted_jobs: Iterable[str]) -> Sender:
    """Whoever sends where no sender is configured."""
    return Sender("anonymous", "", b"", Trust(frozenset(trusted_jobs)))


def _secret(scheme: str, given: str) -> bytes:
    """What was given as bytes, empty where it can be nobody's; header fields are bytes, read as Latin-1."""
    if scheme != "basic":
        try:
            return given.encode("latin-1")
        except UnicodeEncodeError:
            return b""
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return b""
