import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.core.cursor import Position
from proxy.core.frames import RecordError, frame
from proxy.disk import durable
from proxy.disk.segments import Rest, SegmentLog


def _open(folder: Path, cursor: Position | None = None) -> tuple[SegmentLog, list[tuple[int, bytes]]]:
    taken: list[tuple[int, bytes]] = []
    return SegmentLog(folder, ".q", lambda seq, payload: taken.append((seq, payload)), cursor), taken


def _written(folder: Path, *segments: tuple[bytes, ...]) -> None:
    log, _ = _open(folder)
    for payloads in segments:
        for payload in payloads:
            log.append(frame(payload))
        log.roll()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_records_come_back_in_order(tmp_path: Path) -> None:
    """Opening yields every record with its segment, oldest first, and writes to a segment of its own."""
    _written(tmp_path, (b"a", b"b"), (b"c",))
    log, taken = _open(tmp_path)
    assert taken == [(1, b"a"), (1, b"b"), (2, b"c")]
    assert log.append(frame(b"d")) == 3
    assert log.read(3) == (b"d",)
    assert dict(log.sizes) == {1: 2 * len(frame(b"a")), 2: len(frame(b"c")), 3: len(frame(b"d"))}
    log.roll()


def test_dropping_the_current_segment(tmp_path: Path) -> None:
    """A dropped segment is gone from the disk, and its number is not used again while others are there."""
    log, _ = _open(tmp_path)
    log.append(frame(b"a"))
    log.drop(1)
    assert (_names(tmp_path), log.current) == ([], None)
    assert log.append(frame(b"b")) == 2
    log.roll()


def _cut(data: bytes) -> bytes:
    return data[:-3]


def _zeros(data: bytes) -> bytes:
    return data + bytes(100)


def _flip_first(data: bytes) -> bytes:
    return bytes([data[0] ^ 4]) + data[1:]


def _flip_payload(data: bytes) -> bytes:
    return data[:20] + bytes([data[20] ^ 4]) + data[21:]


@pytest.mark.parametrize(
    ("damage", "kept", "torn"),
    [
        (_cut, [b"first"], len(frame(b"second")) - 3),
        (_zeros, [b"first", b"second"], 100),
        (_flip_first, [b"second"], len(frame(b"first"))),
        (_flip_payload, [b"second"], len(frame(b"first"))),
        (lambda _: b"", [], 0),
        (lambda _: b"nothing of ours", [], 15),
        (lambda data: b"junk" + data, [b"first", b"second"], 4),
    ],
    ids=["torn", "zeros", "first byte", "payload", "emptied", "foreign", "junk before"],
)
def test_damage(tmp_path: Path, damage: Callable[[bytes], bytes], kept: list[bytes], torn: int) -> None:
    """Every whole record survives, what is damaged is moved aside and counted, and the next start finds no damage."""
    _written(tmp_path, (b"first", b"second"), (b"third",))
    path = tmp_path / f"{1:020d}.q"
    path.write_bytes(damage(path.read_bytes()))
    log, taken = _open(tmp_path)
    assert [payload for _, payload in taken] == [*kept, b"third"]
    assert log.torn_bytes == torn
    aside = tmp_path / f"{1:020d}.torn"
    assert (aside.stat().st_size if torn else aside.exists()) == torn
    again, taken_again = _open(tmp_path)
    assert (taken_again, again.torn_bytes) == (taken, 0)


def test_unreadable_record_is_moved_aside(tmp_path: Path) -> None:
    """A whole frame that this version cannot read is kept aside byte for byte, and the others are taken."""
    _written(tmp_path, (b"later version", b"ours"))

    def take(_seq: int, payload: bytes) -> None:
        if payload != b"ours":
            raise RecordError("not ours")

    log = SegmentLog(tmp_path, ".q", take)
    assert log.read(1) == (b"ours",)
    assert (tmp_path / f"{1:020d}.torn").read_bytes() == frame(b"later version")


