"""A lane whose upstream is in trouble: what is queued, what is tried again and when, what its senders are told."""

import dataclasses
from collections.abc import Callable

import pytest

from proxy.core.books import TenantBooks
from proxy.core.errors import QueueFullError, StorageError
from proxy.core.outcome import Refused, Reply, Retryable
from proxy.lanes.batch import Batch
from proxy.lanes.trouble import APPENDING_BYTES, MERGED_BYTES, PROBE_BYTES
from tests.proxy.core.messages import blob, block, sample
from tests.proxy.fakes import NOW_MS, Bench, FakeUpstream, part_of

OK = Reply(204)
DOWN = Reply(503)
A_WHILE = 15.0
"""Seconds after which whatever failed has been tried again."""


def _failed(*bodies: bytes, reply: Reply = DOWN) -> tuple[Bench, list[Batch]]:
    """A lane whose first request, with one part for each body, has failed."""
    bench = Bench()
    batches = [bench.put(body) for body in bodies]
    bench.loop.run()
    bench.reply(reply)
    return bench, batches


@pytest.mark.parametrize(
    "reply", [Reply(301), Reply(401), Reply(403), Reply(408), Reply(429), Reply(500), Reply(0, error="refused")]
)
def test_what_may_pass_later_is_queued_and_acknowledged(reply: Reply) -> None:
    """Every failure that may pass leaves the parts in the queue, and their senders have their answer."""
    bench, batches = _failed(b"1", b"2", reply=reply)
    assert [(batch.open, batch.troubles) for batch in batches] == [(0, []), (0, [])]
    assert [(record.entries, record.samples, record.attempted) for record in bench.queue.held] == [(b"12", 2, True)]
    assert bench.books == TenantBooks(parts=2, queued=2)
    assert bench.lane.waits_for == f"upstream_{reply.code}"


def test_what_comes_later_goes_behind() -> None:
    """While something is queued all that is new is queued too, and goes out behind it, in order."""
    bench, _ = _failed(b"1")
    later = [bench.put(b"2"), bench.put(b"3"), bench.put(b"4")]
    bench.loop.run()
    assert [batch.open for batch in later] == [0, 0, 0]
    assert [record.entries for record in bench.queue.held] == [b"1", b"2", b"3", b"4"]
    bench.loop.advance(A_WHILE)
    bench.reply()
    bench.reply()
    assert bench.upstream.posts == [b"1", b"1", b"234"]
    assert bench.upstream.attempts == [0, 1, 0]
    assert bench.books == TenantBooks(parts=4, delivered=4)
    bench.put(b"5")
    bench.loop.run()
    assert (bench.upstream.posts[3:], bench.queue.records, bench.lane.waits_for) == ([b"5"], 0, "")


def test_what_waits_in_memory_is_queued_behind_what_failed() -> None:
    """Parts that gathered behind a request that fails are queued with it, and keep their place."""
    bench = Bench()
    batches = [bench.put(b"1")]
    bench.loop.run()
    batches += [bench.put(b"2"), bench.put(b"3", pair=("c", "r")), bench.put(b"4")]
    bench.reply(DOWN)
    assert [record.entries for record in bench.queue.held] == [b"1", b"2", b"3", b"4"]
    assert bench.queue.held[2].pair == ("c", "r")
    assert [batch.open for batch in batches] == [0] * 4
    bench.loop.advance(A_WHILE)
    for _ in range(4):
        bench.reply()
    assert bench.upstream.posts[1:] == [b"1", b"2", b"3", b"4"]


def test_an_answer_that_does_not_come_parks() -> None:
    """After `park_after` all in hand is queued and acknowledged; the attempt goes on, and may end well."""
    bench = Bench(park_after=1.0)
    first = bench.put(b"1")
    bench.loop.run()
    bench.loop.advance(0.9)
    second = bench.put(b"2")
    assert (first.open, bench.queue.records) == (1, 0)
    bench.loop.advance(0.4)
    assert (first.open, second.open, bench.queue.records) == (0, 0, 2)
    third = bench.put(b"3")
    bench.loop.run()
    assert (third.open, bench.upstream.posts) == (0, [b"1"])
    bench.reply()
    assert bench.upstream.posts == [b"1", b"23"]
    bench.reply()
    assert bench.books == TenantBooks(parts=3, delivered=3)
    assert bench.queue.records == 0


