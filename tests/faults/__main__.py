"""`make soak`: a thousand lives that end with SIGKILL, and the delays of others beside a dead tenant.

`--lives N` and `--minutes N` say how much of each; `SEED=` in the environment repeats the lives of an earlier run.
"""

import argparse
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.delays import Delays, measure
from tests.faults.kills import play

GOAL = 2.0
"""How many times the undisturbed p99 the disturbed one may be."""


def main() -> None:
    """Run both and print what came of it; a lost sample ends it with a traceback, a missed goal is for a person."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=5)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the proxy must not outlive this
    with tempfile.TemporaryDirectory(prefix="whosegpu-soak-") as folder:
        if arguments.lives:
            _kills(Path(folder) / "kills", arguments.lives)
        if arguments.minutes:
            _delays(Path(folder), arguments.minutes * 60)


def _kills(folder: Path, lives: int) -> None:
    seed = int(os.environ.get("SEED") or secrets.randbelow(1 << 32))
    print(f"{lives} lives, each ended with SIGKILL (SEED={seed}) ...", flush=True)
    found = play(folder, seed, lives)
    print(f"  {found.acknowledged} samples acknowledged, every one in its tenant's store, once, in order")


def _delays(folder: Path, seconds: float) -> None:
    print(f"Three tenants for {seconds / 60:g} minutes, in the second half one of them dead ...", flush=True)
    before = measure(folder / "undisturbed", seconds / 2, disturbed=False)
    after = measure(folder / "disturbed", seconds / 2, disturbed=True)
    print(f"  from sending to arrival, both others    p50 {'':4} p99 {'':6} worst")
    for name, found in (("undisturbed", before), ("one tenant dead", after)):
        print(f"  {name:16} {found.samples:8d} samples {_line(found)}")
    ratio = after.p99_s / before.p99_s
    print(f"  p99 is {ratio:.2f} times the undisturbed (goal at most {GOAL:g}): {'met' if ratio <= GOAL else 'MISSED'}")


def _line(found: Delays) -> str:
    return "  ".join(f"{seconds * 1000:8.1f} ms" for seconds in (found.p50_s, found.p99_s, found.worst_s))


if __name__ == "__main__":
    main()
