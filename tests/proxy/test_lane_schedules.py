"""Lanes under any schedule: what comes when, what is answered, and how long it takes are all chosen at random."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.batch import Batch, Trouble
from proxy.core.books import TenantBooks
from proxy.core.outcome import Refusal, Reply, judge
from proxy.core.wire import Part
from proxy.lane import GROUP_SAMPLES, Common, Lane
from proxy.pacer import Pacer
from tests.proxy.fakes import FakeLoop, FakeUpstream, part_of

OK = Reply(204)
NOW_MS = 1_000_000

Step = Callable[["Model"], None]


class Model:
    """Drives lanes through a random schedule and keeps what must come of it."""

    def __init__(self, refusals: list[Refusal]) -> None:
        self.loop = FakeLoop()
        common = Common(Pacer(self.loop), lambda *_: None, self.loop.time, lambda: NOW_MS)
        self.upstreams = [FakeUpstream() for _ in refusals]
        self.books = [TenantBooks() for _ in refusals]
        self.lanes = [
            Lane(f"t{index}", self.upstreams[index], refusal, self.books[index], common)
            for index, refusal in enumerate(refusals)
        ]
        self.refusals = refusals
        self.put: list[list[Part]] = [[] for _ in refusals]
        self.batches: list[Batch] = []
        self.replies: list[list[Reply]] = [[] for _ in refusals]

    def offer(self, wanted: list[tuple[int, str, int]]) -> None:
        """One inbound request: a part for each (lane, pair, samples)."""
        batch = Batch(self.loop, len(wanted))
        self.batches.append(batch)
        for number, pair, samples in wanted:
            lane = number % len(self.lanes)
            body = b"%d-%d;" % (lane, len(self.put[lane]))
            part = part_of(batch, [body], samples, pair)
            self.put[lane].append(part)
            self.lanes[lane].put(part)

    def answer(self, lane: int, reply: Reply) -> None:
        """Answer what a lane has in flight."""
        lane %= len(self.lanes)
        if self.upstreams[lane].busy:
            self.replies[lane].append(reply)
            self.upstreams[lane].reply(reply)

    def finish(self) -> None:
        """Answer all that is left."""
        for _ in range(1 + sum(len(parts) for parts in self.put)):
            self.loop.advance(1)
            for index in range(len(self.lanes)):
                self.answer(index, OK)

    def check(self) -> None:
        """Each part was sent once, in order, in lawful company, and settled once with what its request got."""
        for index in range(len(self.lanes)):
            self._check_lane(index)
        for batch in self.batches:
            assert batch.open == 0

    def _check_lane(self, index: int) -> None:
        parts = iter(self.put[index])
        delivered = 0
        for post, reply in zip(self.upstreams[index].posts, self.replies[index], strict=True):
            group = [next(parts) for _ in range(post.count(b";"))]
            assert post == b"".join(chunk for part in group for chunk in part.chunks)
            assert len({part.pair for part in group}) == 1
            assert len(group) == 1 or sum(part.samples for part in group) <= GROUP_SAMPLES
            assert len(group) == 1 or self.refusals[index] == "partial"
            outcome = judge(reply, self.refusals[index], NOW_MS)
            for part in group:
                told = [trouble for trouble in part.batch.troubles if trouble.part is part]
                if reply.status == OK.status:
                    delivered += part.samples
                    assert told == []
                else:
                    assert told == [Trouble(self.lanes[index].tenant, part, outcome)]
        assert list(parts) == []
        assert self.books[index].delivered == delivered
        assert self.books[index].imbalance() == 0


REPLIES = st.sampled_from([OK, OK, Reply(400), Reply(404), Reply(503, "1"), Reply(429), Reply(0, error="reset")])
STEPS = st.lists(
    st.one_of(
        st.builds(
            lambda wanted: lambda model: model.offer(wanted),
            st.lists(
                st.tuples(st.integers(0, 2), st.sampled_from(["a", "b"]), st.sampled_from([1, 10, 4000, 20_000])),
                max_size=5,
            ),
        ),
        st.builds(lambda lane, reply: lambda model: model.answer(lane, reply), st.integers(0, 2), REPLIES),
        st.builds(lambda seconds: lambda model: model.loop.advance(seconds), st.sampled_from([0, 0.001, 0.003, 0.02])),
    ),
    max_size=40,
)


@pytest.mark.fuzz
@given(st.lists(st.sampled_from(["partial", "partial", "whole"]), min_size=1, max_size=3), STEPS)
def test_any_schedule(refusals: list[Refusal], steps: list[Step]) -> None:
    """Whatever comes when, and whatever is answered: in order, one in flight, pairs apart, settled once, books even."""
    model = Model(refusals)
    for step in steps:
        step(model)
    model.finish()
    model.check()
