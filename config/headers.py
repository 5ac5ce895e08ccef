"""Further headers that a store may need, and those that are not for anybody to set."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, PlainSerializer

from config.durations import cut

HIDDEN: Final = "<hidden>"
"""Stands for what is not shown."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110, 5.6.2)."""

_VALUE: Final = re.compile(r"[ -~]*")
"""A header's value without anything that could end it: visible ASCII and spaces (RFC 9110, 5.5)."""

_INSTEAD: Final = {
    "authorization": "use basic_auth or bearer_token_file, so that no secret stands here",
    "x-scope-orgid": "use org_id",
    "proxy-authorization": "proxies are not supported",
} | dict.fromkeys(
    (
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "retry-attempt",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-prometheus-remote-write-version",
    ),
    "the protocol says what it must be; remove it",
)


def _check(headers: Mapping[str, str]) -> Mapping[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            message = f"{cut(name)} is no header name"
            raise ValueError(message)
        if lower in _INSTEAD:
            message = f"{cut(name)} cannot be set: {_INSTEAD[lower]}"
            raise ValueError(message)
        if lower in seen:
            message = f"{cut(name)} stands there twice, upper and lower case being the same"
            raise ValueError(message)
        if not _VALUE.fullmatch(value):
            message = f"the value of {cut(name)} has a character that no header can have"
            raise ValueError(message)
        seen.add(lower)
    return MappingProxyType(dict(headers))


def _names_only(headers: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(headers, HIDDEN)


Headers = Annotated[
    Mapping[str, str],
    AfterValidator(_check),
    PlainSerializer(_names_only, return_type=dict[str, str], when_used="json"),
]
"""Header names and values that a request may bear, read-only. JSON shows no values: some are secrets all the same."""
