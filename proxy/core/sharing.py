"""Equal pieces of label blocks as one object: most of a block is the same for all series of a device."""

from typing import Final

SHARED_BYTES: Final = 64 << 20
"""Of pieces remembered to be shared, at most: about 150,000 devices. Beyond it they are forgotten, and made anew."""


class Shared:
    """Remembers pieces, up to a number of bytes; those in use stay with whoever uses them."""

    def __init__(self, limit_bytes: int = SHARED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: dict[bytes, bytes] = {}
        self._bytes = 0

    def one(self, piece: bytes) -> bytes:
        """The piece, as the object that everybody has."""
        known = self._pieces.get(piece)
        if known is not None:
            return known
        if self._bytes + len(piece) > self._limit_bytes:
            self._pieces.clear()
            self._bytes = 0
        self._pieces[piece] = piece
        self._bytes += len(piece)
        return piece
