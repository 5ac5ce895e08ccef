"""From a configuration file to a listening process, and to its end.

SIGTERM and SIGINT: not ready at once, a moment later no new connections, the requests in flight are finished, what
lanes have in hand is delivered or queued, then everything is closed. A second one waits for nobody: what was
acknowledged is on the disk. SIGHUP reloads.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog
import uvicorn
import uvloop

from config.problems import ConfigError
from proxy.app import create_app
from proxy.core.errors import StorageError
from proxy.ingest import WriteEndpoint
from proxy.logs import LogFormat, set_up
from proxy.protocol import HttpProtocol
from proxy.service import STOPPING, Proxy

KEEP_ALIVE_SECONDS: Final = 330
"""Above the five minutes that Prometheus keeps a connection; a shorter time closes it under the next POST."""

DRAIN_SECONDS: Final = 25
"""For requests in flight at the end: longer than any of them may take. With what comes after (orders, lanes, queues)
some forty seconds go by at most: the 60 s of grace in `deploy/` are enough, Kubernetes' own 30 s may not be."""

RESOLVERS: Final = "512"
"""Threads of libuv, 4 unless told otherwise. Half of them may look names up, and a name server that hangs holds one for
each try, with all its search domains for a minute: so many that dozens of such tenants stop no other."""

LEAVE_SECONDS: Final = 0.5
"""How long it is still served after it has said that it is not ready: what comes on its way is not turned away."""

BACKLOG: Final = 1024

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Objects before a young collection, and how many of those make an older one: one in a few requests."""

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_MALLOPT: Final = ((_M_MMAP_THRESHOLD, 64 << 20), (_M_TRIM_THRESHOLD, 256 << 20), (_M_TOP_PAD, 16 << 20))

_log: Final = structlog.get_logger()


def run(path: Path, log_format: LogFormat = "auto", *, debug: bool = False) -> int:
    """Serve until told to stop; the exit status. Raises ConfigError before anything listens."""
    set_up(log_format, debug=debug)
    _keep_memory()
    _have_files()
    os.environ.setdefault("UV_THREADPOOL_SIZE", RESOLVERS)
    return uvloop.run(_serve(path))


def _keep_memory() -> None:
    """Let the allocators suit a process that makes megabytes of short-lived bytes for each request.

    glibc would give the pages of each request back and take them anew (7 % of all CPU time); and what the cache holds
    lives long, so that looking through it for garbage every 700 new objects is in vain.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option, value in _MALLOPT:
            libc.mallopt(option, value)
    gc.set_threshold(*GC_THRESHOLDS)


def _have_files() -> None:
    """Take as many open files as are allowed: each sender, tenant and store has some, and 1024 is a usual default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Server(uvicorn.Server):
    """uvicorn without its way with signals: it ends the process by the same signal before anything else is closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def make_server(proxy: Proxy) -> Server:
    """The HTTP server of a proxy; it serves the sockets it is given until `should_exit` is set."""
    return Server(
        uvicorn.Config(
            create_app(proxy, WriteEndpoint(proxy)),
            http=HttpProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            backlog=BACKLOG,
        )
    )


async def _serve(path: Path) -> int:
    try:
        proxy = await Proxy.start(path)
    except StorageError as error:
        _log.error("cannot start", error=str(error))
        return 1
    try:
        address = proxy.settings.proxy.listen
        try:
            listener = listen(address.host, address.port)
        except OSError as error:
            _log.error("cannot listen", address=str(address), error=error.strerror or str(error))
            return 1
        server = make_server(proxy)
        signals = _Signals(proxy, server)
        _log.info("listening", address=_shown(listener), tenants=len(proxy.settings.tenants))
        await server.serve(sockets=[listener])
        await signals.settled()
    finally:
        await proxy.stop()
        _log.info("stopped")
    # Not by returning: libuv waits for its threads, and a name server that hangs would hold the process for minutes.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Signals:
    """What the process does when it is told something: to stop, to stop at once (the second time), to reload."""

    def __init__(self, proxy: Proxy, server: Server) -> None:
        self._proxy = proxy
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._reloads: set[asyncio.Task[None]] = set()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)

    async def settled(self) -> None:
        """Return when no reload is under way."""
        await asyncio.gather(*self._reloads)

    def _stop(self) -> None:
        if self._proxy.not_ready == STOPPING:
            self._server.force_exit = True
            self._proxy.hurry()
            self._leave()
        else:
            self._proxy.stopping()
            self._loop.call_later(LEAVE_SECONDS, self._leave)

    def _leave(self) -> None:
        self._server.should_exit = True

    def _reload(self) -> None:
        task = self._loop.create_task(self._take_anew())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _take_anew(self) -> None:
        with contextlib.suppress(ConfigError):  # it is in the log
            await self._proxy.reload()


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
