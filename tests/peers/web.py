"""One HTTP request to a peer: no proxy settings, no redirects, every status is an answer."""

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Call:
    """A request; ``tls`` only for https."""

    url: str
    method: str = "GET"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def fetch(call: Call, *, timeout_s: float = 10) -> Answer:
    """Sends one request over a fresh connection; raises OSError or http.client.HTTPException when no answer comes."""
    parts = urlsplit(call.url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=call.tls)
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    try:
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        connection.request(call.method, target, body=call.body, headers=dict(call.headers))
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
    finally:
        connection.close()
