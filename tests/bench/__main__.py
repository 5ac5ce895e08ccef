"""`make bench`: the wire module, the whole process, and vmagent beside it in the same run."""

import os
import sys

from tests.bench import whole, wire
from tests.peers.registry import COMMAND, missing

GOALS = {20: 3.0, 100: 8.0}
"""How many times vmagent's samples per CPU second, by tenants."""

LARGEST_DROP = 0.2
"""How much less 100 tenants may come to than 20."""


def main() -> int:
    """Print all tables; 1 where a goal is missed."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: ratios within this run count, not the figures\n")
    print("The wire module (series a second, one core):")
    wire.report()
    print("\nThe whole process: requests of 2000 series over 16 connections, one core, delivered to a counting sink:")
    found = whole.compare((1, 20, 100, 1000))
    print("\nGoals:")
    met = True
    for tenants, goal in GOALS.items():
        ours, theirs = found[tenants]
        if theirs is None:
            print(
                f"  {tenants} tenants: vmagent is not there; `{COMMAND}` brings it: {', '.join(missing(['vmagent']))}"
            )
            continue
        ratio = ours.samples_per_cpu_second / theirs.samples_per_cpu_second
        met = met and ratio >= goal
        print(f"  {tenants:4d} tenants: {ratio:.1f} times vmagent (goal {goal:g})")
    drop = 1 - found[100][0].samples_per_cpu_second / found[20][0].samples_per_cpu_second
    met = met and drop <= LARGEST_DROP
    print(f"  100 tenants come to {drop:.0%} less than 20 (goal at most {LARGEST_DROP:.0%})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
