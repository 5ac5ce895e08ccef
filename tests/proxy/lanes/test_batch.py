import asyncio

import pytest

from proxy.core.outcome import Retryable
from proxy.lanes.batch import Batch, Undelivered
from tests.proxy.fakes import part_of


async def test_waits_for_the_last_part() -> None:
    """The wait ends with the last part that is settled, not before."""
    batch = Batch(asyncio.get_running_loop(), 2)
    waiting = asyncio.ensure_future(batch.wait())
    batch.delivered()
    await asyncio.sleep(0)
    assert not waiting.done()
    part = part_of(batch, [], 1)
    batch.settle("team-ml", part, Retryable("x"))
    await waiting
    assert batch.troubles == [Undelivered("team-ml", part, Retryable("x"))]


async def test_tells_when_it_is_settled() -> None:
    """Whoever asks is called once, after the last part is settled, also where that was before."""
    batch = Batch(asyncio.get_running_loop(), 2)
    called: list[str] = []
    batch.when_settled(lambda: called.append("early"))
    batch.delivered()
    await asyncio.sleep(0)
    assert called == []
    batch.delivered()
    batch.when_settled(lambda: called.append("late"))
    await asyncio.sleep(0)
    assert called == ["early", "late"]


async def test_without_parts() -> None:
    """A request that goes to nobody is settled from the start."""
    await Batch(asyncio.get_running_loop(), 0).wait()


async def test_giving_up_leaves_the_batch_alone() -> None:
    """Who stops waiting does not end the wait of the parts: they may still be settled, and waited for again."""
    batch = Batch(asyncio.get_running_loop(), 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await batch.wait()
    batch.delivered()
    await batch.wait()
    assert batch.open == 0
