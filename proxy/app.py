"""The proxy's HTTP routes. The write path is answered before any framework looks at it; all else is FastAPI's.

Who may ask: `/metrics` and the probes answer everybody; everything that names owners, tenants or settings answers
peers on this machine and senders with `admin: true` (interface 4). Errors are problem+json (RFC 9457), except on the
write path.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, Final, Protocol

from fastapi import Body, Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import Message, Receive, Scope, Send

from config.problems import ConfigError
from proxy.core.errors import ProxyError
from proxy.core.owners import OwnersQuery, OwnerView
from proxy.core.senders import CHALLENGE, Senders
from proxy.page import owners_page

WRITE_PATHS: Final = frozenset({"/api/v1/push", "/api/v1/write"})

BODY_BYTES: Final = 1 << 20
"""Of a question at most: ten times the longest that is explained, whatever its escapes."""

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Desk(Protocol):
    """What the routes ask of the proxy behind them."""

    @property
    def senders(self) -> Senders:
        """Who may ask."""
        ...

    @property
    def registry(self) -> CollectorRegistry:
        """The metrics."""
        ...

    @property
    def not_ready(self) -> str:
        """Why it should get no traffic; empty when it should."""
        ...

    def owners(self, query: OwnersQuery) -> list[OwnerView]:
        """Who owns what, at the time of the query."""
        ...

    def explain(self, text: str, at: str | None) -> list[dict[str, Any]]:
        """One explanation for each line of series in text form; raises ProxyError."""
        ...

    def settings_shown(self) -> dict[str, Any]:
        """The configuration in force, secrets hidden."""
        ...

    async def reload(self) -> int:
        """Take the configuration file anew, all of it or nothing; the new generation. Raises ConfigError."""
        ...


class App(FastAPI):
    """FastAPI, but for the write path."""

    def __init__(self, write_endpoint: Application) -> None:
        super().__init__(title="whosegpu proxy", openapi_url=None, docs_url=None, redoc_url=None)
        self._write_endpoint = write_endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["path"] in WRITE_PATHS:
            await self._write_endpoint(scope, receive, send)
        else:
            await super().__call__(scope, _bounded(receive), send)


def _bounded(receive: Receive) -> Receive:
    """A body of BODY_BYTES at most: FastAPI reads it whole before it asks who may send it."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_BYTES:
            raise HTTPException(413, f"the body is longer than {BODY_BYTES} bytes; ask for fewer series at once")
        return message

    return bounded


def create_app(desk: Desk, write_endpoint: Application) -> App:
    """The application over a proxy."""
    app = App(write_endpoint)
    _add_probes(app, desk)
    _add_questions(app, desk)
    _add_errors(app)
    return app


def _add_probes(app: App, desk: Desk) -> None:
    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(desk.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @app.get("/-/healthy")
    async def healthy() -> PlainTextResponse:
        return PlainTextResponse("healthy\n")

    @app.get("/-/ready")
    async def ready() -> PlainTextResponse:
        if desk.not_ready:
            raise HTTPException(503, desk.not_ready)
        return PlainTextResponse("ready\n")


def _add_questions(app: App, desk: Desk) -> None:
    def admin(request: Request) -> None:
        if _is_loopback(request.client.host if request.client else ""):
            return
        if not desk.senders.identify(request.headers.get("authorization")).admin:
            raise HTTPException(403, "this sender is not an admin; set admin: true on it in proxy.senders")

    guarded = [Depends(admin)]

    @app.get("/api/v1/owners", dependencies=guarded)
    async def owners(
        uuid: str | None = None,
        gpu_instance_id: str | None = None,
        at: str | None = None,
        node: str | None = None,
        tenant: str | None = None,
    ) -> JSONResponse:
        found = desk.owners(OwnersQuery(uuid, gpu_instance_id, at, node, tenant))
        return JSONResponse({"owners": [view.to_json() for view in found]})

    @app.post("/api/v1/explain", dependencies=guarded)
    async def explain(
        series: Annotated[str, Body(max_length=100_000)], at: Annotated[str | int | None, Body()] = None
    ) -> JSONResponse:
        return JSONResponse({"explanations": desk.explain(series, None if at is None else str(at))})

    @app.post("/-/reload", dependencies=guarded)
    async def reload() -> JSONResponse:
        return JSONResponse({"generation": await desk.reload()})

    @app.get("/-/config", dependencies=guarded)
    async def config() -> JSONResponse:
        return JSONResponse(desk.settings_shown())

    @app.get("/", dependencies=guarded)
    async def page(at: str | None = None, node: str | None = None, tenant: str | None = None) -> HTMLResponse:
        query = OwnersQuery(at=at, node=node, tenant=tenant)
        return HTMLResponse(owners_page(desk.owners(query), query))


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _add_errors(app: App) -> None:
    async def proxy_error(_request: Request, error: Exception) -> Response:
        if not isinstance(error, ProxyError):
            return _problem(500, "internal")
        asks = {"WWW-Authenticate": CHALLENGE} if error.status == HTTPStatus.UNAUTHORIZED else None
        return _problem(error.status, error.sentence, asks)

    async def http_error(_request: Request, error: Exception) -> Response:
        if not isinstance(error, StarletteHTTPException):
            return _problem(500, "internal")
        return _problem(error.status_code, error.detail, error.headers)

    async def bad_query(_request: Request, error: Exception) -> Response:
        first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
        where = ".".join(str(part) for part in first.get("loc", ()))
        return _problem(400, f"{where}: {first.get('msg', 'cannot be read')}")

    async def bad_config(_request: Request, error: Exception) -> Response:
        problems = error.problems if isinstance(error, ConfigError) else ()
        return _problem(400, "nothing was changed: " + "; ".join(str(problem) for problem in problems))

    app.add_exception_handler(ProxyError, proxy_error)
    app.add_exception_handler(StarletteHTTPException, http_error)
    app.add_exception_handler(RequestValidationError, bad_query)
    app.add_exception_handler(ConfigError, bad_config)


def _problem(status: int, detail: str, headers: Any = None) -> JSONResponse:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, headers=headers, media_type="application/problem+json")
