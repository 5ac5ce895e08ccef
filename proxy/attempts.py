"""The attempts of requests while they are worked on: a sender that gave up early sends again what is still under way.

The further attempt waits for the earlier one, so that it can leave out what that has done. Used by one event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from proxy.core.errors import StorageError, UnderwayError
from proxy.core.had import Had
from proxy.core.outcome import Outcome
from proxy.core.resends import Attempt, Key, Resends
from proxy.core.wire import Part

PATIENCE_SECONDS: Final = 10.0
"""How long an attempt waits for the one before it: with its own 20 s it is answered before its sender gives up."""


class Settling(Protocol):
    """The parts of a request on their way: see `proxy.lanes.batch`."""

    @property
    def open(self) -> int:
        """Parts that are not settled yet."""
        ...

    @property
    def troubles(self) -> Sequence[tuple[str, Part, Outcome]]:
        """The parts, or pieces of them, that were neither delivered nor made durable, so far."""
        ...

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call, later, when the last part is settled."""
        ...


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What became of a request by the time of its answer.

    `settling` are its parts if it had any, `outcomes` tell how those ended that were neither delivered nor queued,
    `failed` why the disk did not take what had to be quarantined, if it did not.
    """

    settling: Settling | None
    outcomes: Sequence[tuple[str, Outcome]]
    failed: StorageError | None = None


class Attempts:
    """The attempts of all requests: `earlier` before one begins, then `begin`, then `end`, once."""

    def __init__(self) -> None:
        self._resends = Resends()
        self._waiting: dict[Key, asyncio.Event] = {}

    async def earlier(self, key: Key) -> Had | None:
        """What earlier attempts of a request have done; None where none is known.

        Waits for the one that is under way, for PATIENCE_SECONDS at most. Raises UnderwayError.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    attempt = self._resends.find(key, _tick())
                    if attempt is None or attempt.had is not None:
                        return None if attempt is None else attempt.had
                    await self._waiting.setdefault(key, asyncio.Event()).wait()
        except TimeoutError:
            raise UnderwayError("an earlier attempt of this request is still worked on; send it again") from None

    def begin(self, key: Key) -> Attempt:
        """An attempt that is worked on from now on."""
        return self._resends.begin(key, _tick())

    def end(self, attempt: Attempt, had: Had | None) -> None:
        """What is known after an attempt, None for nothing; who waits for it goes on."""
        self._resends.end(attempt, had)
        waiting = self._waiting.pop(attempt.key, None)
        if waiting is not None:
            waiting.set()


def _tick() -> int:
    return int(asyncio.get_running_loop().time())
