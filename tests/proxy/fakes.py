"""A loop whose clock a test moves, and an upstream that answers when a test says so."""

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import Any, cast

from proxy.batch import Batch, Futures
from proxy.core.outcome import Reply
from proxy.core.wire import Part
from proxy.lane import Upstream
from proxy.pacer import Timers


class FakeLoop(Futures, Timers):
    """Callbacks and timers only; they run in `run` and `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._soon: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is scheduled."""
        return not self._soon and not self._timers

    def get_debug(self) -> bool:
        return False

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (self.now + delay, self._serial, callback))

    def create_future(self) -> asyncio.Future[Any]:
        # Nobody awaits these futures, so all that they ask of their loop is get_debug.
        return asyncio.Future(loop=cast("asyncio.AbstractEventLoop", self))

    def run(self) -> None:
        """Run what is due, until nothing is."""
        while self._soon or (self._timers and self._timers[0][0] <= self.now):
            due, self._soon = self._soon, []
            while self._timers and self._timers[0][0] <= self.now:
                due.append(heapq.heappop(self._timers)[2])
            for callback in due:
                callback()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.run()


class FakeUpstream(Upstream):
    """Keeps what is posted; `reply` answers the request that is in flight."""

    def __init__(self) -> None:
        self.posts: list[bytes] = []
        self.attempts: list[int] = []
        self.closed = False
        self._on_reply: Callable[[Reply], None] | None = None

    @property
    def busy(self) -> bool:
        return self._on_reply is not None

    def encode(self, message: bytes) -> bytes:
        return message

    def post(self, body: bytes, attempt: int, on_reply: Callable[[Reply], None]) -> None:
        assert not self.busy, "two requests in flight"
        assert not self.closed
        self.posts.append(body)
        self.attempts.append(attempt)
        self._on_reply = on_reply

    def reply(self, reply: Reply) -> None:
        """Answer."""
        on_reply, self._on_reply = self._on_reply, None
        assert on_reply is not None, "nothing in flight"
        on_reply(reply)

    def close(self) -> None:
        self.closed = True
        if self.busy:
            self.reply(Reply(0, error="closed"))


def part_of(batch: Batch, chunks: list[bytes], samples: int, pair: Hashable = "a", made: int = 0) -> Part:
    """A part of a batch, as the intake gathers and the delivery sends it."""
    part = Part("team-ml", pair)
    for chunk in chunks:
        part.add(chunk)
    part.samples, part.made, part.batch = samples, made, batch
    return part
