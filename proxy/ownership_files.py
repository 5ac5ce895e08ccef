"""`ownership.files`: static ownership documents, read when they change.

One task looks at every file once a second and gives a changed one to the fleet. A file that cannot be read or parsed
leaves what is held of it in force: owners go on to be known, up to `max_age` after the last good document, and the log
says what is wrong once for each new content.
"""

import asyncio
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from ownership import (
    DOCUMENT_BYTES,
    Changes,
    DocumentError,
    Fleet,
    NodeDocument,
    OwnershipError,
    parse_document,
)

LOOK_SECONDS: Final = 1.0
"""A file system's time stamps are no finer on some volumes, and a person who edits a file waits no longer."""

_log: Final = structlog.get_logger()
_Stamp = tuple[int, int, int]


class OwnershipFiles:
    """Feeds `fleet` from files; `changed` is called after each document, in the event loop."""

    def __init__(self, paths: Iterable[Path], fleet: Fleet, changed: Callable[[Changes], None]) -> None:
        self._paths = tuple(paths)
        self._fleet = fleet
        self._changed = changed
        self._stamps: dict[Path, _Stamp | None] = {}
        self._nodes: dict[Path, str] = {}

    async def watch(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.read_changed()

    async def read_changed(self) -> None:
        """Read each file that changed since it was last read."""
        for path in self._paths:
            stamp, document = await asyncio.to_thread(_read, path, self._stamps.get(path))
            if path not in self._paths:  # followed no more since it was read
                continue
            self._stamps[path] = stamp
            if document is not None:
                self._take(path, document)

    def follow(self, paths: Iterable[Path]) -> None:
        """Read these files from now on, all of them anew; what a file told that is no longer named is forgotten."""
        self._paths = tuple(paths)
        self._stamps.clear()
        for path in [known for known in self._nodes if known not in self._paths]:
            node = self._nodes.pop(path)
            if node not in self._nodes.values():
                self._changed(self._fleet.remove(node))

    def _take(self, path: Path, document: NodeDocument) -> None:
        before = self._nodes.get(path)
        if before not in (None, document.node):
            self._changed(self._fleet.remove(str(before)))
        if any(node == document.node for other, node in self._nodes.items() if other != path):
            mend = "name one of them in ownership.files; until then the one that changes last counts"
            _log.warning("two ownership files tell of one node", node=document.node, path=str(path), mend=mend)
        self._nodes[path] = document.node
        try:
            self._changed(self._fleet.replace(document, static=True))
        except OwnershipError as error:
            _log.error("ownership file refused", path=str(path), error=str(error))


def _read(path: Path, known: _Stamp | None) -> tuple[_Stamp | None, NodeDocument | None]:
    """The file's stamp now, and its document if it is another one than `known` and good."""
    stamp: _Stamp | None = None
    try:
        state = path.stat()
        stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
        if stamp == known:
            return stamp, None
        if not stat.S_ISREG(state.st_mode):  # a pipe without a writer would hold the reader for ever
            _log.error("ownership file refused", path=str(path), error="it is no regular file")
            return stamp, None
        if state.st_size > DOCUMENT_BYTES:
            _log.error(
                "ownership file refused", path=str(path), error=f"{state.st_size} bytes, the limit is {DOCUMENT_BYTES}"
            )
            return stamp, None
        return stamp, parse_document(path.read_bytes())
    except OSError as error:
        if known is not None:
            _log.error("ownership file not readable", path=str(path), error=error.strerror)
        return None, None
    except DocumentError as error:
        _log.error("ownership file refused", path=str(path), error=str(error))
        return stamp, None
