"""The books over the whole way: random configurations, ownership and requests, and whatever the upstreams answer."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.books import Books
from proxy.core.gathering import Moment, Taken
from proxy.core.outcome import Refusal, Reply
from proxy.core.tenancy import Tenancy, Trust
from proxy.ingest import combine
from proxy.lanes.batch import Batch
from proxy.lanes.lane import Lane
from tests.proxy.core.ledger import World
from tests.proxy.core.scene import Document, points_of, read_series
from tests.proxy.core.worlds import (
    BAD,
    COPIES,
    DEVICES,
    DOCUMENTS,
    OTHERS,
    TIMES,
    TRUSTS,
    Request,
    requests,
    tenancies,
)
from tests.proxy.fakes import FakeLoop, Fakes, FakeUpstream

pytestmark = pytest.mark.fuzz

KINDS = ["value", "value", "histogram", "stale", "exemplar"]
REPLIES = [
    *(Reply(status) for status in (200, 204, 204, 202, 400, 404, 413, 401, 403, 429, 500, 503, 302, 100)),
    *(Reply(0, error=word) for word in ("refused", "timeout", "reset")),
]
Step = tuple[list[Document], int] | Request | Reply
STEPS = st.lists(
    st.one_of(
        DOCUMENTS,
        requests([*DEVICES, *OTHERS, *BAD, *COPIES], KINDS, TIMES),
        requests([*DEVICES, *OTHERS], KINDS, TIMES),
        st.sampled_from(REPLIES),
        st.sampled_from(REPLIES),
    ),
    min_size=3,
    max_size=16,
)


@dataclass
class Pipeline:
    """An intake, a lane for each tenant, and upstreams that answer when told; and a ledger of what they took."""

    world: World
    refusal: Refusal
    loop: FakeLoop = field(default_factory=FakeLoop)
    upstreams: dict[str, FakeUpstream] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    batches: list[tuple[Taken, Batch]] = field(default_factory=list)
    took: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.fakes = Fakes(0.5, self.loop, self.books)

    @property
    def books(self) -> Books:
        return self.world.scene.intake.books

    def take(self, request: Request) -> None:
        """Take a request and put its parts into their lanes, as `Delivery` does."""
        body = b"".join(self.world._series(labels, points).to_bytes() for labels, points in request)
        taken = self.world.scene.intake.take(body, self.world.trust, Moment(0, 1))
        self.books.received["prom", "1.0"] += taken.received
        batch = Batch(self.loop, len(taken.parts))
        self.batches.append((taken, batch))
        for part in taken.parts:
            lane = self.lanes.get(part.tenant) or self._lane(part.tenant)
            part.batch = batch
            lane.put(part)
        self.loop.advance(0.1)

    def answer(self, reply: Reply) -> None:
        """Let every upstream with a request in flight answer it so."""
        for tenant, upstream in self.upstreams.items():
            if upstream.busy:
                if 200 <= reply.status < 300:
                    self.took[tenant] += _samples(upstream.posts[-1])
                upstream.reply(reply)
        self.loop.advance(0.1)

    def finish(self, last: Reply) -> None:
        """Answer `last` for a while, then let everything through."""
        for reply in (*[last] * 10, *[Reply(204)] * 2000):
            self.answer(reply)
            if not any(upstream.busy for upstream in self.upstreams.values()):
                self.loop.advance(400)  # longer than any pause
                if not any(upstream.busy for upstream in self.upstreams.values()):
                    return

    def _lane(self, tenant: str) -> Lane:
        upstream = self.upstreams[tenant] = FakeUpstream()
        lane = self.lanes[tenant] = self.fakes.lane(tenant, upstream, self.refusal)
        return lane


def _samples(post: bytes) -> int:
    values = [value for series in read_series(post) for _, value in points_of(series)]
    return sum(not str(value).startswith("exemplar") for value in values)


@given(tenancies(), TRUSTS, STEPS, st.sampled_from(["partial", "whole"]), st.sampled_from(REPLIES))
def test_books_balance_whatever_upstreams_answer(
    tenancy: Tenancy, trust: Trust, steps: list[Step], refusal: Refusal, last: Reply
) -> None:
    """Each sample has one fate, each part ends once, and what the books say was delivered is what upstreams took."""
    line = Pipeline(World.of(tenancy, trust), refusal)
    for step in steps:
        match step:
            case Reply():
                line.answer(step)
            case (list() as devices, int(until)):
                line.world.load(devices, until)
            case list():
                line.take(step)
    line.finish(last)
    assert line.books.imbalances() == ()
    assert all(batch.open == 0 for _, batch in line.batches)
    for tenant, books in line.books.tenants.items():
        assert books.delivered == line.took[tenant]
        assert books.queued == books.recovered == 0
    _answers_follow(line)


def _answers_follow(line: Pipeline) -> None:
    """What may pass later is queued, so that no sender is told to send again; permanent outranks success."""
    for taken, batch in line.batches:
        outcomes = [(trouble.tenant, trouble.outcome) for trouble in batch.troubles]
        assert combine(taken, outcomes).status == (400 if taken.refusals or outcomes else 204)