def test_an_attempt_that_fails_after_parking_is_made_again() -> None:
    """What was parked in flight goes out again with the same bytes when the attempt fails, or is refused for good."""
    for reply, again in ((DOWN, [b"1", b"1"]), (Reply(400), [b"1"])):
        bench = Bench()
        bench.put(b"1")
        bench.loop.run()
        bench.loop.advance(2)
        bench.reply(reply)
        bench.loop.advance(A_WHILE)
        assert bench.upstream.posts == again
        if bench.upstream.busy:
            bench.reply()
        assert (bench.books.queued, bench.books.imbalance()) == (0, 0)


def test_a_reply_that_comes_while_parking() -> None:
    """A reply that comes while the disk is written counts when that is done: no part is told or counted twice."""
    for reply, delivered in ((OK, 1), (DOWN, 0)):
        bench = Bench()
        bench.queue.slow = True
        batch = bench.put(b"1")
        bench.loop.run()
        bench.loop.advance(2)
        bench.reply(reply)
        assert (batch.open, bench.books.parts) == (1, 0)
        bench.queue.write()
        bench.loop.run()
        assert (batch.open, batch.troubles, bench.books.delivered) == (0, [], delivered)
        assert bench.queue.records == 1 - delivered
        assert bench.books.imbalance() == 0


WAITS = """
503     | 0.2 0.4 0.8 1.6 3.2 6.4 10 10
429     | 1 2 4 8 16 30 30
refused | 0.2 0.4 0.8
401     | 30 60 120 240 300 300
302     | 30 60
"""


@pytest.mark.parametrize("row", WAITS.strip().splitlines())
def test_pauses(row: str) -> None:
    """One request is tried after each pause, whose length follows from what failed, and none before."""
    word, waits = (cell.strip() for cell in row.split("|"))
    reply = Reply(int(word)) if word.isdigit() else Reply(0, error=word)
    bench, _ = _failed(b"1", reply=reply)
    for number, wait in enumerate(map(float, waits.split()), 1):
        bench.loop.advance(wait * 0.99)
        assert len(bench.upstream.posts) == number
        bench.loop.advance(wait * 0.02)
        assert len(bench.upstream.posts) == number + 1
        bench.reply(reply)


def test_retry_after_is_honoured() -> None:
    """A store that asks for a pause gets it, in this lane."""
    bench, _ = _failed(b"1", reply=Reply(503, "7"))
    bench.loop.advance(6.9)
    assert len(bench.upstream.posts) == 1
    bench.loop.advance(0.2)
    assert len(bench.upstream.posts) == 2


def test_another_upstream_is_tried_at_once() -> None:
    """When the endpoint changes nothing of the pause is left, and what is queued goes to the new one."""
    bench, _ = _failed(b"1", reply=Reply(401))
    other = FakeUpstream()
    bench.lane.replace(other, "partial")
    assert (other.posts, bench.upstream.closed) == ([b"1"], True)


@pytest.mark.parametrize("error", [StorageError("no space"), QueueFullError("full")])
def test_what_cannot_be_queued_goes_back(error: StorageError) -> None:
    """While the disk takes nothing senders are told to send again, at once; when it does, all goes on by itself."""
    bench = Bench()
    bench.queue.error = error
    first = bench.put(b"1")
    bench.loop.run()
    bench.reply(DOWN)
    second = bench.put(b"2")
    bench.loop.run()
    for batch in (first, second):
        assert [trouble.outcome for trouble in batch.troubles] == [Retryable(error.reason)]
    assert bench.books == TenantBooks()
    bench.queue.error = None
    third = bench.put(b"3")
    bench.loop.run()
    assert (third.open, third.troubles, bench.queue.records) == (0, [], 1)
    bench.loop.advance(A_WHILE)
    bench.reply()
    assert bench.upstream.posts == [b"1", b"3"]
    assert bench.books == TenantBooks(parts=1, delivered=1)


def test_what_went_back_counts_only_where_it_arrives() -> None:
    """A part whose sender was told to send again, in flight meanwhile: counted if the store has it, else not at all."""
    for reply, books in ((OK, TenantBooks(parts=1, delivered=1)), (DOWN, TenantBooks())):
        bench = Bench()
        bench.queue.error = StorageError("no space")
        batch = bench.put(b"1")
        bench.loop.run()
        bench.loop.advance(2)
        assert [trouble.outcome for trouble in batch.troubles] == [Retryable("storage")]
        bench.reply(reply)
        bench.loop.advance(A_WHILE)
        assert bench.books == books
        assert bench.upstream.posts == [b"1"]
        bench.put(b"2")
        bench.loop.run()
        assert bench.upstream.posts == [b"1", b"2"]


