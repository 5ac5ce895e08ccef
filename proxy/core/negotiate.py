"""Whether a request is one that this receiver takes, told from its method and headers alone, before the body is read.

Media types are parsed as RFC 9110 (8.3.1, 5.6.6) says: blanks around `;`, names in any case, quoted values. Receivers
that split on `;` and `=` take `application/x-protobuf; proto=io.prometheus.write.v2.Request` for 1.0, find nothing in
it and acknowledge it: silent loss (remote-write facts 2.1).
"""

import re
from typing import Final

from proxy.core.errors import ContentEncodingError, ContentTypeError, MethodError, UnsupportedVersionError

MEDIA_TYPE: Final = "application/x-protobuf"
PROTO_1: Final = "prometheus.WriteRequest"
PROTO_2: Final = "io.prometheus.write.v2.Request"

HEADER_CHARACTERS: Final = 1024
"""Of a content type at most; the longest in use has 60."""

_TCHARS: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE: Final = re.compile(rf"\s*({_TCHARS}/{_TCHARS})\s*")
_PARAMETER: Final = re.compile(rf"""\s*;\s*(?:({_TCHARS})=(?:({_TCHARS})|"((?:[^"\\]|\\.)*)"))?""")
_QUOTED_PAIR: Final = re.compile(r"\\(.)")


def check_request(method: str, content_type: str | None, content_encoding: str | None) -> None:
    """Nothing if this is a request of remote write 1.0, which a missing content type means too.

    Raises MethodError, ContentTypeError, UnsupportedVersionError (2.0) and ContentEncodingError.
    """
    if method != "POST":
        raise MethodError(f"{method[:20]} is not for this path; send remote write by POST")
    if content_type is not None:
        proto = _proto(content_type)
        if proto == PROTO_2:
            raise UnsupportedVersionError(
                "remote write 2.0 is not taken; set protobuf_message: prometheus.WriteRequest in remote_write"
            )
        if proto not in (None, PROTO_1):
            raise ContentTypeError(f"proto={proto[:80]} is unknown; send {PROTO_1}")
    encoding = "snappy" if content_encoding is None else content_encoding.strip().lower()
    if encoding != "snappy":
        raise ContentEncodingError(f"{encoding[:40]} is not taken; send snappy (block format)")


def _proto(content_type: str) -> str | None:
    """The message that a content type names, None where it names none; raises ContentTypeError."""
    shown = content_type[:80]
    media = _TYPE.match(content_type)
    if media is None or media[1].lower() != MEDIA_TYPE or len(content_type) > HEADER_CHARACTERS:
        raise ContentTypeError(f"{shown} is not taken; send {MEDIA_TYPE}")
    protos: list[str] = []
    at = media.end()
    while at < len(content_type):
        parameter = _PARAMETER.match(content_type, at)
        if parameter is None:
            raise ContentTypeError(f"{shown} has a parameter that cannot be read; send {MEDIA_TYPE};proto={PROTO_1}")
        name, token, text = parameter.groups()
        if name and name.lower() == "proto":
            protos.append(token if token is not None else _QUOTED_PAIR.sub(r"\1", text))
        at = parameter.end()
        if at < len(content_type) and content_type[at:].isspace():
            break
    if len(protos) > 1:
        raise ContentTypeError(f"{shown} names proto more than once; send {MEDIA_TYPE};proto={PROTO_1}")
    return protos[0] if protos else None
