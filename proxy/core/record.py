"""Frames and records of the append-only files: pure functions over bytes.

A frame is `FE 01`, the length and the checksum of what follows as eight hexadecimal digits each, then the payload with
each byte `FE` written as `FE 00`. `FE 01` so stands at the start of a frame and nowhere else, whatever a payload holds:
after damage reading goes on at the next one, and a label value that looks like a frame can never be taken for one.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final, Self

from proxy.core.errors import ProxyError

START: Final = b"\xfe\x01"
_ESCAPE: Final = b"\xfe"
_ESCAPED: Final = b"\xfe\x00"
_HEADER_BYTES: Final = len(START) + 16
_MAX_PAYLOAD_BYTES: Final = 0xFFFFFFFF  # what eight hexadecimal digits can say

_VERSION: Final = 1
_FIXED: Final = struct.Struct(">BqqI")  # version, received_ms, sample_ms, samples
_LENGTH: Final = struct.Struct(">I")


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

    `torn_at` is the end of the last whole frame where something follows it, else None; `damage` are the spans before.
    """

    records: tuple[tuple[int, bytes], ...]
    damage: tuple[tuple[int, int], ...]
    torn_at: int | None


def scan(data: bytes) -> Scan:
    """Every whole record in file order; linear in the size of the data, whatever it holds."""
    records: list[tuple[int, bytes]] = []
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
        start = following
    return Scan(tuple(records), tuple(damage), whole_until if whole_until < len(data) else None)


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


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """One series entry that waits for an owner or a mapping.

    `entry` is the inbound entry's bytes, `sample_ms` its first sample's time, `samples` how many of the unit of the
    books it bears; `sender` and `trust` say who sent it and what of it may be believed, `reason` why it waits.
    """

    received_ms: int
    sender: str
    trust: str
    reason: str
    sample_ms: int
    samples: int
    entry: bytes

    def encode(self) -> bytes:
        """The record's payload. Raises RecordError where a number does not fit."""
        try:
            fixed = _FIXED.pack(_VERSION, self.received_ms, self.sample_ms, self.samples)
        except struct.error as error:
            raise RecordError(f"a number of the record does not fit: {error}") from error
        texts = [text.encode("utf-8", "surrogatepass") for text in (self.sender, self.trust, self.reason)]
        return b"".join((fixed, *(_LENGTH.pack(len(text)) + text for text in texts), self.entry))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """The record of a payload. Raises RecordError for anything that `encode` of this version does not write."""
        if len(payload) < _FIXED.size:
            raise RecordError("record is cut short")
        version, received_ms, sample_ms, samples = _FIXED.unpack_from(payload)
        if version != _VERSION:
            raise RecordError(f"record of version {version}, this reads {_VERSION}")
        texts: list[str] = []
        at = _FIXED.size
        for _ in range(3):
            text, at = _text(payload, at)
            texts.append(text)
        sender, trust, reason = texts
        return cls(received_ms, sender, trust, reason, sample_ms, samples, payload[at:])


def _text(payload: bytes, at: int) -> tuple[str, int]:
    begin = at + _LENGTH.size
    if begin > len(payload):
        raise RecordError("record is cut short")
    (length,) = _LENGTH.unpack_from(payload, at)
    end = begin + length
    if end > len(payload):
        raise RecordError("record is cut short")
    try:
        return payload[begin:end].decode("utf-8", "surrogatepass"), end
    except UnicodeDecodeError as error:
        raise RecordError("a text of the record is not UTF-8") from error
