"""The proxy killed with SIGKILL at random instants, over and over, under three shards that send without pause.

Two tenants: the store of `sweet` is always well, that of `sour` fails at random in every way that leaves a request to
be sent again. The seed gives the lives, and how much fails in each.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.behaviour import SILENT, lift, randomly, says
from tests.faults.scene import Scene, check_answers, scene, sending
from tests.peers.processes import wait_until
from tests.scrape import Scrape

SWEET, SOUR = "sweet", "sour"

_DELIVERY: Final = {"park_after": "100ms", "timeout": "500ms"}
_SHARDS: Final = 3
_UNFINISHED: Final = 6
"""One start in so many is killed before it is ready."""
_SHARES: Final = (0.0, 0.2, 0.5)
"""Of a life's requests to the sour store so many fail; without good lives its queue would only grow."""
_LIFE_S: Final = (0.2, 1.0)
_START_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of it: acknowledged samples of both tenants, requests that the sour store saw, the last scrape."""

    acknowledged: int
    sour_requests: int
    scrape: Scrape


def play(folder: Path, seed: int, lives: int) -> Killed:
    """So many lives, and one more in which everything is well. Raises AssertionError where something was lost."""
    dice = random.Random(seed)
    with scene(folder, [SWEET, SOUR], _DELIVERY, started=False) as on:
        bad = [*SILENT, says(500), says(503), says(429)]
        on.proxy.start()
        shards = [on.sender(f"shard-{number}", [SWEET, SOUR], 3, "one", "") for number in range(_SHARDS)]
        for shard in shards:
            shard.pause_s = 0.01
        with sending(*shards):
            for life in range(lives):
                on[SOUR].upstream.behaviour = randomly(random.Random(dice.random()), bad, dice.choice(_SHARES))
                time.sleep(dice.uniform(*_LIFE_S))
                _kill(on)
                if life % _UNFINISHED == _UNFINISHED - 1:
                    on.proxy.process.spawn()
                    time.sleep(dice.uniform(0, _START_S))
                    _kill(on)
                on.proxy.start()
            lift(on[SOUR].upstream)
            wait_until(lambda: _all_answered(on), "the last life to answer")
        wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "empty queues", deadline_s=60 + lives)
        on.arrives()
        on.check()
        check_answers(shards)
        acknowledged = sum(len(on.ledger.acknowledged(name)) for name in on.tenants)
        return Killed(acknowledged, len(on[SOUR].upstream.arrivals), on.proxy.balanced())


def _kill(on: Scene) -> None:
    """SIGKILL; what the log says until then is looked at, and let go, or a long run would fill the disk."""
    on.proxy.process.kill9()
    log = on.folder / "proxy/proxy.log"
    text = log.read_text()
    assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:3000]
    with log.open("r+b") as file:
        file.truncate()


def _all_answered(on: Scene) -> bool:
    return on.proxy.scrape().total("requests_total", code="204") >= 10 * _SHARDS
