"""The data folder is one process' own: its quarantine and stores would lose what another one writes."""

import fcntl
import os
from pathlib import Path
from typing import Final, Self

from proxy.core.errors import StorageError

LOCK_NAME: Final = "lock"

_FILE_MODE: Final = 0o600


class InUseError(StorageError):
    """Another process has the data folder."""


class DataDir:
    """A data folder under lock, until `release` or the end of the process, however that comes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Make the folder where it is missing, and lock its file `lock`. Raises InUseError, StorageError."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        except OSError as error:
            raise StorageError(f"the data folder cannot be used: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            mend = "give each proxy a data_dir of its own"
            if isinstance(error, BlockingIOError):
                raise InUseError(f"{folder}: another process uses it; {mend}") from error
            raise StorageError(f"{folder}: it cannot be locked: {error}; {mend}") from error
        return cls(fd)

    def release(self) -> None:
        """Let another process have it. May be called again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
