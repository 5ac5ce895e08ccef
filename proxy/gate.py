"""Keeps two kinds of work apart: what may go on side by side, and what must be alone.

Requests are worked on side by side, and a large one gives way to others in the middle. A change of the configuration
waits until none is in the middle, and none begins before it is done. Used by one event loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Gate:
    """`enter` and `leave` go around shared work, `alone` around the other kind, of which one may be under way."""

    def __init__(self) -> None:
        self._inside = 0
        self._open = asyncio.Event()
        self._open.set()
        self._empty = asyncio.Event()
        self._empty.set()

    async def enter(self) -> None:
        """Begin shared work; waits only while something is alone, or is about to be."""
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1

    def leave(self) -> None:
        """End shared work."""
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait for shared work to end, and let none begin until the block ends."""
        self._open.clear()
        try:
            while self._inside:
                self._empty.clear()
                await self._empty.wait()
            yield
        finally:
            self._open.set()
