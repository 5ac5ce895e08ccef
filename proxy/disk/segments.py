"""An append-only log in segment files: `<number of 20 digits><suffix>` in a folder of its own, frames of `core.frames`.

One thread at a time uses a log; whoever shares one serialises (`quarantine.py`: one writer thread, `queue.py`: one job
at a time). Only the newest segment is appended to, and only by the process that began it: after a start a new one is
begun, so that nothing is ever appended behind damage. What is not whole when the log is opened is moved aside to
`<number>.torn` for a person to look at, and the segment keeps its whole records; where the disk has no room for that,
it stays as it is, and whoever reads it passes over the damage. All methods raise OSError; after one nothing of that
call is kept.
"""

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog

from proxy.core.cursor import Position, points_into
from proxy.core.frames import START, RecordError, Scan, scan
from proxy.disk import durable

_log: Final = structlog.get_logger()

_ASIDE_SUFFIX: Final = ".torn"
_ASIDE_FILES: Final = 8  # a crash makes one at most; older ones go, so that a crash loop cannot fill the disk

Take = Callable[[int, bytes], None]
"""Gets each whole record at opening, with its segment's number; raises RecordError where it cannot read the record."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What a segment holds from some offset on: each whole record with the offset behind it, and what is none."""

    records: tuple[tuple[int, bytes], ...]
    damaged: bytes


