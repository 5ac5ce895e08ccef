"""A lane whose upstream takes what it is sent, in time."""

import asyncio

import pytest

from proxy.core.books import TenantBooks
from proxy.core.outcome import Refused, Reply, Retryable
from proxy.lanes.batch import Batch
from proxy.lanes.group import GROUP_BYTES, GROUP_SAMPLES
from proxy.lanes.lane import BUSY_SECONDS, Lane
from proxy.lanes.pacer import HOLD_SECONDS
from tests.proxy.fakes import Bench, Fakes, FakeUpstream, part_of
from tests.proxy.receiver import until

OK = Reply(204)


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
    bench.loop.advance(0.5)
    assert bench.upstream.posts == [b"1"]
    bench.reply()
    assert bench.upstream.posts == [b"1", b"23"]
    assert [batch.open for batch in batches] == [0, 1, 1]
    bench.reply()
    assert [batch.open for batch in batches] == [0, 0, 0]
    assert (bench.books.parts, bench.books.delivered) == (3, 3)


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


@pytest.mark.parametrize(
    ("reply", "outcome", "delivered", "dropped"),
    [
        (Reply(200), None, 2, {}),
        (Reply(400), Refused("upstream_400_partial", 400), 0, {"upstream_400_partial": 2}),
        (Reply(404), Refused("upstream_404", 404), 0, {"upstream_404": 2}),
        (Reply(422), Refused("upstream_422", 422), 0, {"upstream_422": 2}),
    ],
)
def test_outcomes(reply: Reply, outcome: Refused | None, delivered: int, dropped: dict[str, int]) -> None:
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
    """Made parts are in `made` when they end."""
    bench = Bench()
    for reply in (OK, Reply(400)):
        bench.lane.put(part_of(Batch(bench.loop, 1), [], 5, made=2))
        bench.loop.run()
        bench.reply(reply)
    assert (bench.books.parts, bench.books.made) == (10, 4)


def test_exemplars_and_metadata_are_counted_with_their_end() -> None:
    """What is no sample is counted once, where its request ends; metadata that is refused costs nothing else."""
    bench = Bench()
    for reply in (OK, Reply(400)):
        with_exemplars = part_of(Batch(bench.loop, 1), [b"1"], 1)
        with_exemplars.exemplars = 3
        bench.lane.put(with_exemplars)
        bench.loop.run()
        bench.reply(reply)
    for reply in (OK, Reply(400), Reply(503)):
        metadata = part_of(Batch(bench.loop, 1), [b"2"], 0)
        metadata.metadata = 2
        bench.lane.put(metadata)
        bench.loop.run()
        bench.reply(reply)
        assert (metadata.batch.open, metadata.batch.troubles) == (0, [])
    counts = bench.fakes.books
    assert (counts.exemplars, counts.metadata) == ({"delivered": 3, "dropped": 3}, {"delivered": 2, "dropped": 4})
    assert bench.books.parts == 2


@pytest.mark.parametrize("attribute", ["metadata", "replay"])
def test_what_travels_by_itself(attribute: str) -> None:
    """Metadata, and what comes from the quarantine, share no request with live samples; order is kept."""
    bench = Bench()
    bench.put(b"1")
    apart = part_of(Batch(bench.loop, 1), [b"2"], 0)
    setattr(apart, attribute, 1)
    bench.lane.put(apart)
    bench.put(b"3")
    bench.loop.run()
    for _ in range(2):
        bench.reply()
    assert bench.upstream.posts == [b"1", b"2", b"3"]


def test_a_replay_that_is_too_old() -> None:
    """What a store says is too old of a replay is dropped as such; of live samples it is a refusal as any other."""
    bench = Bench()
    for replay in (True, False):
        part = part_of(Batch(bench.loop, 1), [b"1"], 1)
        part.replay = replay
        bench.lane.put(part)
        bench.loop.run()
        bench.reply(Reply(400, body=b"user=t: err: out of order sample. timestamp=..."))
    assert bench.books.dropped == {"too_old": 1, "upstream_400_partial": 1}


def test_observed() -> None:
    """Each request is told with tenant, code and duration."""
    bench = Bench()
    for reply in (OK, Reply(0, error="reset")):
        bench.put(b"1")
        bench.loop.run()
        bench.loop.advance(0.25)
        bench.upstream.reply(reply)
    assert bench.fakes.observed == [("team-ml", "204", 0.25), ("team-ml", "reset", 0.25)]


def test_attempt_is_passed_on() -> None:
    """The number of the sender's attempt goes out with a request."""
    bench = Bench()
    bench.put(b"1", attempt=3)
    bench.loop.run()
    assert bench.upstream.attempts == [3]


def test_idle_lane_has_nothing_scheduled() -> None:
    """With all settled neither a callback nor a timer is left."""
    bench = _crowded()
    bench.loop.advance(bench.fakes.park_after)
    assert bench.loop.idle
    assert not bench.lane._groups


def test_close() -> None:
    """Closing settles what waits as retryable, at once, and later parts too; what is in flight is parked as it ends."""
    bench = Bench()
    first = bench.put(b"1")
    bench.loop.run()
    second = bench.put(b"2", b"3")
    bench.lane.close()
    third = bench.put(b"4")
    bench.lane.close()
    bench.loop.run()
    assert (first.open, first.troubles) == (0, [])
    assert [record.entries for record in bench.queue.held] == [b"1"]
    assert [trouble.outcome for trouble in (*second.troubles, *third.troubles)] == [Retryable("stopping")] * 3
    assert (bench.upstream.posts, bench.upstream.closed) == ([b"1"], True)
    assert bench.books == TenantBooks(parts=1, queued=1)


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
    lane = Fakes(loop=loop).lane("team-ml", upstream)
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
    """A drain that takes too long ends with its caller's timeout; what is parked then is durable, and nothing waits."""
    loop = asyncio.get_running_loop()
    fakes = Fakes(loop=loop)
    outlet = fakes.outlet("team-ml", FakeUpstream())
    lane = Lane(outlet, fakes.common)
    batch = Batch(loop, 1)
    lane.put(part_of(batch, [b"1"], 1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await lane.drain()
    lane.park_all()
    await batch.wait()
    assert (batch.troubles, outlet.queue.records) == ([], 1)
    lane.close()
    await lane.drain()
    assert (outlet.queue.records, fakes.books.imbalances()) == (1, ())


class _Broken(FakeUpstream):
    def encode(self, message: bytes) -> bytes:
        raise MemoryError


def test_a_defect_stays_in_its_lane() -> None:
    """An upstream that raises costs its own parts, which are queued, and no other lane's."""
    bench = Bench()
    outlet = bench.fakes.outlet("broken", _Broken())
    batch = Batch(bench.loop, 1)
    Lane(outlet, bench.fakes.common).put(part_of(batch, [b"1"], 1))
    bench.put(b"2")
    bench.loop.run()
    assert (batch.open, outlet.queue.records, bench.fakes.books.tenant("broken").queued) == (0, 1, 1)
    assert bench.upstream.posts == [b"2"]
