"""The routes other than the write path: who may ask what, and how a refusal looks."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive

from proxy.app import create_app
from proxy.ingest import WriteEndpoint
from tests.e2e import fleet
from tests.peers.push import HEADERS, encode
from tests.proxy.client import Answer
from tests.proxy.core.messages import NOW_MS
from tests.proxy.running import PUSH, Running, config_of, running

TOKENS = {"admin": "adm1n", "plain": "pl4in"}
GUARDED = [
    ("GET", "/", 200),
    ("GET", "/api/v1/owners", 200),
    ("POST", "/api/v1/explain", 200),
    ("POST", "/-/reload", 200),
    ("GET", "/-/config", 200),
]
OPEN = [("GET", "/metrics", 200), ("GET", "/-/healthy", 200), ("GET", "/-/ready", 200)]
QUESTION = json.dumps({"series": 'util{UUID="GPU-1"}'}).encode()
GOOD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)])])


@contextlib.asynccontextmanager
async def scene(folder: Path, node: str = "node-a") -> AsyncIterator[Running]:
    """A proxy with two senders, one of them an admin, and a card with an owner."""
    for name, token in TOKENS.items():
        (folder / name).write_text(token)
    senders = [{"name": name, "bearer_token_file": str(folder / name), "admin": name == "admin"} for name in TOKENS]
    held = fleet.interval(fleet.now_ms() - 1000, None, fleet.owner("team-a", "a-0", "Job", "a"))
    file = fleet.write(folder / "node.json", node, [fleet.device(fleet.BARE[0], held)])
    tenants = [{"id": "team-a", "namespaces": ["team-a"], "endpoint": {"embedded": True}}]
    config = config_of(folder, tenants, proxy={"senders": senders}, ownership={"files": [str(file)]})
    async with running(folder, config) as proxy:
        yield proxy


async def asked_from(  # noqa: PLR0913, PLR0917 - what a request is
    proxy: Running, host: str | None, method: str, path: str, token: str = "", receive: Receive | None = None
) -> Answer:
    """The answer of the application to a peer with that address, as its server would ask it."""
    headers = {"host": "test", "content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    if path == PUSH:
        headers |= {name.lower(): value for name, value in HEADERS.items()}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": None if host is None else (host, 40_000),
        "server": ("10.0.0.1", 9009),
    }
    body = GOOD if path == PUSH else QUESTION if method == "POST" else b""
    said: list[Any] = []

    async def all_at_once() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    await create_app(proxy.proxy, WriteEndpoint(proxy.proxy))(scope, receive or all_at_once, send)
    found = {name.decode().lower(): value.decode() for name, value in said[0]["headers"]}
    return Answer(said[0]["status"], found, b"".join(message.get("body", b"") for message in said[1:]))


PEERS: Mapping[str, tuple[str | None, str, int]] = {
    "loopback": ("127.0.0.1", "", 200),
    "loopback, another one": ("127.8.9.10", "", 200),
    "loopback, IPv6": ("::1", "", 200),
    "loopback, IPv4 in IPv6": ("::ffff:127.0.0.1", "", 200),
    "loopback, wrong token": ("127.0.0.1", "wrong", 200),
    "stranger": ("10.1.2.3", "", 401),
    "stranger, IPv4 in IPv6": ("::ffff:10.1.2.3", "", 401),
    "stranger on the link": ("fe80::1%eth0", "", 401),
    "stranger, wrong token": ("10.1.2.3", "wrong", 401),
    "no address": (None, "", 401),
    "no address at all": ("unix", "", 401),
    "sender": ("10.1.2.3", TOKENS["plain"], 403),
    "admin": ("10.1.2.3", TOKENS["admin"], 200),
    "admin, IPv6": ("2001:db8::1", TOKENS["admin"], 200),
}


@pytest.mark.parametrize(("host", "token", "status"), PEERS.values(), ids=PEERS.keys())
async def test_owners_tenants_and_settings_are_for_admins(
    tmp_path: Path, host: str | None, token: str, status: int
) -> None:
    """Whatever names owners, tenants or settings answers loopback peers and admins; the rest answers everybody."""
    async with scene(tmp_path) as proxy:
        for method, path, good in GUARDED:
            answer = await asked_from(proxy, host, method, path, token)
            assert answer.status == (good if status == 200 else status), path
            if status != 200:
                check_problem(answer)
            assert ("www-authenticate" in answer.headers) == (answer.status == 401)
        for method, path, good in OPEN:
            assert (await asked_from(proxy, host, method, path, token)).status == good


async def test_the_write_path_asks_loopback_peers_too(tmp_path: Path) -> None:
    """Where senders are listed everybody says who it is to write, admin or not, wherever it is."""
    async with scene(tmp_path) as proxy:
        for host in ("127.0.0.1", "10.1.2.3"):
            for token, status in (("", 401), ("wrong", 401), (TOKENS["plain"], 204), (TOKENS["admin"], 204)):
                assert (await asked_from(proxy, host, "POST", PUSH, token)).status == status
        found = await proxy.balanced()
        assert found.by("samples_received_total", "sender") == {"plain": 2, "admin": 2}
        assert found.by("requests_rejected_total", "reason") == {"unauthenticated": 4}


REFUSED: Mapping[str, tuple[str, str, bytes | None, int]] = {
    "no such path": ("GET", "/nothing", None, 404),
    "a path below the write path": ("POST", f"{PUSH}/", b"", 404),
    "another method": ("GET", "/-/reload", None, 405),
    "a write to metrics": ("POST", "/metrics", b"", 405),
    "no time": ("GET", "/api/v1/owners?at=soon", None, 400),
    "a time beyond all": ("GET", "/api/v1/owners?at=99999999999999999999999999", None, 400),
    "a long time": ("GET", "/?at=" + "9" * 5000, None, 400),
    "no JSON": ("POST", "/api/v1/explain", b"{", 400),
    "no body": ("POST", "/api/v1/explain", b"", 400),
    "another shape": ("POST", "/api/v1/explain", b"[]", 400),
    "a number": ("POST", "/api/v1/explain", b'{"series": 5}', 400),
    "no series": ("POST", "/api/v1/explain", b'{"at": 5}', 400),
    "too long a series": ("POST", "/api/v1/explain", json.dumps({"series": "x" * 100_001}).encode(), 400),
    "no series in text form": ("POST", "/api/v1/explain", b'{"series": "util{"}', 400),
    "half a character": ("POST", "/api/v1/explain", b'{"series": "util{a=\\"\\ud800\\"}"}', 400),
    "half a character, broken": ("POST", "/api/v1/explain", b'{"series": "\\udfff{"}', 400),
    "half a character as time": ("POST", "/api/v1/explain", b'{"series": "util", "at": "\\ud800"}', 400),
    "no UTF-8": ("POST", "/api/v1/explain", b'{"series": "\xff"}', 400),
    "deep JSON": ("POST", "/api/v1/explain", b"[" * 100_000, 400),
    "a label twice": ("POST", "/api/v1/explain", b'{"series": "util{a=\\"1\\",a=\\"2\\"}"}', 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_is_a_problem_document(
    tmp_path: Path, method: str, path: str, body: bytes | None, status: int
) -> None:
    """Bad questions get a 4xx as problem+json (RFC 9457) with one sentence, and never more than they brought."""
    async with scene(tmp_path) as proxy:
        answer = await proxy.ask(method, path, {"Content-Type": "application/json"}, body)
        assert answer.status == status, answer.text
        check_problem(answer)


def check_problem(answer: Answer) -> None:
    """A problem document, whose detail is one short line."""
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert set(found) == {"type", "title", "status", "detail"}
    assert (found["type"], found["status"]) == ("about:blank", answer.status)
    assert 0 < len(found["detail"]) < 1000
    assert "\n" not in found["detail"]


async def test_the_probes_say_when_it_stops(tmp_path: Path) -> None:
    """Ready says no as soon as it is told to stop, healthy goes on saying yes."""
    async with scene(tmp_path) as proxy:
        assert (await proxy.ask("GET", "/-/ready")).text == "ready\n"
        proxy.proxy.stopping()
        answer = await proxy.ask("GET", "/-/ready")
        assert (answer.status, answer.json()["detail"]) == (503, "stopping")
        check_problem(answer)
        assert (await proxy.ask("GET", "/-/healthy")).status == 200


async def test_owners_are_told_as_json(tmp_path: Path) -> None:
    """The card, its owner and tenant are in the answer; each parameter narrows it; a time before all says unknown."""
    async with scene(tmp_path) as proxy:
        (found,) = (await proxy.ask("GET", "/api/v1/owners")).json()["owners"]
        shown = {name: found[name] for name in ("uuid", "node", "tenant", "namespace", "pod", "state")}
        assert shown == {
            "uuid": fleet.BARE[0],
            "node": "node-a",
            "tenant": "team-a",
            "namespace": "team-a",
            "pod": "a-0",
            "state": "owned",
        }
        for query, count in (
            (f"uuid={fleet.BARE[0]}&node=node-a&tenant=team-a", 1),
            ("uuid=GPU-other", 0),
            ("node=node-b", 0),
            ("tenant=team-b", 0),
            ("gpu_instance_id=3", 0),
        ):
            answer = await proxy.ask("GET", f"/api/v1/owners?{query}")
            assert len(answer.json()["owners"]) == count, query
        (before,) = (await proxy.ask("GET", "/api/v1/owners?at=2020-01-01T00:00:00Z")).json()["owners"]
        assert before["state"] == "unknown"


async def test_explain_answers_each_line(tmp_path: Path) -> None:
    """Several lines get an explanation each, at a time in RFC 3339 or in milliseconds."""
    text = f'util{{UUID="{fleet.BARE[0]}",pod="x"}}\nup{{job="a"}}'
    async with scene(tmp_path) as proxy:
        for at in (fleet.now_ms(), str(fleet.now_ms()), None):
            body = json.dumps({"series": text, "at": at}).encode()
            answer = await proxy.ask("POST", "/api/v1/explain", {"Content-Type": "application/json"}, body)
            assert answer.status == 200, answer.text
            assert len(answer.json()["explanations"]) == 2


async def test_the_page_is_text_whatever_it_shows(tmp_path: Path) -> None:
    """Names from documents and from the address are escaped: nothing of them becomes markup."""
    evil = "<script>alert(1)</script>\"'&"
    async with scene(tmp_path, node=evil) as proxy:
        page = await proxy.ask("GET", "/?node=%3Cscript%3E")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        page = await proxy.ask("GET", "/")
        assert "<script" not in page.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
        assert fleet.BARE[0] in page.text


async def test_secrets_are_not_in_the_configuration_shown(tmp_path: Path) -> None:
    """What /-/config shows names files and never what is in them."""
    async with scene(tmp_path) as proxy:
        shown = (await proxy.ask("GET", "/-/config")).text
        assert str(tmp_path / "admin") in shown
        assert not [token for token in TOKENS.values() if token in shown]


async def test_a_question_is_read_to_a_bound(tmp_path: Path) -> None:
    """A body without end is refused while it comes, whoever sends it: it is read before it is known who asks."""
    pieces = 0

    async def receive() -> dict[str, Any]:
        nonlocal pieces
        pieces += 1
        assert pieces < 100, "it is read without end"
        return {"type": "http.request", "body": b" " * (1 << 16), "more_body": True}

    async with scene(tmp_path) as proxy:
        answer = await asked_from(proxy, "10.1.2.3", "POST", "/api/v1/explain", receive=receive)
    assert (answer.status, answer.headers["content-type"]) == (413, "application/problem+json")
