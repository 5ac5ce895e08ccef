"""Records of the append-only files: what waits in the quarantine, and what waits in a tenant's queue.

Every payload begins with the version of its format. What this version does not write is an error, never a guess.
"""

import struct
from dataclasses import dataclass, field
from typing import Final, Self

from proxy.core import codec
from proxy.core.errors import RequestError
from proxy.core.frames import RecordError

_VERSION: Final = 1
_FIXED: Final = struct.Struct(">BqqI")  # version, received_ms, sample_ms, samples
_LENGTH: Final = struct.Struct(">I")

MAX_ENTRIES_BYTES: Final = 64 << 20
"""Uncompressed entries of one record of a queue: sixteen times what travels in one request."""
_QUEUED: Final = struct.Struct(">BBqIII")  # version, flags, received_ms, samples, made, exemplars
_ATTEMPTED: Final = 1
_REPLAY: Final = 2
_FLAGS: Final = _ATTEMPTED | _REPLAY


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
        return b"".join((fixed, *_packed(self.sender, self.trust, self.reason), self.entry))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """The record of a payload. Raises RecordError for anything that `encode` of this version does not write."""
        if len(payload) < _FIXED.size:
            raise RecordError("record is cut short")
        version, received_ms, sample_ms, samples = _FIXED.unpack_from(payload)
        if version != _VERSION:
            raise RecordError(f"record of version {version}, this reads {_VERSION}")
        (sender, trust, reason), at = _texts(payload, _FIXED.size)
        return cls(received_ms, sender, trust, reason, sample_ms, samples, payload[at:])


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What waits for a tenant's upstream, and once was or will be one request.

    `entries` are framed entries, uncompressed, of remote write `version`; `pair` is their (cluster, replica) pair. They
    bear `samples`, of which we made `made`, and `exemplars`. `attempted`: sent already, with an unknown end, so that
    it must go out again byte for byte. `replay`: comes from the quarantine, and never travels with live samples.
    """

    received_ms: int
    pair: tuple[str, str]
    samples: int
    made: int
    exemplars: int
    entries: bytes
    attempted: bool = field(default=False, kw_only=True)
    replay: bool = field(default=False, kw_only=True)
    version: str = field(default="1.0", kw_only=True)

    def may_follow(self, first: "QueueRecord") -> bool:
        """Whether it may go in one request with `first`."""
        lots = [(record.pair, record.replay, record.version) for record in (self, first)]
        return lots[0] == lots[1] and not self.attempted and not first.attempted

    def encode(self) -> bytes:
        """The record's payload. Raises RecordError where a number or the entries do not fit."""
        if len(self.entries) > MAX_ENTRIES_BYTES:
            raise RecordError(f"entries of {len(self.entries)} bytes do not fit into a record")
        flags = (_ATTEMPTED if self.attempted else 0) | (_REPLAY if self.replay else 0)
        try:
            fixed = _QUEUED.pack(_VERSION, flags, self.received_ms, self.samples, self.made, self.exemplars)
        except struct.error as error:
            raise RecordError(f"a number of the record does not fit: {error}") from error
        return b"".join((fixed, *_packed(*self.pair, self.version), codec.encode(self.entries, codec.Scratch())))

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """The record of a payload. Raises RecordError for anything that `encode` of this version does not write."""
        flags, received_ms, samples, made, exemplars = _queued(payload)
        (cluster, replica, version), at = _texts(payload, _QUEUED.size)
        try:
            entries = codec.decode(payload[at:], MAX_ENTRIES_BYTES, codec.Scratch())
        except RequestError as error:
            raise RecordError(f"the entries cannot be read: {error}") from error
        attempted, replay = bool(flags & _ATTEMPTED), bool(flags & _REPLAY)
        pair = (cluster, replica)
        return cls(
            received_ms, pair, samples, made, exemplars, entries, attempted=attempted, replay=replay, version=version
        )


def queued_size(payload: bytes) -> tuple[int, int]:
    """When the record of a queue was received, and its samples, without a look at its entries. Raises RecordError."""
    _, received_ms, samples, _, _ = _queued(payload)
    return received_ms, samples


def _queued(payload: bytes) -> tuple[int, int, int, int, int]:
    if len(payload) < _QUEUED.size:
        raise RecordError("record is cut short")
    version, flags, received_ms, samples, made, exemplars = _QUEUED.unpack_from(payload)
    if version != _VERSION or flags & ~_FLAGS:
        raise RecordError(f"record of version {version} with flags {flags:#x}, this reads {_VERSION}")
    return flags, received_ms, samples, made, exemplars


def _packed(*texts: str) -> list[bytes]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return [_LENGTH.pack(len(text)) + text for text in encoded]


def _texts(payload: bytes, at: int) -> tuple[tuple[str, str, str], int]:
    first, at = _text(payload, at)
    second, at = _text(payload, at)
    third, at = _text(payload, at)
    return (first, second, third), at


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
