"""Looks after lanes that have something in hand: one timer for all of them, and none while no lane has anything."""

from typing import Final, Protocol

from proxy.lanes.pacer import Timers

LOOKS: Final = 4
"""How often a lane is looked at while a part may wait: what is due is seen a quarter of that time late at most."""
SHORTEST_SECONDS: Final = 0.005


class Watched(Protocol):
    """A lane as the watch sees it."""

    def look(self, patience_seconds: float) -> bool:
        """See to what has waited for so long; whether there is anything left to look after."""
        ...


class Watch:
    """`patience_seconds` is how long a part may wait for its upstream; it may be changed at any time."""

    def __init__(self, loop: Timers, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        self._loop = loop
        self._lanes: list[Watched] = []

    def over(self, lane: Watched) -> None:
        """Look after a lane until it says that it has nothing left; told once for each such time."""
        if not self._lanes:
            self._set()
        self._lanes.append(lane)

    def _set(self) -> None:
        self._loop.call_later(max(self.patience_seconds / LOOKS, SHORTEST_SECONDS), self._look)

    def _look(self) -> None:
        lanes, self._lanes = self._lanes, []
        self._lanes += [lane for lane in lanes if lane.look(self.patience_seconds)]
        if self._lanes:
            self._set()
