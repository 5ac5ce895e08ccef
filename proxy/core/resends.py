"""The requests of the last minutes, and how they ended, so that one that is sent again is not delivered twice.

A request is known by its sender, and by the length and the hash of its body as received. Pure memory: it is told the
time, and it waits for nobody.
"""

from typing import Final

from proxy.core.had import Had, Incomplete

REMEMBERED_SECONDS: Final = 300
"""How long: vmagent gives up an attempt after a minute and waits for another one at most, Prometheus half of that."""

REMEMBERED: Final = 1 << 15
"""How many: what comes in a minute at a million samples a second, 2,000 in a request; some 10 MB."""

REMEMBERED_MARKS: Final = 1 << 20
"""Marks of all unfinished requests together, 8 bytes each: those of 250 requests as Prometheus sends them."""

Key = tuple[str, int, int]


def key_of(sender: str, body: bytes) -> Key:
    """What a request is known by; costs about 25 us for the usual 90 kB."""
    return sender, len(body), hash(body)


class Attempt:
    """One attempt of a request: `had` is None while it is worked on."""

    __slots__ = ("had", "key", "tick")

    def __init__(self, key: Key, tick: int) -> None:
        self.key = key
        self.tick = tick
        self.had: Had | None = None


class Resends:
    """The newest attempt of each request. `tick` is a clock in whole seconds that never steps back."""

    def __init__(self) -> None:
        self.marks = 0
        self._attempts: dict[Key, Attempt] = {}  # the oldest first

    def __len__(self) -> int:
        """How many requests are remembered."""
        return len(self._attempts)

    def begin(self, key: Key, tick: int) -> Attempt:
        """A new attempt, in place of what was known of the request before."""
        self._forget(key)
        attempt = self._attempts[key] = Attempt(key, tick)
        while len(self._attempts) > REMEMBERED or self._oldest.tick + REMEMBERED_SECONDS < tick:
            self._forget(self._oldest.key)
        return attempt

    def find(self, key: Key, tick: int) -> Attempt | None:
        """The newest attempt of a request, None where none is remembered."""
        attempt = self._attempts.get(key)
        return attempt if attempt is not None and attempt.tick + REMEMBERED_SECONDS >= tick else None

    def end(self, attempt: Attempt, had: Had | None) -> None:
        """How an attempt ended; with None, or where there is no room for it, its request is forgotten.

        A request that is forgotten is taken as a new one when it comes again. What another attempt has taken the place
        of changes nothing.
        """
        if self._attempts.get(attempt.key) is not attempt:
            return
        marks = len(had.marks) if isinstance(had, Incomplete) else 0
        if had is None or self.marks + marks > REMEMBERED_MARKS:
            self._forget(attempt.key)
            return
        self.marks += marks
        attempt.had = had

    @property
    def _oldest(self) -> Attempt:
        return next(iter(self._attempts.values()))

    def _forget(self, key: Key) -> None:
        attempt = self._attempts.pop(key, None)
        if attempt is not None and isinstance(attempt.had, Incomplete):
            self.marks -= len(attempt.had.marks)
