"""The parts of one inbound request, and the moment when the last of them is settled."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from proxy.core.outcome import Outcome
from proxy.core.wire import Part


class Undelivered(NamedTuple):
    """A part that was not delivered."""

    tenant: str
    part: Part
    outcome: Outcome


class Futures(Protocol):
    """What a batch needs of an event loop."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future of the loop."""


class Batch:
    """Made with the number of parts that will be settled; `wait` ends with the last of them.

    `attempt` is the sender's `Retry-Attempt`, passed on. `troubles` are the parts, so far, that were neither delivered
    nor made durable.
    """

    __slots__ = ("_done", "_open", "attempt", "troubles")

    def __init__(self, loop: Futures, parts: int, attempt: int = 0) -> None:
        self.attempt = attempt
        self.troubles: list[Undelivered] = []
        self._open = parts
        self._done: asyncio.Future[None] = loop.create_future()
        if not parts:
            self._done.set_result(None)

    @property
    def open(self) -> int:
        """Parts that are not settled yet."""
        return self._open

    async def wait(self) -> None:
        """Return when every part is settled. Who gives up waiting leaves the parts under way."""
        await asyncio.shield(self._done)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call, later, when every part is settled."""
        self._done.add_done_callback(lambda _: call())

    def delivered(self) -> None:
        """One part is delivered, or durable in the queue of its tenant."""
        self._open -= 1
        if not self._open:
            self._done.set_result(None)

    def settle(self, tenant: str, part: Part, outcome: Outcome) -> None:
        """One part ended otherwise."""
        self.troubles.append(Undelivered(tenant, part, outcome))
        self.delivered()
