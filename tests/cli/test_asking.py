"""Questions to a proxy: what can go wrong on the way, each one sentence."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.asking import ProxyApi
from cli.errors import CommandError
from tests.cli.command import Command
from tests.peers.processes import free_ports


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server whose every POST is answered by `answer`; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}"
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def says(status: int, body: bytes, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer that is always the same."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """No answer at all."""
    handler.close_connection = True


PROBLEM = json.dumps({"detail": "unauthenticated: no Authorization header"}).encode()

ANSWERS = [
    pytest.param(says(200, b"<html>"), "{url} answered something that is no JSON; is it a whosegpu proxy?", id="html"),
    pytest.param(says(200, b"\xff"), "{url} answered something that is no JSON; is it a whosegpu proxy?", id="bytes"),
    pytest.param(says(404, b"not here"), "{url} answered 404; is it a whosegpu proxy?", id="another-server"),
    pytest.param(says(500, b"[]"), "{url} answered 500; is it a whosegpu proxy?", id="another-json"),
    pytest.param(
        says(302, b"", Location="http://127.0.0.1:1/"), "{url} answered 302; is it a whosegpu proxy?", id="redirect"
    ),
    pytest.param(
        says(401, PROBLEM),
        "the proxy refused: unauthenticated: no Authorization header; name the token of an admin sender with "
        "--token-file",
        id="unauthenticated",
    ),
    pytest.param(says(400, b'{"detail": "at: no time"}'), "the proxy refused: at: no time", id="refused"),
    pytest.param(
        hangs_up,
        "no proxy answers at {url} (Remote end closed connection without response); start it, or name another with "
        "--url, or a file with --config",
        id="no-answer",
    ),
]


@pytest.mark.parametrize(("answer", "sentence"), ANSWERS)
def test_every_failure_is_one_sentence(answer: Callable[[BaseHTTPRequestHandler], None], sentence: str) -> None:
    """Whatever stands at the URL, the person is told what it did, and what to do."""
    with server(answer) as url, pytest.raises(CommandError) as e:
        ProxyApi(url).post("/api/v1/explain", {})
    assert str(e.value) == sentence.format(url=url)


def test_nobody_listens(whosegpu: Command) -> None:
    """Without a proxy the sentence says how to get an answer."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    result = whosegpu("explain", "--url", url, "up")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"whosegpu: no proxy answers at {url} (Connection refused); start it, or name another with --url, or a file "
        "with --config\n"
    )


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9009", "ftp://x", "file:///etc/passwd", "http://", "http://a b", "http://[", "http://x:99999"]
)
def test_an_address_that_is_none(whosegpu: Command, url: str) -> None:
    """Only http and https addresses are asked; others are wrong usage."""
    result = whosegpu("explain", "--url", url, "up")
    assert (result.status, result.out) == (2, "")
    assert result.err == (f"whosegpu: {url!r} is no address of a proxy; write it like http://127.0.0.1:9009\n")


def test_the_token_is_sent_as_bearer(tmp_path: Path) -> None:
    """The token file's one line goes in the Authorization header."""
    seen: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        says(200, b"{}")(handler)

    path = tmp_path / "token"
    path.write_text("s3cret\n", encoding="utf-8")
    with server(answer) as url:
        assert ProxyApi(url, path).post("/x", {}) == {}
        assert ProxyApi(url).post("/x", {}) == {}
    assert seen == ["Bearer s3cret", None]


TOKENS = [
    pytest.param(None, "cannot be read: No such file or directory", id="absent"),
    pytest.param(b"", "must hold one line, the token", id="empty"),
    pytest.param(b"a\nb", "must hold one line, the token", id="two-lines"),
    pytest.param(b"\xff", "cannot be read: it is not text", id="bytes"),
]


@pytest.mark.parametrize(("token", "sentence"), TOKENS)
def test_a_token_file_of_no_use(whosegpu: Command, tmp_path: Path, token: bytes | None, sentence: str) -> None:
    """A token that cannot be sent is told before anything is asked."""
    path = tmp_path / "token"
    if token is not None:
        path.write_bytes(token)
    result = whosegpu("explain", "--token-file", str(path), "up")
    assert (result.status, result.out, result.err) == (1, "", f"whosegpu: the token file {path} {sentence}\n")


EXPLANATION: dict[str, object] = {
    "series": "x",
    "at": "",
    "kind": "",
    "device": None,
    "owner": None,
    "reason": "",
    "tenants": [],
}

OTHERS = [
    pytest.param({}, id="empty"),
    pytest.param([], id="list"),
    pytest.param({"explanations": None}, id="null"),
    pytest.param({"explanations": [{"series": 1}]}, id="incomplete"),
    pytest.param({"explanations": [{**EXPLANATION, "fate": {}}]}, id="no-fate"),
    pytest.param({"explanations": [{**EXPLANATION, "fate": {"kind": "x"}, "series": "{"}]}, id="no-series"),
    pytest.param({"explanations": [{**EXPLANATION, "fate": {"kind": "x"}, "device": {"uuid": 1}}]}, id="no-text"),
]


@pytest.mark.parametrize("body", OTHERS)
def test_another_answer_is_no_traceback(whosegpu: Command, body: object) -> None:
    """An answer that is JSON, but no explanations, is told as such."""
    with server(says(200, json.dumps(body).encode())) as url:
        result = whosegpu("explain", "--url", url, "up")
    assert (result.status, result.out) == (1, "")
    assert result.err == f"whosegpu: {url} answers something else; is it a whosegpu proxy of this version?\n"
