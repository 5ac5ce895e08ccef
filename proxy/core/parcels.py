"""Parts made of samples that were decided one by one: entries in order of time, each series' samples in order too."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proxy.core.timeseries import Point, framed
from proxy.core.wire import Part


class Target(NamedTuple):
    """A series of one tenant, and the (cluster, replica) pair that it came under."""

    tenant: str
    pair: tuple[str, str]
    block: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of one series of a tenant that came in one entry."""

    block: bytes
    points: tuple[Point, ...]
    unknown: bytes

    @property
    def first_ms(self) -> int:
        """When its first sample was taken."""
        return self.points[0].time_ms

    @property
    def entry(self) -> bytes:
        """The framed entry; the samples are the bytes that came."""
        return framed(self.block, b"".join([point.raw for point in self.points]) + self.unknown)


def make_part(tenant: str, pair: tuple[str, str], pieces: Sequence[Piece]) -> Part:
    """A part for the replay of a tenant's pieces, which may come in any order."""
    part = Part(tenant, pair)
    part.replay = True
    for piece in _in_order(pieces):
        part.add(piece.entry)
        part.samples += len(piece.points)
    return part


def _in_order(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces by time; where those of one series reach into each other, they are taken apart for it."""
    newest: dict[bytes, int] = {}
    mixed: set[bytes] = set()
    for piece in pieces:
        for point in piece.points:
            if point.time_ms < newest.get(piece.block, point.time_ms):
                mixed.add(piece.block)
            newest[piece.block] = point.time_ms
    apart = [
        each
        for piece in pieces
        for each in ([replace(piece, points=(point,)) for point in piece.points] if piece.block in mixed else [piece])
    ]
    return sorted(apart, key=lambda piece: piece.first_ms)
