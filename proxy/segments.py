"""An append-only log in segment files: `<number of 20 digits><suffix>` in a folder of its own, frames of `core.record`.

One thread at a time uses a log; whoever shares one serialises (`quarantine.py`: one writer thread). Only the newest
segment is written, and only by the process that began it: after a start a new one is begun, so that nothing is ever
appended behind damage. What is not whole when the log is opened is moved aside to `<number>.torn` for a person to
look at, and the segment keeps its whole records. All methods raise OSError; after one nothing of that call is kept.
"""

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog

from proxy import durable
from proxy.core.record import RecordError, Scan, frame, scan

_log: Final = structlog.get_logger()

_ASIDE_SUFFIX: Final = ".torn"
_ASIDE_FILES: Final = 8  # a crash makes one at most; older ones go, so that a crash loop cannot fill the disk
_FOLDER_MODE: Final = 0o700

Take = Callable[[int, bytes], None]
"""Gets each whole record at opening, with its segment's number; raises RecordError where it cannot read the record."""


class SegmentLog:
    """The log of one folder, which is made where it is missing.

    `take` is called with every record that is there, oldest first. `torn_bytes` counts what was moved aside.
    """

    def __init__(self, folder: Path, suffix: str, take: Take) -> None:
        self.torn_bytes = 0
        self._folder = folder
        self._suffix = suffix
        self._sizes: dict[int, int] = {}
        self._fd: int | None = None
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._clear_temporaries()
        for seq in self._numbers(suffix):
            self._recover(seq, take)
        self._forget_asides()
        self._next = 1 + max((*self._numbers(suffix), *self._numbers(_ASIDE_SUFFIX)), default=0)

    @property
    def sizes(self) -> Mapping[int, int]:
        """The segments, oldest first, and the bytes of each."""
        return MappingProxyType(self._sizes)

    @property
    def current(self) -> int | None:
        """The segment that the next append goes to; None where it begins one."""
        return None if self._fd is None else self._next - 1

    def append(self, frames: bytes) -> int:
        """The number of the segment in which the frames are now durable."""
        fd = self._begin() if self._fd is None else self._fd
        seq = self._next - 1
        try:
            durable.append(fd, frames)
        except OSError:
            self._abandon(seq)
            raise
        self._sizes[seq] += len(frames)
        return seq

    def roll(self) -> None:
        """End the current segment; the next append begins one."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def drop(self, seq: int) -> None:
        """Forget a segment with all its records."""
        if seq == self.current:
            self.roll()
        durable.remove(self._path(seq))
        del self._sizes[seq]

    def read(self, seq: int) -> tuple[bytes, ...]:
        """The records of a segment, in the order in which they were appended."""
        return tuple(payload for _, payload in scan(self._path(seq).read_bytes()).records)

    def _path(self, seq: int, suffix: str | None = None) -> Path:
        return self._folder / f"{seq:020d}{suffix or self._suffix}"

    def _numbers(self, suffix: str) -> list[int]:
        name = re.compile(rf"([0-9]{{20}}){re.escape(suffix)}")
        return sorted(int(found[1]) for path in self._folder.iterdir() if (found := name.fullmatch(path.name)))

    def _begin(self) -> int:
        self._next += 1  # first: a number whose file could not be made durable is not tried again
        self._fd = durable.create(self._path(self._next - 1))
        self._sizes[self._next - 1] = 0
        return self._fd

    def _abandon(self, seq: int) -> None:
        """Leave a segment whose last append failed as it was before; never write to it again.

        Where even that fails, the refused records are recovered at the next start: twice there is better than lost.
        """
        self.roll()
        with contextlib.suppress(OSError):
            if self._sizes[seq]:
                durable.cut(self._path(seq), self._sizes[seq])
            else:
                del self._sizes[seq]
                durable.remove(self._path(seq))

    def _recover(self, seq: int, take: Take) -> None:
        path = self._path(seq)
        data = path.read_bytes()
        found = scan(data)
        whole: list[bytes] = []
        unread: list[bytes] = []
        for _, payload in found.records:
            try:
                take(seq, payload)
            except RecordError as error:
                _log.warning("record not readable", path=str(path), error=str(error))
                unread.append(frame(payload))
            else:
                whole.append(frame(payload))
        if unread or found.damage or found.torn_at is not None:
            self._set_aside(seq, _damaged(data, found) + b"".join(unread))
            durable.replace(path, b"".join(whole))
        if whole:
            self._sizes[seq] = path.stat().st_size
        else:
            durable.remove(path)

    def _set_aside(self, seq: int, damaged: bytes) -> None:
        aside = self._path(seq, _ASIDE_SUFFIX)
        durable.replace(aside, damaged)
        self.torn_bytes += len(damaged)
        _log.warning("segment damaged", path=str(self._path(seq)), moved_aside=str(aside), torn_bytes=len(damaged))

    def _forget_asides(self) -> None:
        for seq in self._numbers(_ASIDE_SUFFIX)[:-_ASIDE_FILES]:
            durable.remove(self._path(seq, _ASIDE_SUFFIX))

    def _clear_temporaries(self) -> None:
        """Remove what a crash within `durable.replace` left; no other name begins with a dot here."""
        for path in self._folder.glob(".*"):
            durable.remove(path)


def _damaged(data: bytes, found: Scan) -> bytes:
    spans = [data[begin:end] for begin, end in found.damage]
    if found.torn_at is not None:
        spans.append(data[found.torn_at :])
    return b"".join(spans)
