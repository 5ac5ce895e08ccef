"""When lanes send: in the loop's next round, or a little later so that more gathers."""

from collections.abc import Callable
from typing import Final, Protocol

HOLD_SECONDS: Final = 0.003
"""How long, at most, a crowded lane is held: a third of the delay that the proxy may add (design 4)."""


class Timers(Protocol):
    """What a pacer needs of an event loop."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call in the next round."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object:
        """Call after some seconds."""


class Paced(Protocol):
    """What is told to send."""

    def send(self) -> None:
        """Send what waits; called once for each time that it was asked for."""
        ...


class Pacer:
    """Tells lanes when to send. One per event loop: all that wait share one callback and one timer."""

    def __init__(self, loop: Timers, hold_seconds: float = HOLD_SECONDS) -> None:
        self._loop = loop
        self._hold_seconds = hold_seconds
        self._soon: list[Paced] = []
        self._held: list[Paced] = []

    def soon(self, lane: Paced) -> None:
        """Let the lane send in the loop's next round."""
        if not self._soon:
            self._loop.call_soon(self._send_soon)
        self._soon.append(lane)

    def hold(self, lane: Paced) -> None:
        """Let the lane send after the holding time at the latest."""
        if not self._held:
            self._loop.call_later(self._hold_seconds, self._send_held)
        self._held.append(lane)

    def _send_soon(self) -> None:
        lanes, self._soon = self._soon, []
        for lane in lanes:
            lane.send()

    def _send_held(self) -> None:
        lanes, self._held = self._held, []
        for lane in lanes:
            lane.send()
