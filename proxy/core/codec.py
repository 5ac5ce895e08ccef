"""The snappy block around a request: its declared size is looked at before anything is allocated."""

from collections.abc import Callable
from typing import Final

import cramjam

from proxy.core.errors import CorruptSnappyError, DeclaredSizeError

_LONGEST_COPY: Final = 64
_SHORTEST_TAG: Final = 3
"""Snappy's best element makes 64 bytes out of 3 (format description, section 2.2.2): no block declares more."""


SCRATCH_BYTES: Final = 8 << 20
"""A buffer that is kept between requests: twice the largest request of a lane, and eight of Prometheus' usual ones."""


class Scratch:
    """A buffer that each call fills anew: cramjam's own results are set to zero first, and then copied all the same.

    The event loop has one for each direction; whoever works in another thread brings his own.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def fill(self, into: Callable[[bytes, bytearray], int], given: bytes, size: int) -> bytes:
        """What `into` makes of `given`, which is `size` bytes at most; larger than SCRATCH_BYTES, it is not kept."""
        buffer = self._buffer if size <= len(self._buffer) else bytearray(size)
        if len(self._buffer) < size <= SCRATCH_BYTES:
            self._buffer = buffer
        return bytes(memoryview(buffer)[: into(given, buffer)])


_decoding = Scratch()
_encoding = Scratch()


def encode(message: bytes, scratch: Scratch = _encoding) -> bytes:
    """A message as one snappy block."""
    return scratch.fill(cramjam.snappy.compress_raw_into, message, cramjam.snappy.compress_raw_max_len(message))


def declared_size(body: bytes) -> int:
    """The decoded bytes that a snappy block says it has; raises CorruptSnappyError.

    The size is a varint of at most 32 bits in front (snappy format description, section 1).
    """
    size = 0
    for shift, byte in zip(range(0, 35, 7), body, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit of a varint
            if size >> 32:
                break
            return size
    raise CorruptSnappyError(
        "the body is not one snappy block; send Content-Encoding: snappy (block format, no framing)"
    )


def decode(body: bytes, limit: int, scratch: Scratch = _decoding) -> bytes:
    """The decoded body; raises CorruptSnappyError, and DeclaredSizeError above `limit` bytes."""
    size = declared_size(body)
    if size > limit:
        raise DeclaredSizeError(
            f"the body declares {size} decoded bytes, limits.decoded_bytes is {limit}; "
            "send smaller batches (queue_config.max_samples_per_send) or raise the limit"
        )
    if size * _SHORTEST_TAG > len(body) * _LONGEST_COPY:
        raise CorruptSnappyError(f"the body declares {size} decoded bytes, which {len(body)} bytes cannot hold")
    try:
        return scratch.fill(cramjam.snappy.decompress_raw_into, body, size)
    except cramjam.DecompressionError:
        raise CorruptSnappyError(
            "the body is not one snappy block; send Content-Encoding: snappy (block format)"
        ) from None