def test_a_crash_between_create_and_append_leaves_nothing(tmp_path: Path) -> None:
    """An empty segment and the temporary file of an interrupted replace are cleared away at the next start."""
    (tmp_path / f"{7:020d}.q").touch()
    (tmp_path / f".{7:020d}.q.abcd").touch()
    log, taken = _open(tmp_path)
    assert (taken, dict(log.sizes), _names(tmp_path)) == ([], {}, [])


def test_numbers_go_on_behind_what_was_moved_aside(tmp_path: Path) -> None:
    """A new segment never takes the number of one whose damage is still kept, so that none overwrites another's."""
    _written(tmp_path, (b"a",))
    (tmp_path / f"{1:020d}.q").write_bytes(b"nothing of ours")
    log, _ = _open(tmp_path)
    assert log.append(frame(b"b")) == 2
    log.roll()


def test_asides_are_bounded(tmp_path: Path) -> None:
    """Of what was moved aside the newest eight files are kept."""
    for seq in range(1, 13):
        (tmp_path / f"{seq:020d}.q").write_bytes(b"nothing of ours")
    _open(tmp_path)
    assert _names(tmp_path) == [f"{seq:020d}.torn" for seq in range(5, 13)]


def test_a_folder_in_place_of_a_segment(tmp_path: Path) -> None:
    """What cannot be read is an error that names it, not a silent gap."""
    (tmp_path / f"{1:020d}.q").mkdir()
    with pytest.raises(IsADirectoryError, match=r"00001\.q"):
        _open(tmp_path)


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """Files that are not named like ours are neither read nor touched."""
    (tmp_path / "notes.q").write_bytes(b"x")
    _, taken = _open(tmp_path)
    assert (taken, _names(tmp_path)) == ([], ["notes.q"])


A, B, C = frame(b"a"), frame(b"bb"), frame(b"ccc")


@pytest.mark.parametrize(
    ("position", "begin", "taken"),
    [
        (None, 0, [(1, b"a"), (1, b"bb"), (2, b"ccc")]),
        (Position(1, 0), 0, [(1, b"a"), (1, b"bb"), (2, b"ccc")]),
        (Position(1, len(A)), len(A), [(1, b"bb"), (2, b"ccc")]),
        (Position(1, len(A + B)), 0, [(2, b"ccc")]),
        (Position(2, 0), 0, [(2, b"ccc")]),
        (Position(2, len(C)), 0, []),
        (Position(1, len(A) - 1), 0, [(1, b"a"), (1, b"bb"), (2, b"ccc")]),
        (Position(1, len(A + B) + 1), 0, [(1, b"a"), (1, b"bb"), (2, b"ccc")]),
        (Position(7, 3), 0, [(1, b"a"), (1, b"bb"), (2, b"ccc")]),
    ],
)
def test_begins_at_the_cursor(
    tmp_path: Path, position: Position | None, begin: int, taken: list[tuple[int, bytes]]
) -> None:
    """What is done is not taken, and its segments go; where the cursor cannot be right all is taken."""
    _written(tmp_path, (b"a", b"bb"), (b"ccc",))
    log, found = _open(tmp_path, position)
    assert (found, log.begin) == (taken, begin)
    assert [*log.sizes] == sorted({seq for seq, _ in taken})
    assert log.append(frame(b"d")) == (8 if position == Position(7, 3) else 3)
    log.roll()


def test_damage_behind_the_cursor(tmp_path: Path) -> None:
    """When what follows the cursor is put right, what is before it stays where it is, and the cursor stays true."""
    _written(tmp_path, (b"a", b"bb", b"ccc"))
    path = tmp_path / f"{1:020d}.q"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    data[len(A) + 5] ^= 1
    path.write_bytes(data)
    for torn_bytes in (len(B), 0):
        log, found = _open(tmp_path, Position(1, len(A)))
        assert (found, log.begin, log.torn_bytes) == ([(1, b"ccc")], len(A), torn_bytes)
    assert path.read_bytes() == bytes(data[: len(A)]) + C


