"""Lanes under any schedule: what comes when, what is answered, what the disk does, and how long it takes are random."""

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import StorageError
from proxy.core.outcome import Refusal, Reply, Retryable
from proxy.core.pieces import split_entries
from proxy.core.wire import Part
from proxy.lanes.batch import Batch
from proxy.lanes.group import GROUP_SAMPLES
from proxy.lanes.lane import Lane
from proxy.lanes.outlet import Outlet
from tests.proxy.core.messages import blob, block, sample
from tests.proxy.fakes import FakeLoop, FakeQueue, Fakes, FakeUpstream, part_of

OK = Reply(204)

Step = Callable[["Model"], None]


def entry(number: int) -> bytes:
    """The series with that number."""
    return blob(1, block(("__name__", f"m{number:06}")) + sample())


class Store:
    """One tenant's lane, what it was given, and what its upstream took, in order."""

    def __init__(self, fakes: Fakes, tenant: str, refusal: Refusal) -> None:
        self.upstream = FakeUpstream()
        self.outlet: Outlet = fakes.outlet(tenant, self.upstream, refusal)
        self.queue = cast("FakeQueue", self.outlet.queue)
        self.lane = Lane(self.outlet, fakes.common)
        self.given: list[tuple[Part, range]] = []
        self.accepted: list[int] = []
        self._numbers: dict[bytes, int] = {}

    def offer(self, batch: Batch, pair: tuple[str, str], series: int) -> None:
        """A part with some series."""
        first = len(self._numbers)
        numbers = range(first, first + series)
        for number in numbers:
            self._numbers[entry(number)] = number
        part = part_of(batch, [entry(number) for number in numbers], series, pair)
        self.given.append((part, numbers))
        self.lane.put(part)

    def answer(self, reply: Reply) -> None:
        """Answer what is in flight."""
        if self.upstream.busy:
            numbers = [self._numbers[piece.entry] for piece in split_entries(self.upstream.posts[-1])]
            assert 0 < len(numbers) <= GROUP_SAMPLES
            self._check_company(numbers)
            if reply.status == OK.status:
                self.accepted += numbers
            self.upstream.reply(reply)

    def check(self) -> None:
        """Everything acknowledged arrived once or was dropped and counted; all in order; the books are right."""
        books = self.outlet.books
        assert self.accepted == sorted(set(self.accepted)), "twice, or out of order"
        assert (books.delivered, books.queued, books.imbalance()) == (len(self.accepted), 0, 0)
        accepted = set(self.accepted)
        lost = 0
        for part, numbers in self.given:
            told = [trouble for trouble in part.batch.troubles if trouble.part is part]
            assert len(told) <= 1
            if not (told and isinstance(told[0].outcome, Retryable)):
                lost += len(set(numbers) - accepted)
        handed_back = books.dropped.total() - lost  # refused, though their senders had been told to send again
        assert handed_back >= 0
        if not any(isinstance(trouble.outcome, Retryable) for part, _ in self.given for trouble in part.batch.troubles):
            assert handed_back == 0
        assert self.queue.records == 0

    def _check_company(self, numbers: list[int]) -> None:
        pairs = {part.pair for part, own in self.given if set(own) & set(numbers)}
        assert len(pairs) == 1


class Model:
    """Drives lanes through a random schedule and keeps what must come of it."""

    def __init__(self, refusals: list[Refusal]) -> None:
        self.loop = FakeLoop()
        fakes = Fakes(0.5, self.loop)
        self.stores = [Store(fakes, f"t{index}", refusal) for index, refusal in enumerate(refusals)]
        self.batches: list[Batch] = []

    def store(self, number: int) -> Store:
        """One of the stores."""
        return self.stores[number % len(self.stores)]

    def offer(self, wanted: list[tuple[int, str, int]]) -> None:
        """One inbound request: a part for each (lane, pair, series)."""
        batch = Batch(self.loop, len(wanted))
        self.batches.append(batch)
        for number, pair, series in wanted:
            self.store(number).offer(batch, (pair, "r"), series)

    def disk(self, number: int, *, full: bool, slow: bool) -> None:
        """What the disk under a queue does from now on."""
        queue = self.store(number).queue
        queue.error = StorageError("no space") if full else None
        queue.slow = slow
        if not slow:
            queue.write()

    def finish(self) -> None:
        """Heal everything, and answer all that is left."""
        for number in range(len(self.stores)):
            self.disk(number, full=False, slow=False)
        for _ in range(10 + 4 * sum(len(numbers) for store in self.stores for _, numbers in store.given)):
            for store in self.stores:
                store.answer(OK)
            self.loop.advance(400 if not any(store.upstream.busy for store in self.stores) else 0.01)

    def check(self) -> None:
        """As for each store; and every request has had its answer."""
        for store in self.stores:
            store.check()
        for batch in self.batches:
            assert batch.open == 0
        assert self.loop.idle, "a timer is left"


REPLIES = st.sampled_from(
    [OK, OK, OK, Reply(400), Reply(404), Reply(413), Reply(429), Reply(503, "1"), Reply(401), Reply(0, error="reset")]
)
STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda wanted: lambda model: model.offer(wanted),
            st.lists(
                st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"]), st.sampled_from([1, 2, 5, 40])), max_size=4
            ),
        ),
        st.builds(lambda lane, reply: lambda model: model.store(lane).answer(reply), st.integers(0, 2), REPLIES),
        st.builds(lambda lane, reply: lambda model: model.store(lane).answer(reply), st.integers(0, 2), REPLIES),
        st.builds(
            lambda lane, full, slow: lambda model: model.disk(lane, full=full, slow=slow),
            *(st.integers(0, 2), st.booleans(), st.booleans()),
        ),
        st.builds(
            lambda seconds: lambda model: model.loop.advance(seconds), st.sampled_from([0, 0.003, 0.02, 0.2, 1, 30])
        ),
    ),
    max_size=60,
)


@pytest.mark.fuzz
@given(st.lists(st.sampled_from(["partial", "whole"]), min_size=1, max_size=3), STEPS)
def test_any_schedule(refusals: list[Refusal], steps: list[Step]) -> None:
    """Whatever comes when, whatever is answered, whatever the disk does: in order, once, pairs apart, books even."""
    model = Model(refusals)
    for step in steps:
        step(model)
    model.finish()
    model.check()
