"""From a configuration file to a listening process, and to its end.

SIGTERM and SIGINT: not ready at once, the requests in flight are finished, then everything is closed. SIGHUP reloads.
"""

import asyncio
import contextlib
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import Final

import structlog
import uvicorn
import uvloop

from config.problems import ConfigError
from proxy.app import create_app
from proxy.core.errors import StorageError
from proxy.ingest import WriteEndpoint
from proxy.logs import LogFormat, set_up
from proxy.service import Proxy

KEEP_ALIVE_SECONDS: Final = 330
"""Above the five minutes that Prometheus keeps a connection; a shorter time closes it under the next POST."""

DRAIN_SECONDS: Final = 25
"""For requests in flight at the end: longer than any of them may take, shorter than Kubernetes' 30 s of grace."""

BACKLOG: Final = 1024

_log: Final = structlog.get_logger()


def run(path: Path, log_format: LogFormat = "auto", *, debug: bool = False) -> int:
    """Serve until told to stop; the exit status. Raises ConfigError before anything listens."""
    set_up(log_format, debug=debug)
    return uvloop.run(_serve(path))


class _Server(uvicorn.Server):
    """uvicorn, which says that it is stopping as soon as it is told to."""

    def __init__(self, config: uvicorn.Config, proxy: Proxy) -> None:
        super().__init__(config)
        self._proxy = proxy

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for SIGINT and SIGTERM."""
        self._proxy.stopping()
        super().handle_exit(sig, frame)


async def _serve(path: Path) -> int:
    try:
        proxy = await Proxy.start(path)
    except StorageError as error:
        _log.error("cannot start", error=str(error))
        return 1
    try:
        address = proxy.settings.proxy.listen
        try:
            listener = _listen(address.host, address.port)
        except OSError as error:
            _log.error("cannot listen", address=str(address), error=error.strerror or str(error))
            return 1
        config = uvicorn.Config(
            create_app(proxy, WriteEndpoint(proxy)),
            http="httptools",
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
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(_reload(proxy))))
        _log.info("listening", address=_shown(listener), tenants=len(proxy.settings.tenants))
        await _Server(config, proxy).serve(sockets=[listener])
        return 0
    finally:
        await proxy.stop()
        _log.info("stopped")


async def _reload(proxy: Proxy) -> None:
    with contextlib.suppress(ConfigError):
        await proxy.reload()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
