"""Frames of the append-only files: pure functions over bytes.

A frame is `FE 01`, the length and the checksum of what follows as eight hexadecimal digits each, then the payload with
each byte `FE` written as `FE 00`. `FE 01` so stands at the start of a frame and nowhere else, whatever a payload holds:
after damage reading goes on at the next one, and a label value that looks like a frame can never be taken for one.
"""

import zlib
from dataclasses import dataclass
from typing import Final

from proxy.core.errors import ProxyError

START: Final = b"\xfe\x01"
_ESCAPE: Final = b"\xfe"
_ESCAPED: Final = b"\xfe\x00"
_HEADER_BYTES: Final = len(START) + 16
_MAX_PAYLOAD_BYTES: Final = 0xFFFFFFFF  # what eight hexadecimal digits can say


class RecordError(ProxyError):
    """The bytes are no record that this version reads, or the values do not fit into one."""

    reason = "record"


def frame(payload: bytes) -> bytes:
    """The payload as one frame. Raises RecordError above 4 GiB."""
    escaped = payload.replace(_ESCAPE, _ESCAPED)
    if len(escaped) > _MAX_PAYLOAD_BYTES:
        raise RecordError(f"payload of {len(payload)} bytes does not fit into a frame")
    return b"%b%b%b" % (START, _header(escaped), escaped)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a file holds: each whole record with the offset of its frame, and the spans that are none.

    `ends` are the offsets behind the records' frames. `torn_at` is the end of the last whole frame where something
    follows it, else None; `damage` are the spans before.
    """

    records: tuple[tuple[int, bytes], ...]
    ends: tuple[int, ...]
    damage: tuple[tuple[int, int], ...]
    torn_at: int | None

    def damaged(self, data: bytes) -> bytes:
        """What of the data is no whole record."""
        spans = [data[begin:end] for begin, end in self.damage]
        return b"".join(spans if self.torn_at is None else [*spans, data[self.torn_at :]])


def scan(data: bytes) -> Scan:
    """Every whole record in file order; linear in the size of the data, whatever it holds."""
    records: list[tuple[int, bytes]] = []
    ends: list[int] = []
    damage: list[tuple[int, int]] = []
    whole_until = 0
    start = data.find(START)
    while start >= 0:
        following = data.find(START, start + len(START))
        escaped = _escaped_payload(data[start : following if following >= 0 else len(data)])
        if escaped is not None:
            if start > whole_until:
                damage.append((whole_until, start))
            records.append((start, escaped.replace(_ESCAPED, _ESCAPE)))
            whole_until = start + _HEADER_BYTES + len(escaped)
            ends.append(whole_until)
        start = following
    torn_at = whole_until if whole_until < len(data) else None
    return Scan(tuple(records), tuple(ends), tuple(damage), torn_at)


def _header(escaped: bytes) -> bytes:
    length = b"%08x" % len(escaped)
    return length + b"%08x" % zlib.crc32(escaped, zlib.crc32(length))


def _escaped_payload(piece: bytes) -> bytes | None:
    """The payload, still escaped, of the frame that the piece begins with; None where it is not whole."""
    header = piece[len(START) : _HEADER_BYTES]
    try:
        length = int(header[:8], 16)
    except ValueError:
        return None
    escaped = piece[_HEADER_BYTES : _HEADER_BYTES + length] if length >= 0 else b""
    # The whole header is compared, so that what int() forgives (signs, blanks, underscores) is damage too.
    if len(escaped) != length or header != _header(escaped) or escaped.count(_ESCAPE) != escaped.count(_ESCAPED):
        return None
    return escaped