class SegmentLog:
    """The log of one folder, which is made where it is missing.

    `take` is called with every record that is there and not done, oldest first; `cursor` tells what is done, and does
    not count where it cannot be of this log. `begin` is the offset of the first record of the oldest segment that is
    not done. `torn_bytes` counts what was moved aside.
    """

    def __init__(self, folder: Path, suffix: str, take: Take, cursor: Position | None = None) -> None:
        self.begin = 0
        self.torn_bytes = 0
        self._folder = folder
        self._suffix = suffix
        self._sizes: dict[int, int] = {}
        self._fd: int | None = None
        durable.make_folder(folder)
        self._clear_temporaries()
        self._recover_all(take, cursor)
        self._forget_asides()
        numbers = (*self._numbers(suffix), *self._numbers(_ASIDE_SUFFIX), 0 if cursor is None else cursor.seq)
        self._next = 1 + max(numbers, default=0)  # behind the cursor too: nothing new may ever look done

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
        fd = self._usable()
        if fd is None:
            fd = self._begin()
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

    def cut(self, seq: int, size: int) -> None:
        """Forget the records of a segment that begin at `size` or later; it is not appended to any more."""
        if seq == self.current:
            self.roll()
        durable.cut(self._path(seq), size)
        self._sizes[seq] = size

    def drop(self, seq: int, *, sync: bool = True) -> None:
        """Forget a segment with all its records. After a crash of the machine it may be there again without `sync`."""
        if seq == self.current:
            self.roll()
        self._path(seq).unlink(missing_ok=True)
        del self._sizes[seq]
        if sync:
            with contextlib.suppress(OSError):  # it is gone all the same, for every reader
                durable.sync_folder(self._folder)

    def leave(self, seq: int) -> None:
        """Forget a segment, but for its file, which stays for the next start to find."""
        if seq == self.current:
            self.roll()
        del self._sizes[seq]

    def read(self, seq: int) -> tuple[bytes, ...]:
        """The records of a segment, in the order in which they were appended."""
        return tuple(payload for _, payload in scan(self._path(seq).read_bytes()).records)

    def scan(self, seq: int) -> Scan:
        """What a segment holds, and where."""
        return scan(self._path(seq).read_bytes())

    def read_at(self, seq: int, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The records that lie from the first to before the second offset of each span; damaged ones are left out."""
        records: list[bytes] = []
        with self._path(seq).open("rb") as file:
            for begin, end in spans:
                file.seek(begin)
                records += [payload for _, payload in scan(file.read(end - begin)).records]
        return records

    def rewrite(self, seq: int, frames: bytes) -> None:
        """The segment holds these frames and no others; it is not appended to any more.

        Where only the folder could not be synced, the new bytes stand, and a crash of the machine may bring back the
        old ones.
        """
        if seq == self.current:
            self.roll()
        path = self._path(seq)
        before = path.stat().st_ino
        try:
            durable.replace(path, frames)
        except OSError:
            if path.stat().st_ino == before:
                raise
        self._sizes[seq] = len(frames)

    def read_from(self, seq: int, offset: int) -> Rest:
        """What a segment holds from the offset on, where a record begins; a file that is gone holds nothing."""
        try:
            with self._path(seq).open("rb") as file:
                file.seek(offset)
                data = file.read(self._sizes[seq] - offset)
        except FileNotFoundError:
            return Rest((), b"")
        found = scan(data)
        payloads = (payload for _, payload in found.records)
        ends = (offset + end for end in found.ends)
        return Rest(tuple(zip(ends, payloads, strict=True)), found.damaged(data))

    def set_aside(self, seq: int, damaged: bytes) -> None:
        """Keep bytes of a segment that are no record in a file of their own, for a person to look at."""
        aside = self._path(seq, _ASIDE_SUFFIX)
        there = aside.read_bytes() if aside.exists() else b""
        if not there.endswith(damaged):  # a crash came between this and what follows it
            durable.replace(aside, there + damaged)
        self.torn_bytes += len(damaged)
        _log.warning("segment damaged", path=str(self._path(seq)), moved_aside=str(aside), torn_bytes=len(damaged))
        self._forget_asides()

    def _path(self, seq: int, suffix: str | None = None) -> Path:
        return self._folder / f"{seq:020d}{suffix or self._suffix}"

    def _numbers(self, suffix: str) -> list[int]:
        name = re.compile(rf"([0-9]{{20}}){re.escape(suffix)}")
        return sorted(int(found[1]) for path in self._folder.iterdir() if (found := name.fullmatch(path.name)))

    def _usable(self) -> int | None:
        """The current segment, unless somebody else cut or removed it: what is written behind that may not be found."""
        if self._fd is not None:
            found = os.fstat(self._fd)
            if found.st_size != self._sizes[self._next - 1] or not found.st_nlink:
                self.roll()
        return self._fd

    def _begin(self) -> int:
        durable.make_folder(self._folder)
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

    def _recover_all(self, take: Take, cursor: Position | None) -> None:
        sizes = {seq: self._path(seq).stat().st_size for seq in self._numbers(self._suffix)}
        if cursor is not None and not points_into(cursor, sizes):
            _log.warning("cursor not usable", path=str(self._folder), why="it is not of this log")
            cursor = None
        for seq in sizes:
            if cursor is not None and seq < cursor.seq:
                self._path(seq).unlink(missing_ok=True)
            else:
                self._recover(seq, take, cursor.offset if cursor is not None and seq == cursor.seq else 0)

    def _recover(self, seq: int, take: Take, offset: int) -> None:
        path = self._path(seq)
        data = path.read_bytes()
        if offset < len(data) and not data.startswith(START, offset):
            _log.warning("cursor not usable", path=str(path), why="it is at no record")
            offset = 0
        rest = data[offset:]
        found = scan(rest)
        whole: list[slice] = []
        unread: list[slice] = []
        for (begin, payload), end in zip(found.records, found.ends, strict=True):
            try:
                take(seq, payload)
            except RecordError as error:
                _log.warning("record not readable", path=str(path), error=str(error))
                unread.append(slice(begin, end))
            else:
                whole.append(slice(begin, end))
        damaged = found.damaged(rest) + b"".join([rest[span] for span in unread])
        if damaged:
            right = data[:offset] + b"".join([rest[span] for span in whole])
            if not self._put_right(seq, right, damaged) and not whole:
                return
        if whole:
            self._sizes[seq] = path.stat().st_size
            self.begin = offset or self.begin
        else:
            durable.remove(path)

    def _put_right(self, seq: int, whole: bytes, damaged: bytes) -> bool:
        """Leave a damaged segment with its whole records only; what is done stands before them, so none is moved."""
        try:
            self.set_aside(seq, damaged)
            durable.replace(self._path(seq), whole)
        except OSError as error:
            _log.error("damage stays where it is", path=str(self._path(seq)), error=str(error))
            return False
        return True

    def _forget_asides(self) -> None:
        for seq in self._numbers(_ASIDE_SUFFIX)[:-_ASIDE_FILES]:
            durable.remove(self._path(seq, _ASIDE_SUFFIX))

    def _clear_temporaries(self) -> None:
        """Remove what a crash within `durable.replace` left; no other name begins with a dot here."""
        for path in self._folder.glob(".*"):
            if not path.is_dir():
                durable.remove(path)
