"""`make bench`: the wire module, the whole process, and vmagent beside it in the same run."""

import os

from tests.bench import whole, wire
from tests.peers.registry import COMMAND, missing

GOALS = {20: 3.0, 100: 8.0}
"""How many times vmagent's samples per CPU second, by tenants."""

DISTURBED = 20
"""Tenants of the run in which one is down."""

LARGEST_DROP = 0.2
"""How much less 100 tenants may come to than 20."""


def main() -> None:
    """Print all tables, and which goals were met; machines are noisy, so a missed one is for a person to judge."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}: ratios within this run count, not the figures\n")
    print("The wire module (series a second, one core):")
    wire.report()
    print("\nThe whole process: requests of 2000 series over 16 connections, one core, delivered to a counting sink:")
    found = whole.compare((1, 20, 100, 1000))
    disturbed = whole.one_down(DISTURBED)
    print("\nGoals:")
    for tenants, goal in GOALS.items():
        ours, theirs = found[tenants]
        if theirs is None:
            print(
                f"  {tenants} tenants: vmagent is not there; `{COMMAND}` brings it: {', '.join(missing(['vmagent']))}"
            )
            continue
        ratio = ours.samples_per_cpu_second / theirs.samples_per_cpu_second
        print(f"  {tenants:4d} tenants: {ratio:.1f} times vmagent (goal {goal:g}): {_verdict(met=ratio >= goal)}")
    drop = 1 - found[100][0].samples_per_cpu_second / found[20][0].samples_per_cpu_second
    met = _verdict(met=drop <= LARGEST_DROP)
    print(f"  100 tenants come to {drop:.0%} less than 20 (goal at most {LARGEST_DROP:.0%}): {met}")
    kept = disturbed.samples_per_cpu_second / found[DISTURBED][0].samples_per_cpu_second
    print(f"  {DISTURBED:4d} tenants, one of them down, its traffic going to disk: {kept:.0%} of the healthy figure")


def _verdict(*, met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
