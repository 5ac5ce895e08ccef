"""Requests of real senders, damaged: cheaper by far than drawing each byte, and near to what passes."""

from collections.abc import Iterator
from random import Random
from typing import Final

from tests.proxy.core.messages import (
    NAN,
    NOW_MS,
    STALE,
    VECTORS,
    blob,
    block,
    exemplar,
    histogram,
    number,
    recorded,
    request,
    sample,
)
from tests.proxy.core.strategies import TRAPS

SIZE: Final = 1 << 14
"""Bytes of a mutant at most: damage shows in small requests, and large ones only take longer."""

BATCH: Final = 10
"""Mutants for each seed."""

_UP: Final = block(("__name__", "up"))
_HAND_MADE: Final = [
    b"",
    request(*(_UP + block(("i", str(i))) + sample(STALE if i % 3 else NAN, NOW_MS + i) for i in range(8))),
    request(_UP + sample(None) + sample(1.0), _UP + exemplar() + histogram(), sample() + _UP, b"", _UP),
    blob(4, b"") + blob(4, b"up") + blob(5, b"\x0a\x02\x00\x01"),
    number(2, 1) + number(1000, 1) + blob(3, blob(2, b"up")) + request(_UP + number(6, 7) + sample(2.0, -1)),
]


def corpus() -> list[bytes]:
    """Where mutants come from; all of it is taken, or refused only as a request of 2.0."""
    return [*(recorded(path.stem) for path in sorted(VECTORS.glob("*.hex"))), *_HAND_MADE]


def mutants(seed: int) -> Iterator[bytes]:
    """BATCH damaged requests, the same for the same seed."""
    random = Random(seed)
    seeds = corpus()
    for _ in range(BATCH):
        body = random.choice(seeds)
        for _ in range(random.choice([0, 1, 1, 2, 4, 16])):
            body = _mutated(body, random.choice(seeds), random)[:SIZE]
        yield body


def _mutated(body: bytes, other: bytes, random: Random) -> bytes:
    """One piece of damage."""
    at = random.randint(0, len(body))
    end = min(len(body), at + random.choice([1, 1, 2, 9, 18, 100]))
    put = random.randint(0, len(other))
    return random.choice(
        [
            body[:at] + bytes(byte ^ 1 << random.randrange(8) for byte in body[at : at + 1]) + body[at + 1 :],
            body[:at] + bytes(random.choice([0, 1, 0x7F, 0x80, 0xFF, 0x12, 0x0A]) for _ in body[at:end]) + body[end:],
            body[:at] + random.choice(TRAPS) + body[end:],
            body[:at] + random.choice(TRAPS) + body[at:],
            body[:at] + body[end:],
            body[:end] + body[at:],
            body[:at] + other[put : put + end - at] + body[end:],
            body[:at] + other[put:],
            body[:at],
        ]
    )
