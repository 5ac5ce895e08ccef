"""How long samples take from sender to store, while nothing is wrong and while one of three tenants is dead.

The dead store hangs for half of the time and refuses connections for the other half. Senders and stores live in this
process, so that both runs are measured by one clock, and disturbed by one another in the same way.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.behaviour import hangs
from tests.faults.ledger import check
from tests.faults.scene import scene, sending

DEAD: Final = "dead"
_OTHERS: Final = ("first", "second")
_SENDERS: Final = 3
_PAUSE_S: Final = 0.02
_DELIVERY: Final = {"park_after": "1s", "timeout": "10s"}  # the defaults


@dataclass(frozen=True, slots=True)
class Delays:
    """Of the samples of the tenants that are well: how many, and their delays in seconds."""

    samples: int
    p50_s: float
    p99_s: float
    worst_s: float


def measure(folder: Path, seconds: float, *, disturbed: bool) -> Delays:
    """Send for so long. Raises AssertionError where anything acknowledged to the tenants that are well is missing."""
    with scene(folder, [DEAD, *_OTHERS], _DELIVERY) as on:
        senders = [on.sender(f"shard-{number}", [DEAD, *_OTHERS], 5) for number in range(_SENDERS)]
        for sender in senders:
            sender.pause_s = _PAUSE_S
        with sending(*senders):
            for half in range(2):
                if disturbed and half == 0:
                    on[DEAD].upstream.behaviour = hangs
                elif disturbed:
                    on[DEAD].upstream.shut()
                time.sleep(seconds / 2)
        on.arrives(_OTHERS)
        check(on.ledger, {name: on[name].store for name in _OTHERS})
        series = [line.series for sender in senders for line in sender.lines]
        found = sorted(delay for name in _OTHERS for delay in on.ledger.delays(name, on[name].store, series))
        return Delays(len(found), found[len(found) // 2], found[len(found) * 99 // 100], found[-1])
