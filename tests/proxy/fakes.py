"""A loop whose clock a test moves, an upstream that answers when told, a queue in memory, and lanes on them."""

import asyncio
import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from proxy.core.books import Books
from proxy.core.errors import StorageError
from proxy.core.outcome import Refusal, Reply
from proxy.core.record import QueueRecord
from proxy.core.wire import Part
from proxy.lanes.batch import Batch, Futures
from proxy.lanes.lane import Common, Lane
from proxy.lanes.outlet import Means, Outlet, Queue
from proxy.lanes.pacer import Pacer, Timers
from proxy.lanes.road import Observer, Road, Upstream
from proxy.lanes.watch import Watch


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


class FakeQueue(Queue):
    """A queue in memory. `error` fails what is appended; with `slow` nothing becomes durable before `write`."""

    def __init__(self, loop: Timers) -> None:
        self.held: list[QueueRecord] = []
        self.error: StorageError | None = None
        self.slow = False
        self.oldest_ms = 0
        self._taken = 0
        self._loop = loop
        self._waiting: list[tuple[Sequence[QueueRecord], Callable[[StorageError | None], None], bool]] = []

    @property
    def records(self) -> int:
        return len(self.held)

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def expired(self) -> bool:
        return self._taken > 0 and self.held[self._taken - 1].received_ms < self.oldest_ms

    def append(
        self, records: Sequence[QueueRecord], done: Callable[[StorageError | None], None], *, taken: bool = False
    ) -> None:
        self._waiting.append((records, done, taken))
        if not self.slow:
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Let what was appended become durable, or fail."""
        waiting, self._waiting = self._waiting, []
        for records, done, taken in waiting:
            if self.error is None:
                assert not (taken and self.held), "only what stands at the head can be under way"
                self._taken += taken
                self.held += records
            done(self.error)

    def take(
        self, max_samples: int, max_bytes: int, taken: Callable[[tuple[QueueRecord, ...] | StorageError], None]
    ) -> None:
        if not self._taken and self.held:
            self._taken = 1 if self.held[0].attempted else self._merged(max_samples, max_bytes)
        self._loop.call_soon(lambda: taken(tuple(self.held[: self._taken])))

    def done(self) -> None:
        assert self._taken, "nothing was taken"
        del self.held[: self._taken]
        self._taken = 0

    def unload(self) -> None:
        """Everything is in memory here."""

    def _merged(self, max_samples: int, max_bytes: int) -> int:
        first, number, samples, size = self.held[0], 0, 0, 0
        for record in self.held:
            same = (record.pair, record.replay, record.attempted) == (first.pair, first.replay, False)
            samples, size = samples + record.samples, size + len(record.entries)
            if number and (not same or samples > max_samples or size > max_bytes):
                break
            number += 1
        return number


NOW_MS = 1_000_000


class Loop(Futures, Timers, Protocol):
    """A fake loop, or a real one."""

    def time(self) -> float:
        """Seconds of its clock."""
        ...


@dataclass
class Fakes:
    """What lanes stand on, all in the test's hand; `park_after` is how many seconds a part may wait."""

    park_after: float = 1.0
    loop: Loop = field(default_factory=FakeLoop)
    books: Books = field(default_factory=Books)
    observed: list[tuple[str, str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        observer = Observer(lambda *seen: self.observed.append(seen), self.loop.time, lambda: NOW_MS)
        means = Means(self.loop, self.books, lambda: 0.5, self.loop.time, lambda: NOW_MS)
        self.watch = Watch(self.loop, self.park_after)
        self.common = Common(Pacer(self.loop), self.watch, observer, means)

    def outlet(self, tenant: str, upstream: Upstream, refusal: Refusal = "partial") -> Outlet:
        """What the lane of a tenant goes to, with an empty queue."""
        road = Road(tenant, upstream, refusal, self.common.observer)
        return Outlet(road, FakeQueue(self.loop), self.books.tenant(tenant))

    def lane(self, tenant: str, upstream: Upstream, refusal: Refusal = "partial") -> Lane:
        """The lane of a tenant."""
        return Lane(self.outlet(tenant, upstream, refusal), self.common)


class Bench:
    """One lane with everything around it in the test's hand."""

    def __init__(self, refusal: Refusal = "partial", park_after: float = 1.0) -> None:
        self.loop = FakeLoop()
        self.fakes = Fakes(park_after, self.loop)
        self.upstream = FakeUpstream()
        self.outlet = self.fakes.outlet("team-ml", self.upstream, refusal)
        self.queue = cast("FakeQueue", self.outlet.queue)
        self.books = self.outlet.books
        self.restart()

    def restart(self) -> None:
        """Begin anew with what the queue holds."""
        self.lane = Lane(self.outlet, self.fakes.common)

    def put(self, *bodies: bytes, pair: Hashable = "a", attempt: int = 0) -> Batch:
        """Put parts of one batch, one sample each."""
        batch = Batch(self.loop, len(bodies), attempt)
        for body in bodies:
            self.lane.put(part_of(batch, [body], 1, pair))
        return batch

    def reply(self, reply: Reply | None = None) -> None:
        """Answer, 204 unless told otherwise, and run what follows from it now."""
        self.upstream.reply(reply or Reply(204))
        self.loop.run()
