import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field

import pytest

from proxy.batch import Batch
from proxy.core.books import TenantBooks
from proxy.core.outcome import Outcome, Refusal, Refused, Reply, Retryable
from proxy.lane import BUSY_SECONDS, GROUP_BYTES, GROUP_SAMPLES, Common, Lane
from proxy.pacer import HOLD_SECONDS, Pacer
from tests.proxy.fakes import FakeLoop, FakeUpstream, part_of
from tests.proxy.receiver import until

OK = Reply(204)
NOW_MS = 1_000_000


@dataclass
class Bench:
    """A lane with everything around it in the test's hand."""

    refusal: Refusal = "partial"
    loop: FakeLoop = field(default_factory=FakeLoop)
    upstream: FakeUpstream = field(default_factory=FakeUpstream)
    books: TenantBooks = field(default_factory=TenantBooks)
    observed: list[tuple[str, str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.common = Common(Pacer(self.loop), self._observe, self.loop.time, lambda: NOW_MS)
        self.lane = Lane("team-ml", self.upstream, self.refusal, self.books, self.common)

    def _observe(self, tenant: str, code: str, seconds: float) -> None:
        self.observed.append((tenant, code, seconds))

    def put(self, *bodies: bytes, pair: Hashable = "a", attempt: int = 0) -> Batch:
        """Put parts of one batch, one sample each."""
        batch = Batch(self.loop, len(bodies), attempt)
        for body in bodies:
            self.lane.put(part_of(batch, [body], 1, pair))
        return batch

    def reply(self, reply: Reply = OK) -> None:
        """Answer, and run what follows from it now."""
        self.upstream.reply(reply)
        self.loop.run()


def test_a_quiet_lane_sends_in_the_next_round() -> None:
    """A part goes out without waiting for time to pass, together with all that came in the same round."""
    bench = Bench()
    bench.put(b"1")
    bench.put(b"2")
    assert bench.upstream.posts == []
    bench.loop.run()
    assert bench.upstream.posts == [b"12"]


def test_what_comes_meanwhile_goes_together() -> None:
    """While a request is in flight parts gather, and go out in one request, in the order in which they came."""
    bench = Bench()
    batches = [bench.put(b"1")]
    bench.loop.run()
    batches += [bench.put(b"2"), bench.put(b"3")]
    bench.loop.advance(5)
    assert bench.upstream.posts == [b"1"]
    bench.reply()
    assert bench.upstream.posts == [b"1", b"23"]
    assert [batch.open for batch in batches] == [0, 1, 1]
    bench.reply()
    assert [batch.open for batch in batches] == [0, 0, 0]
    assert (bench.books.parts, bench.books.delivered) == (3, 3)


def test_what_was_given_up_does_not_go_out() -> None:
    """A part whose sender was told to send again is let go when its turn comes: a store that hangs gathers none."""
    bench = Bench()
    bench.put(b"1")
    bench.loop.run()
    given_up, kept, alone = bench.put(b"2"), bench.put(b"3"), bench.put(b"4", pair="b")
    given_up.given_up = alone.given_up = True
    bench.reply()
    assert bench.upstream.posts == [b"1", b"3"]
    assert [(trouble.outcome) for trouble in given_up.troubles] == [Retryable("unanswered")]
    bench.reply()
    assert bench.upstream.posts == [b"1", b"3"]
    assert [batch.open for batch in (given_up, kept, alone)] == [0, 0, 0]
    assert (bench.books.parts, bench.books.delivered) == (2, 2)
    bench.put(b"5")
    bench.loop.run()
    assert bench.upstream.posts[2:] == [b"5"]


def _crowded() -> Bench:
    """A lane whose last request, just now, bore two parts."""
    bench = Bench()
    bench.put(b"1")
    bench.put(b"2")
    bench.loop.run()
    bench.reply()
    return bench


def test_a_crowded_lane_is_held() -> None:
    """Right after a request with several parts the next part waits a little for others."""
    bench = _crowded()
    bench.put(b"3")
    bench.loop.run()
    bench.loop.advance(HOLD_SECONDS / 2)
    bench.put(b"4")
    assert bench.upstream.posts == [b"12"]
    bench.loop.advance(HOLD_SECONDS)
    assert bench.upstream.posts == [b"12", b"34"]


def test_a_lane_that_was_crowded_is_quiet_again() -> None:
    """Some time after its last request a lane sends at once, whatever that request bore."""
    bench = _crowded()
    bench.loop.advance(BUSY_SECONDS * 1.01)
    bench.put(b"3")
    bench.loop.run()
    assert bench.upstream.posts == [b"12", b"3"]


def test_a_lane_with_single_parts_is_not_held() -> None:
    """A part that follows a request with one part goes out at once."""
    bench = Bench()
    for number in range(3):
        bench.put(b"%d" % number)
        bench.loop.run()
        bench.reply()
    assert bench.upstream.posts == [b"0", b"1", b"2"]


def test_pairs_do_not_mix() -> None:
    """Parts of two pairs never share a request, and order counts more than fewer requests."""
    bench = Bench()
    for body, pair in ((b"1", "a"), (b"2", "a"), (b"3", "b"), (b"4", "a")):
        bench.put(body, pair=pair)
    bench.loop.run()
    for _ in range(3):
        bench.reply()
        bench.loop.advance(1)
    assert bench.upstream.posts == [b"12", b"3", b"4"]


@pytest.mark.parametrize(
    ("size", "samples", "posts"),
    [
        (GROUP_BYTES // 2, 1, [2, 1]),
        (GROUP_BYTES // 2 + 1, 1, [1, 1, 1]),
        (GROUP_BYTES * 2, 1, [1, 1, 1]),
        (1, GROUP_SAMPLES // 2, [2, 1]),
        (1, GROUP_SAMPLES // 2 + 1, [1, 1, 1]),
        (1, GROUP_SAMPLES * 2, [1, 1, 1]),
        (1, GROUP_SAMPLES // 3, [3]),
    ],
)
def test_limits_of_a_request(size: int, samples: int, posts: list[int]) -> None:
    """Parts go together up to the limits of bytes and samples; one that is larger goes alone, whole."""
    bench = Bench()
    batch = Batch(bench.loop, 3)
    for _ in range(3):
        bench.lane.put(part_of(batch, [bytes(size)], samples))
    bench.loop.run()
    for _ in posts:
        bench.reply()
        bench.loop.advance(1)
    assert [len(post) // size for post in bench.upstream.posts] == posts


def test_a_whole_refusal_hits_one_part() -> None:
    """To an upstream whose 400 refuses everything each part goes alone, so that only its own samples are lost."""
    bench = Bench(refusal="whole")
    batch = bench.put(b"1", b"2", b"3")
    bench.loop.run()
    for reply in (OK, Reply(400), OK):
        bench.reply(reply)
    assert bench.upstream.posts == [b"1", b"2", b"3"]
    assert [b"".join(trouble.part.chunks) for trouble in batch.troubles] == [b"2"]
    assert (bench.books.delivered, bench.books.dropped) == (2, {"upstream_400": 1})


@pytest.mark.parametrize(
    ("reply", "outcome", "delivered", "dropped"),
    [
        (Reply(200), None, 2, {}),
        (Reply(400), Refused("upstream_400_partial", 400), 0, {"upstream_400_partial": 2}),
        (Reply(413), Refused("upstream_413", 413), 0, {"upstream_413": 2}),
        (Reply(503, "9"), Retryable("upstream_503", 9.0), 0, {}),
        (Reply(401), Retryable("upstream_401"), 0, {}),
        (Reply(0, error="refused"), Retryable("upstream_refused"), 0, {}),
    ],
)
def test_outcomes(reply: Reply, outcome: Outcome | None, delivered: int, dropped: dict[str, int]) -> None:
    """Every part of a request gets its outcome, every batch is told, and the books count what stays here."""
    bench = Bench()
    batches = [bench.put(b"1"), bench.put(b"2")]
    bench.loop.run()
    bench.reply(reply)
    for batch in batches:
        assert batch.open == 0
        assert [trouble.outcome for trouble in batch.troubles] == ([] if outcome is None else [outcome])
    assert (bench.books.delivered, bench.books.dropped) == (delivered, dropped)
    assert bench.books.imbalance() == 0


def test_parts_that_we_made_are_counted_with_their_end() -> None:
    """Made parts are in `made` when they end here, and not when they go back to a sender."""
    bench = Bench()
    for reply in (OK, Reply(400), Reply(503)):
        bench.lane.put(part_of(Batch(bench.loop, 1), [], 5, made=2))
        bench.loop.run()
        bench.reply(reply)
    assert (bench.books.parts, bench.books.made) == (10, 4)


def test_observed() -> None:
    """Each request is told with tenant, code and duration."""
    bench = Bench()
    for reply in (OK, Reply(0, error="reset")):
        bench.put(b"1")
        bench.loop.run()
        bench.loop.advance(0.5)
        bench.reply(reply)
    assert bench.observed == [("team-ml", "204", 0.5), ("team-ml", "reset", 0.5)]


def test_attempt_is_passed_on() -> None:
    """The number of the sender's attempt goes out with a request."""
    bench = Bench()
    bench.put(b"1", attempt=3)
    bench.loop.run()
    assert bench.upstream.attempts == [3]


def test_idle_lane_has_nothing_scheduled() -> None:
    """With all settled neither a callback nor a timer is left."""
    bench = _crowded()
    assert bench.loop.idle
    assert not bench.lane._groups


def test_close() -> None:
    """Closing settles what waits and what is in flight as retryable, at once, and later parts too."""
    bench = Bench()
    first = bench.put(b"1")
    bench.loop.run()
    second = bench.put(b"2", b"3")
    bench.lane.close()
    third = bench.put(b"4")
    bench.lane.close()
    bench.loop.advance(1)
    assert [trouble.outcome for trouble in first.troubles] == [Retryable("upstream_closed")]
    assert [trouble.outcome for trouble in (*second.troubles, *third.troubles)] == [Retryable("stopping")] * 3
    assert (bench.upstream.posts, bench.upstream.closed) == ([b"1"], True)
    assert bench.books == TenantBooks()


def test_close_before_the_round_ends() -> None:
    """A lane that is closed between put and send sends nothing."""
    bench = Bench()
    batch = bench.put(b"1")
    bench.lane.close()
    bench.loop.run()
    assert (bench.upstream.posts, batch.troubles[0].outcome) == ([], Retryable("stopping"))


async def test_drain() -> None:
    """Draining refuses new parts, and returns when everything in hand is settled."""
    loop = asyncio.get_running_loop()
    upstream = FakeUpstream()
    lane = Lane("team-ml", upstream, "partial", TenantBooks(), Common(Pacer(loop), lambda *_: None))
    batch = Batch(loop, 2)
    lane.put(part_of(batch, [b"1"], 1))
    lane.put(part_of(batch, [b"2"], 1, "b"))
    drained = asyncio.ensure_future(lane.drain())
    for _ in range(2):
        await until(lambda: upstream.busy)
        assert not drained.done()
        upstream.reply(OK)
    await drained
    await batch.wait()
    late = Batch(loop, 1)
    lane.put(part_of(late, [b"3"], 1))
    assert late.troubles[0].outcome == Retryable("stopping")
    await lane.drain()


async def test_drain_may_be_given_up() -> None:
    """A drain that takes too long ends with its caller's timeout, and close settles the rest."""
    loop = asyncio.get_running_loop()
    lane = Lane("team-ml", FakeUpstream(), "partial", TenantBooks(), Common(Pacer(loop), lambda *_: None))
    batch = Batch(loop, 1)
    lane.put(part_of(batch, [b"1"], 1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await lane.drain()
    lane.close()
    await batch.wait()
    assert batch.troubles[0].outcome == Retryable("upstream_closed")


class _Broken(FakeUpstream):
    def encode(self, message: bytes) -> bytes:
        raise MemoryError


def test_a_defect_stays_in_its_lane() -> None:
    """An upstream that raises costs its own parts, which are settled, and no other lane's."""
    bench = Bench()
    broken = Lane("broken", _Broken(), "partial", TenantBooks(), bench.common)
    batch = Batch(bench.loop, 1)
    broken.put(part_of(batch, [b"1"], 1))
    bench.put(b"2")
    bench.loop.run()
    assert batch.troubles[0].outcome == Retryable("upstream_internal")
    assert bench.upstream.posts == [b"2"]
