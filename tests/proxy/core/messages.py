"""Protobuf by hand: what the protobuf runtime would not write, and an encoder that shares nothing with ours."""

import struct
from pathlib import Path
from typing import Final

VECTORS: Final = Path(__file__).parents[2] / "vectors" / "wire"

NOW_MS: Final = 1_790_000_000_000
STALE: Final = bytes.fromhex("020000000000f07f")
NAN: Final = bytes.fromhex("010000000000f87f")
INFINITY: Final = struct.pack("<d", float("inf"))
MINUS_ZERO: Final = struct.pack("<d", -0.0)
BITS_64: Final = 1 << 64


def recorded(name: str) -> bytes:
    """A decoded request of a real sender."""
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


def varint(value: int, padding: int = 0) -> bytes:
    """`value` modulo 2^64, in `padding` bytes more than needed."""
    value %= BITS_64
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * padding
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def tag(number: int, kind: int, padding: int = 0) -> bytes:
    """The tag of a field."""
    return varint(number << 3 | kind, padding)


def number(field: int, value: int, padding: int = 0) -> bytes:
    """A varint field."""
    return tag(field, 0) + varint(value, padding)


def double(field: int, value: float | bytes) -> bytes:
    """A field of eight bytes."""
    return tag(field, 1) + (value if isinstance(value, bytes) else struct.pack("<d", value))


def fixed32(field: int, value: bytes) -> bytes:
    """A field of four bytes."""
    return tag(field, 5) + value


def blob(field: int, payload: bytes, padding: int = 0) -> bytes:
    """A field with a length."""
    return tag(field, 2) + varint(len(payload), padding) + payload


def label(name: bytes, value: bytes) -> bytes:
    """A label field of a series."""
    return blob(1, blob(1, name) + blob(2, value))


def block(*pairs: tuple[str, str]) -> bytes:
    """Label fields."""
    return b"".join(label(name.encode(), value.encode()) for name, value in pairs)


def sample(value: float | bytes | None = 1.5, at_ms: int = NOW_MS) -> bytes:
    """A sample field; None leaves the value out."""
    return blob(2, (b"" if value is None else double(1, value)) + number(2, at_ms))


def exemplar(value: float = 0.5, at_ms: int = NOW_MS) -> bytes:
    """An exemplar field."""
    return blob(3, label(b"trace_id", b"abc") + double(2, value) + number(3, at_ms))


def histogram(total: float | bytes = 7.5, at_ms: int = NOW_MS) -> bytes:
    """A native histogram field with one bucket."""
    span = number(1, 0) + number(2, 1)
    return blob(
        4, number(1, 3) + double(3, total) + number(4, 6) + blob(11, span) + blob(12, b"\x06") + number(15, at_ms)
    )


def request(*entries: bytes) -> bytes:
    """The entries as a request."""
    return b"".join(blob(1, entry) for entry in entries)