def test_a_disk_that_hangs_gathers_no_more_than_its_bound() -> None:
    """What may wait for the disk is bounded; beyond that senders are told at once."""
    bench, _ = _failed(b"1")
    bench.queue.slow = True
    taken = bench.put(bytes(APPENDING_BYTES + 1))
    refused = bench.put(b"2")
    assert (taken.open, [trouble.outcome for trouble in refused.troubles]) == (1, [Retryable("storage")])
    bench.queue.write()
    assert (taken.open, taken.troubles) == (0, [])


def test_what_is_merged_grows_with_success() -> None:
    """After a failure the first merged request is small; each success lets twice as much travel together."""
    bench, _ = _failed(b"1")
    for _ in range(100):
        bench.lane.put(part_of(Batch(bench.loop, 1), [bytes(PROBE_BYTES // 2)], 1))
    bench.loop.run()
    bench.loop.advance(A_WHILE)
    while bench.upstream.busy:
        bench.reply()
    sizes = [2 * len(post) // PROBE_BYTES for post in bench.upstream.posts[2:]]
    assert sizes == [4, 8, 16, *[2 * MERGED_BYTES // PROBE_BYTES] * 2, 100 - 28 - 64]


def test_metadata_is_not_kept() -> None:
    """Metadata of a tenant in trouble is dropped and counted, whether it waits already or comes later."""
    bench = Bench()
    bench.put(b"1")
    bench.loop.run()
    for _ in range(2):
        part = part_of(Batch(bench.loop, 1), [b"m"], 0)
        part.metadata = 3
        bench.lane.put(part)
        if bench.upstream.busy:
            bench.reply(DOWN)
        assert (part.batch.open, part.batch.troubles) == (0, [])
    assert (bench.fakes.books.metadata, bench.queue.records) == ({"dropped": 6}, 1)


def _entry(name: str) -> bytes:
    return blob(1, block(("__name__", name)) + sample())


def _refusing(bad: set[str]) -> Callable[[bytes], Reply]:
    """A store whose 400 refuses all of a request that has a bad series."""
    return lambda post: Reply(400) if any(_entry(name) in post for name in bad) else OK


def _answer(bench: Bench, store: Callable[[bytes], Reply]) -> None:
    while bench.upstream.busy:
        bench.reply(store(bench.upstream.posts[-1]))


def test_a_whole_refusal_costs_the_bad_series_alone() -> None:
    """Good series of a refused request arrive, also those of the same sender; only whose series are bad is told."""
    bench = Bench(refusal="whole")
    good = bench.put(_entry("a"), _entry("b"))
    bad = Batch(bench.loop, 1)
    bench.lane.put(part_of(bad, [_entry(name) for name in ("c", "x", "d", "e")], 4))
    bench.loop.run()
    _answer(bench, _refusing({"x"}))
    assert (good.open, good.troubles) == (0, [])
    assert [trouble.outcome for trouble in bad.troubles] == [Refused("upstream_400", 400)]
    assert bench.books == TenantBooks(parts=6, delivered=5, dropped=bench.books.dropped)
    assert bench.books.dropped == {"upstream_400": 1}
    assert bench.queue.records == 0


def test_a_refused_request_that_takes_long_is_parked() -> None:
    """What is not settled of a refused request after `park_after` is queued; nothing that was settled goes again."""
    bench = Bench(refusal="whole", park_after=1.0)
    batch = Batch(bench.loop, 2)
    bench.lane.put(part_of(batch, [_entry("a")], 1))
    bench.lane.put(part_of(batch, [_entry("x"), _entry("b")], 2))
    bench.loop.run()
    bench.reply(Reply(400))
    bench.reply(OK)
    assert batch.open == 1
    bench.loop.advance(1.5)
    assert (batch.open, batch.troubles, bench.books.queued) == (0, [], 2)
    _answer(bench, _refusing({"x"}))
    bench.loop.advance(A_WHILE)
    assert (bench.books.delivered, bench.books.dropped, bench.books.queued) == (2, {"upstream_400": 1}, 0)
    assert sum(_entry("a") in post for post in bench.upstream.posts) == 2
    assert bench.books.imbalance() == 0


def test_a_tiny_burst_limit_passes_in_pieces() -> None:
    """A tenant whose store takes five samples at once gets all of them, in order, though they came in one request."""
    bench = Bench()
    names = [f"m{number:02}" for number in range(23)]
    bench.lane.put(part_of(Batch(bench.loop, 1), [_entry(name) for name in names], len(names)))
    bench.loop.run()
    arrived: list[bytes] = []
    for _ in range(40):
        if bench.upstream.busy:
            post = bench.upstream.posts[-1]
            small = len(post) <= 5 * len(_entry("m00"))
            if small:
                arrived.append(post)
            bench.reply(OK if small else Reply(429))
        bench.loop.advance(40)
    assert b"".join(arrived) == b"".join(map(_entry, names))
    assert (bench.books.delivered, bench.books.queued) == (23, 0)


def test_what_is_tried_again_and_again_becomes_too_old() -> None:
    """A request that never passes is dropped when it is too old, as all that is queued; what is behind it goes on."""
    bench, _ = _failed(b"1")
    bench.put(b"2")
    bench.loop.run()
    for _ in range(5):
        bench.loop.advance(A_WHILE)
        bench.reply(DOWN)
    bench.queue.held[1] = dataclasses.replace(bench.queue.held[1], received_ms=NOW_MS + 1)
    bench.queue.oldest_ms = NOW_MS + 1
    bench.loop.advance(A_WHILE)
    assert bench.upstream.posts[-1] == b"2"
    bench.reply()
    assert (bench.books.dropped, bench.books.delivered, bench.books.imbalance()) == ({"queue_age": 1}, 1, 0)


def test_what_another_version_has_queued_waits_for_it() -> None:
    """Records of a remote write that this version does not send are neither sent as what they are not nor dropped."""
    bench, _ = _failed(b"1")
    later = Bench()
    later.queue.held = [dataclasses.replace(bench.queue.held[0], version="2.0")]
    later.books.recover(1)
    later.restart()
    later.put(b"2")
    later.loop.advance(A_WHILE)
    assert (later.upstream.posts, later.queue.records, later.lane.waits_for) == ([], 2, "backlog")
    assert (later.books.queued, later.books.imbalance()) == (2, 0)


def test_a_halted_lane_forgets_what_is_too_old() -> None:
    """What a tenant without an endpoint has in hand of its queue becomes too old too."""
    bench, _ = _failed(b"1")
    bench.loop.advance(A_WHILE)
    bench.reply(DOWN)
    bench.lane.halt()
    bench.lane.expire()
    assert bench.queue.records == 1
    bench.queue.oldest_ms = NOW_MS + 1
    bench.lane.expire()
    assert (bench.queue.records, bench.books.dropped, bench.books.queued) == (0, {"queue_age": 1}, 0)


def test_the_queue_of_an_earlier_life_goes_first() -> None:
    """A lane that begins with a queue sends what is in it before anything new."""
    bench, _ = _failed(b"1")
    bench.put(b"2")
    bench.loop.run()
    bench.lane.close()
    later = Bench()
    later.queue.held = bench.queue.held
    later.books.recover(2)
    later.restart()
    later.put(b"3")
    later.loop.run()
    for _ in range(2):
        later.reply()
    assert later.upstream.posts == [b"1", b"23"]
    assert later.books == TenantBooks(parts=1, recovered=2, delivered=3)


def test_a_tenant_that_goes_and_comes_back() -> None:
    """What a lane has in hand is queued when its tenant goes, nothing is sent, and all goes on when it is back."""
    bench = Bench()
    batch = bench.put(b"1")
    bench.loop.run()
    waiting = bench.put(b"2")
    bench.lane.halt()
    bench.loop.advance(A_WHILE)
    assert (batch.troubles, waiting.troubles, bench.queue.records) == ([], [], 2)
    assert (bench.upstream.posts, bench.upstream.closed) == ([b"1"], True)
    other = FakeUpstream()
    bench.lane.resume(other, "partial")
    bench.loop.run()
    bench.put(b"3")
    bench.loop.run()
    for _ in range(2):
        other.reply(OK)
        bench.loop.run()
    assert other.posts == [b"1", b"23"]
    assert bench.books == TenantBooks(parts=3, delivered=3)
