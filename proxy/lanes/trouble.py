"""What a lane does when its upstream does not simply take what it is sent.

Happens here: a refused request is sent again in pieces, a failed one after a pause, what waits too long is parked in
the tenant's durable queue, and the queue is worked off, oldest first. A lane has a trouble while this is under way, and
none otherwise.

- The *load* is what the upstream is asked to take now (`load.Load`). A load that could not be parked is still counted
  if it arrives, and let go if it does not.
- The circuit is `open` from the first failure or parking until nothing is queued and no pause is left. As long as it
  is, every new part goes to the queue behind what waits, and is acknowledged when it is durable. After a pause one
  request is tried: the head of the queue.
- One thing at a time: a request in flight, a pause, a read of the queue, or a load being parked. Whichever ends calls
  `go_on`, which finds what is next. Nothing here waits, all comes by callbacks in the event loop.

To stop, `close`: no request goes out any more, a load whose senders wait is parked.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from proxy.core.backoff import wait_seconds
from proxy.core.carrying import UNBOUNDED, Carrying, Item
from proxy.core.errors import StorageError
from proxy.core.outcome import Outcome, Retryable, is_too_old
from proxy.core.record import QueueRecord
from proxy.core.wire import Part
from proxy.lanes.group import GROUP_SAMPLES, Group, item_of, record_of
from proxy.lanes.hand import Hand
from proxy.lanes.load import Append, Load, Standing
from proxy.lanes.outlet import SPOKEN, Means, Outlet

_log: Final = structlog.get_logger()

PROBE_BYTES: Final = 64 << 10
"""What is merged into the first request after a failure. It stays in memory until it is settled: a thousand tenants
whose stores are down together hold some 100 MB."""
MERGED_BYTES: Final = 1 << 20
"""What each success doubles that to: at 5 ms a request, 400,000 usual samples a second of one tenant."""

APPENDING_BYTES: Final = 32 << 20
"""What may wait for the disk: one that hangs must not gather in memory what senders send again and again."""

TOO_OLD: Final = "queue_age"
"""Why what the queue held for too long is dropped."""

_STORAGE: Final = Retryable("storage")


class Trouble:
    """The trouble of one lane; made when it begins."""

    def __init__(self, outlet: Outlet, means: Means, hand: Hand) -> None:
        self.open = False
        self._outlet = outlet
        self._road = outlet.road
        self._queue = outlet.queue
        self._means = means
        self._hand = hand
        self._load: Load | None = None
        self._late: tuple[Outcome, bytes] | None = None  # a reply that came while its load was being parked
        self._failures = 0
        self._merged = PROBE_BYTES
        self._window = UNBOUNDED  # samples that a request may have at all, if the upstream throttles
        self._pause: object | None = None
        self._appending = 0
        self._appending_bytes = 0
        self._taking = False
        self._closed = False

    @property
    def at_rest(self) -> bool:
        """Whether nothing is being written or read, and no sender waits."""
        return not self._appending and not self._taking and (self._load is None or not self._load.parts)

    @property
    def waiting_since(self) -> float | None:
        """When the load came, as long as its senders wait and it is not being parked."""
        load = self._load
        return load.since if load is not None and load.standing is Standing.WAITING else None

    # -- what is asked of it -------------------------------------------------------------------------------------------

    def begin(self, group: Group, outcome: Outcome, said: bytes) -> None:
        """Take over a request that ended otherwise than delivered."""
        self._take_over(group)
        self.answered(outcome, said)

    def park(self, flying: Group | None = None) -> None:
        """Queue whatever the lane has in hand; `flying` is in flight, and its reply comes to `answered`."""
        if flying is not None:
            self._take_over(flying)
        self._park()
        self.go_on()

    def put(self, part: Part) -> None:
        """Queue a new part; only while the circuit is open."""
        if part.metadata:
            self._drop_metadata([part])
        elif self._appending_bytes > APPENDING_BYTES:
            part.batch.settle(part.tenant, part, _STORAGE)
        else:
            record = record_of(part, [item_of(part)], self._means.now_ms(), attempted=False)
            self._append(Append([record], [part], None))

    def hurry(self) -> None:
        """The upstream is another one: go on, and do not wait any longer."""
        self._closed = False
        self._failures = 0
        self._pause = None
        self.go_on()

    def give_up(self, reason: str) -> tuple[int, int]:
        """Drop what is tried again and again, unless it is in flight: records and samples."""
        load = self._load
        if load is None or load.standing is not Standing.QUEUED or self._road.busy:
            return 0, 0
        self._load = None
        records = self._queue.taken
        samples = load.give_up(reason, self._outlet.books, self._means.books)
        self._queue.done()
        return records, samples

    def expire(self) -> None:
        """Drop what is tried again and again if it has become too old, as the queue does with what is behind it."""
        if self._queue.expired:
            records, samples = self.give_up(TOO_OLD)
            if records:
                _log.warning("queue dropped samples", tenant=self._road.tenant, reason=TOO_OLD, samples=samples)

    def close(self) -> None:
        """Send nothing any more, until `hurry`; what senders wait for is parked."""
        self._closed = True
        self._park()

    # -- one thing after the other -------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Do what is next, if nothing is under way."""
        if self._closed:
            self._hand.rested()
            return
        if self._road.busy or self._pause is not None or self._taking:
            return
        self.expire()
        load = self._load
        if load is None:
            self._next()
        elif load.standing is not Standing.PARKING:
            request = load.carrying.request
            if request is not None:
                self._road.post(request, load.carrying.attempt, self.answered)

    def _next(self) -> None:
        if self._queue.records:
            self.open = self._taking = True
            self._queue.take(min(self._window, GROUP_SAMPLES), self._merged, self._taken)
        elif not self._appending:
            self.open = False
            self._hand.recovered()

    def _taken(self, records: tuple[QueueRecord, ...] | StorageError) -> None:
        self._taking = False
        if isinstance(records, StorageError):
            _log.error("queue not read", tenant=self._road.tenant, error=str(records))
            self._failures += 1
            self._wait(Retryable(records.reason))
            return
        if records and records[0].version != SPOKEN:
            self._failures += 1
            if self._failures == 1:
                _log.error("queue waits for another version", tenant=self._road.tenant, remote_write=records[0].version)
            self._wait(Retryable("remote_write_version"))
            return
        if records and not self._closed:
            items = [Item(record.entries, record.samples, record.made, record.exemplars) for record in records]
            self._load = self._load_of(items, 0, replay=records[0].replay)
        self.go_on()

    def answered(self, outcome: Outcome, said: bytes) -> None:
        """A request of the load has ended."""
        load = self._load
        if load is None:
            self.go_on()
        elif load.standing is Standing.PARKING:
            self._late = outcome, said
        else:
            self._answered(load, outcome, said)

    def _answered(self, load: Load, outcome: Outcome, said: bytes) -> None:
        settled = load.carrying.replied(outcome, too_old=load.replay and is_too_old(said))
        load.settle(settled, self._outlet.books, self._means.books)
        if isinstance(outcome, Retryable):
            self._failed(load, outcome)
        else:
            self._failures = 0
            self._merged = min(self._merged * 2, MERGED_BYTES)
        if load.carrying.finished:
            self._load = None
            self._window = load.carrying.window
            if load.standing is Standing.QUEUED:
                self._queue.done()
        self.go_on()

    def _failed(self, load: Load, outcome: Retryable) -> None:
        self._failures += 1
        self._merged = PROBE_BYTES
        self._wait(outcome)
        if load.standing is Standing.HANDED_BACK:
            self._load = None
        else:
            self._park()

    def _wait(self, outcome: Retryable) -> None:
        pause = self._pause = object()

        def over() -> None:
            if self._pause is pause:
                self._pause = None
                self.go_on()

        self._queue.unload()
        self._means.timers.call_later(wait_seconds(outcome, self._failures, self._means.dice()), over)

    # -- parking -------------------------------------------------------------------------------------------------------

    def _park(self) -> None:
        """Queue the load, if its senders wait, and what waits in the lane behind it."""
        self.open = True
        load = self._load
        records: list[QueueRecord] = []
        parts: list[Part] = []
        now_ms = self._means.now_ms()
        taken = load is not None and load.standing is Standing.WAITING
        if load is not None and taken:
            load.standing = Standing.PARKING
            rest = load.carrying.rest()
            records.append(record_of(load.parts[0], rest, now_ms, attempted=True))
        for group in self._hand.let_go():
            if group.metadata:
                self._drop_metadata(group.parts)
            else:
                records.append(record_of(group.parts[0], group.items(), now_ms, attempted=False))
                parts += group.parts
        if records:
            self._append(Append(records, parts, load if taken else None))

    def _append(self, append: Append) -> None:
        self._appending += 1
        self._appending_bytes += append.size
        self._queue.append(append.records, partial(self._appended, append), taken=append.load is not None)

    def _appended(self, append: Append, error: StorageError | None) -> None:
        self._appending -= 1
        self._appending_bytes -= append.size
        failed = None if error is None else Retryable(error.reason)
        if failed is None:
            self._outlet.books.queue(sum(record.samples for record in append.records))
            self._outlet.books.made += sum(record.made for record in append.records)
        for part in append.parts:
            if failed is None:
                part.batch.delivered()
            else:
                part.batch.settle(part.tenant, part, failed)
        if append.load is not None:
            self._parked(append.load, failed)
        self.go_on()

    def _parked(self, load: Load, failed: Retryable | None) -> None:
        """Let the senders of a load go, and see to a reply that came meanwhile."""
        load.let_go(failed)
        late, self._late = self._late, None
        if late is not None:
            self._answered(load, *late)
        elif failed is not None and not self._road.busy:  # it had failed already, and nobody waits for it
            self._load = None

    def _drop_metadata(self, parts: Sequence[Part]) -> None:
        """Metadata is best effort, and is not kept for an upstream in trouble."""
        for part in parts:
            self._means.books.metadata["dropped"] += part.metadata
            part.batch.delivered()

    # -- loads ---------------------------------------------------------------------------------------------------------

    def _take_over(self, group: Group) -> None:
        load = self._load = self._load_of(group.items(), group.attempt, replay=group.replay)
        load.standing = Standing.WAITING
        load.parts = list(group.parts)
        load.since = group.since

    def _load_of(self, items: list[Item], attempt: int, *, replay: bool) -> Load:
        """A load from the queue."""
        carrying = Carrying(items, self._road.refusal, self._spend, replay=replay, window=self._window)
        carrying.attempt = attempt
        return Load(carrying, Standing.QUEUED, [item.samples + item.exemplars for item in items], replay=replay)

    def _spend(self) -> bool:
        return self._outlet.splits.spend(self._means.clock())
