"""The cursor of a log, in a file of its own. That it cannot be read or written costs no record, so it is only said."""

from pathlib import Path
from typing import Final

import structlog

from proxy.core import cursor
from proxy.core.cursor import LINE_BYTES, Position
from proxy.disk import durable

_log: Final = structlog.get_logger()


class CursorFile:
    """The cursor in the file `path`, which is made when it is written first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed = False

    def read(self) -> Position | None:
        """What was written last; None where nothing was, or nothing that can be read."""
        try:
            with self._path.open("rb") as file:
                position = cursor.decode(file.read(LINE_BYTES + 1))
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("cursor not usable", path=str(self._path), why=str(error))
            return None
        if position is None:
            _log.warning("cursor not usable", path=str(self._path), why="it is damaged")
        return position

    def write(self, position: Position, *, sync: bool = False) -> None:
        """Keep a position: for the next process, and after a crash of the machine if `sync`."""
        try:
            durable.overwrite(self._path, cursor.encode(position), sync=sync)
        except OSError as error:
            if not self._failed:
                _log.error("cursor not written", path=str(self._path), error=str(error))
            self._failed = True
        else:
            self._failed = False