def test_reading_on(tmp_path: Path) -> None:
    """What follows an offset is read with the offsets behind each record, damage apart, and no further than written."""
    log, _ = _open(tmp_path)
    log.append(A + b"junk" + B)
    assert log.read_from(1, 0) == Rest(((len(A), b"a"), (len(A + B) + 4, b"bb")), b"junk")
    assert log.read_from(1, len(A) + 4) == Rest(((len(A + B) + 4, b"bb"),), b"")
    with (tmp_path / f"{1:020d}.q").open("ab") as file:
        file.write(C)
    assert log.read_from(1, len(A + B) + 4) == Rest((), b"")
    (tmp_path / f"{1:020d}.q").unlink()
    assert log.read_from(1, 0) == Rest((), b"")
    log.roll()


def test_cutting(tmp_path: Path) -> None:
    """What is behind the cut is gone, and what comes goes to the next segment."""
    log, _ = _open(tmp_path)
    log.append(A + B)
    log.cut(1, len(A))
    assert (log.read(1), log.sizes[1], log.append(C)) == ((b"a",), len(A), 2)
    log.roll()


def test_leaving(tmp_path: Path) -> None:
    """A segment that is left is not of the log any more, and is there for the next process."""
    log, _ = _open(tmp_path)
    log.append(A)
    log.leave(1)
    assert (dict(log.sizes), log.current) == ({}, None)
    assert _open(tmp_path)[1] == [(1, b"a")]


def _truncate(path: Path) -> None:
    os.truncate(path, 3)


def _overwrite(path: Path) -> None:
    path.write_bytes(B * 9)


@pytest.mark.parametrize("harm", [Path.unlink, _truncate, _overwrite])
def test_others_write_to_the_current_segment(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    """Where somebody else removed the current segment, or changed its length, what follows goes to a new one."""
    log, _ = _open(tmp_path)
    log.append(A)
    harm(tmp_path / f"{1:020d}.q")
    assert log.append(B) == 2
    assert log.read(2) == (b"bb",)
    log.roll()


def test_the_folder_is_made_again(tmp_path: Path) -> None:
    """Where somebody removed the folder it is there again with the next segment."""
    log, _ = _open(tmp_path / "log")
    (tmp_path / "log").rmdir()
    log.append(A)
    assert log.read(1) == (b"a",)
    log.roll()


def test_damage_is_set_aside_once(tmp_path: Path) -> None:
    """What is moved aside comes behind what is there of the same segment, but not where it is there already."""
    log, _ = _open(tmp_path)
    aside = tmp_path / f"{1:020d}.torn"
    for damaged, there in ((b"one", b"one"), (b"one", b"one"), (b"two", b"onetwo")):
        log.set_aside(1, damaged)
        assert aside.read_bytes() == there
    assert log.torn_bytes == 9


def test_records_are_read_where_they_lie(tmp_path: Path) -> None:
    """A scan tells where the records of a segment lie, and each is read from there by itself, in any order."""
    log, _ = _open(tmp_path)
    log.append(frame(b"a") + frame(b"\xfe\x01") + frame(b""))
    found = log.scan(1)
    spans = [(begin, end) for (begin, _), end in zip(found.records, found.ends, strict=True)]
    assert [payload for _, payload in found.records] == [b"a", b"\xfe\x01", b""]
    assert log.read_at(1, spans[::-1]) == [b"", b"\xfe\x01", b"a"]
    assert log.read_at(1, [(0, 3), spans[2]]) == [b""]
    log.roll()


def test_rewriting(tmp_path: Path) -> None:
    """A rewritten segment holds what it was given, also for the next process, and nothing is appended to it."""
    log, _ = _open(tmp_path)
    log.append(A + B)
    log.rewrite(1, B)
    assert (log.read(1), log.sizes[1], log.current) == ((b"bb",), len(B), None)
    assert log.append(C) == 2
    log.roll()
    assert _open(tmp_path)[1] == [(1, b"bb"), (2, b"ccc")]


def test_rewriting_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder cannot be synced the new bytes stand all the same; where they cannot be written the old do."""

    def fail(_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    log, _ = _open(tmp_path)
    log.append(A + B)
    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync_folder", fail)
        log.rewrite(1, B)
    assert (log.read(1), log.sizes[1]) == ((b"bb",), len(B))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        log.rewrite(1, b"")
    assert (log.read(1), log.sizes[1]) == ((b"bb",), len(B))
