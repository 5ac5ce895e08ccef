"""Questions to a running proxy over HTTP: one request, one JSON answer, and every failure as one sentence."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cli.errors import CommandError, WrongUsageError

DEFAULT_URL: Final = "http://127.0.0.1:9009"  # where a proxy listens by default
ANSWER_BYTES: Final = 64 << 20  # far above the owners of the largest clusters
TIMEOUT_SECONDS: Final = 30.0

_WHO_MAY_ASK: Final = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class ProxyApi:
    """The API of a proxy. `token_file` holds the bearer token of a sender with `admin: true`."""

    url: str = DEFAULT_URL
    token_file: Path | None = None

    def post(self, path: str, question: Any) -> Any:
        """The JSON answer to a JSON question; raises CommandError."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self.token_file)}"
        request = urllib.request.Request(  # noqa: S310 - _checked allows http and https only
            _checked(self.url) + path, json.dumps(question).encode(), headers, method="POST"
        )
        try:
            with _opener(self.url).open(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read(ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise CommandError(_refusal(self.url, error.code, error.read(ANSWER_BYTES))) from error
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(_no_answer(self.url, error)) from error
        except ValueError as error:
            raise CommandError(f"{self.url} answered something that is no JSON; is it a whosegpu proxy?") from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Follows no redirect: a token goes to the address that was named. No proxy of the environment for loopback."""
    local = urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if local else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise WrongUsageError(f"{url!r} is no address of a proxy; write it like {DEFAULT_URL}")
    return url.rstrip("/")


def _token(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CommandError(f"the token file {path} cannot be read: {reason}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise CommandError(f"the token file {path} must hold one line, the token")
    return token


def _no_answer(url: str, error: Exception) -> str:
    reason = getattr(error, "reason", error)
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return f"no proxy answers at {url} ({said}); start it, or name another with --url, or a file with --config"


def _refusal(url: str, status: int, body: bytes) -> str:
    try:
        detail = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answered {status}; is it a whosegpu proxy?"
    hint = "; name the token of an admin sender with --token-file" if status in _WHO_MAY_ASK else ""
    return f"the proxy refused: {detail}{hint}"
