"""A tenant's embedded storage as the upstream of its lane: appends in a thread of its own, so that order is kept."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from proxy.core.outcome import Reply
from store import SampleStore, StoreBodyError, StoreError

_TAKEN: Final = Reply(204)


class EmbeddedUpstream:
    """The file is opened, or made, at the first append. A disk that fails is told as a transport error: try again."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._store: SampleStore | None = None
        self._closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"store-{path.stem}")

    @staticmethod
    def encode(message: bytes) -> bytes:
        """The message itself."""
        return message

    def post(self, body: bytes, attempt: int, on_reply: Callable[[Reply], None]) -> None:  # noqa: ARG002 - as an upstream
        """Append, and tell how it ended in the event loop."""

        def done(future: Future[Reply]) -> None:
            self._loop.call_soon_threadsafe(on_reply, future.result())

        self._writer.submit(self._append, body).add_done_callback(done)

    def close(self) -> None:
        """Finish what was given to the writer, then close the file. May be called again."""
        if not self._closed:
            self._closed = True
            self._writer.submit(self._close)
            self._writer.shutdown(wait=True)

    def _append(self, body: bytes) -> Reply:
        try:
            if self._store is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._store = SampleStore(self._path)
            self._store.append(body)
        except StoreBodyError as error:
            return Reply(400, body=f"{self._path}: {error}".encode())
        except (StoreError, OSError) as error:
            return Reply(0, error="storage", body=f"{self._path}: {error}".encode())
        return _TAKEN

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
