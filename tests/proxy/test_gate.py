import asyncio

import pytest

from proxy.gate import Gate


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_shared_work_goes_on_side_by_side() -> None:
    """Any number may be inside, and none of them waits."""
    gate = Gate()
    async with asyncio.timeout(1):
        for _ in range(3):
            await gate.enter()
    for _ in range(3):
        gate.leave()


async def test_who_wants_to_be_alone_waits_for_all_and_holds_up_the_rest() -> None:
    """It begins when the last is out; who comes meanwhile begins when it has ended, in the order of coming."""
    gate = Gate()
    done: list[str] = []
    go_on = asyncio.Event()

    async def alone() -> None:
        async with gate.alone():
            done.append("alone")
            await go_on.wait()

    async def shared(name: str) -> None:
        await gate.enter()
        done.append(name)
        gate.leave()

    await gate.enter()
    await gate.enter()
    async with asyncio.TaskGroup() as group:
        group.create_task(alone())
        await settle()
        group.create_task(shared("first"))
        group.create_task(shared("second"))
        await settle()
        gate.leave()
        await settle()
        assert done == []
        gate.leave()
        await settle()
        assert done == ["alone"]
        go_on.set()
    assert done == ["alone", "first", "second"]


@pytest.mark.parametrize("waits", [True, False], ids=["while it waits", "while it works"])
async def test_who_gives_up_opens_the_gate(waits: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Cancelled while it waits, or failed while alone, it leaves nobody standing outside."""
    gate = Gate()
    if waits:
        await gate.enter()

    async def alone() -> None:
        async with gate.alone():
            await asyncio.sleep(60)

    task = asyncio.create_task(alone())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(1):
        await gate.enter()
