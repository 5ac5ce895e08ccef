"""What a store can do to the proxy, as a table: each row is a fault that may be lifted again."""

import asyncio
import random
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from tests.faults.store import samples_of
from tests.faults.upstream import Behaviour, Exchange, Upstream, reply, well

LONG_S: Final = 30.0
"""Until a credential or an address is mended nothing helps: the next attempt comes after this time or later."""

_BEGIN: Final = b"HTTP/1.1 204 No"  # a status line that does not end


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to fail. Without a behaviour connections are refused.

    `waits` is a fault after which the proxy tries again only when it has another endpoint, or much later.
    """

    name: str
    behaviour: Behaviour | None
    waits: bool = False
    deaf: bool = False

    def begin(self, upstream: Upstream) -> None:
        """From now on."""
        if self.behaviour is None:
            upstream.shut()
        else:
            upstream.behaviour = self.behaviour
            upstream.deaf = self.deaf

    def begin_after(self, upstream: Upstream, good: int) -> None:
        """From now on, but for so many requests that are well; the store must be reachable."""
        left = good

        async def behave(exchange: Exchange) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                await well(exchange)
            elif self.behaviour is None:
                await upstream.end()
            else:
                upstream.deaf = self.deaf
                await self.behaviour(exchange)

        upstream.behaviour = behave


def lift(upstream: Upstream) -> None:
    """The store is well again."""
    upstream.behaviour = well
    upstream.deaf = False
    upstream.open()


async def hangs(exchange: Exchange) -> None:
    """No reply ever."""
    await asyncio.Event().wait()


async def _dribbles(exchange: Exchange, data: bytes) -> None:
    for byte in data:
        await exchange.send(bytes([byte]))
        await asyncio.sleep(1)


async def dribbles(exchange: Exchange) -> None:
    """One byte of a good reply a second, and nothing kept."""
    await _dribbles(exchange, reply(204))


async def keeps_and_dribbles(exchange: Exchange) -> None:
    """Everything kept, one byte of the reply a second."""
    await _dribbles(exchange, exchange.keep())


async def resets(exchange: Exchange) -> None:
    """Half a status line, then RST; nothing kept."""
    await exchange.send(_BEGIN)
    exchange.reset()


async def keeps_and_resets(exchange: Exchange) -> None:
    """As `resets`, but everything is kept."""
    exchange.keep()
    await resets(exchange)


async def closes(exchange: Exchange) -> None:
    """The connection ends right after the request."""
    exchange.close()


async def keeps_and_closes(exchange: Exchange) -> None:
    """As `closes`, but everything is kept."""
    exchange.keep()
    exchange.close()


async def babbles(exchange: Exchange) -> None:
    """Bytes that are no HTTP."""
    await exchange.send(random.Random(4).randbytes(2000))
    exchange.close()


async def promises_more(exchange: Exchange) -> None:
    """A good head, and a body that ends early."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    exchange.close()


async def keeps_and_talks(exchange: Exchange) -> None:
    """Everything kept, and ten megabytes of a reply."""
    exchange.keep()
    await exchange.send(reply(200, text="x" * 10_000_000))


def says(status: int, *headers: str, pause_s: float = 0) -> Behaviour:
    """The same reply each time; the next request may not come before `pause_s` have passed."""

    async def behave(exchange: Exchange) -> None:
        exchange.upstream.not_before_s = time.monotonic() + pause_s
        await exchange.send(reply(status, *headers, text=f"said {status}"))

    return behave


async def asks_for_a_date(exchange: Exchange) -> None:
    """429 until an HTTP date, two seconds from now."""
    until_s = int(time.time()) + 2
    exchange.upstream.not_before_s = time.monotonic() + until_s - time.time()
    await exchange.send(reply(429, f"Retry-After: {formatdate(until_s, usegmt=True)}"))


def at_most(body_bytes: int) -> Behaviour:
    """413 for longer bodies, else well."""

    async def behave(exchange: Exchange) -> None:
        await (says(413) if len(exchange.arrival.body) > body_bytes else well)(exchange)

    return behave


def burst(samples: int) -> Behaviour:
    """429 for requests with more samples, else well."""

    async def behave(exchange: Exchange) -> None:
        await (says(429) if samples_of(exchange.arrival.body) > samples else well)(exchange)

    return behave


def randomly(dice: random.Random, faults: list[Behaviour], share: float) -> Behaviour:
    """One of these for a share of all requests, else well."""

    async def behave(exchange: Exchange) -> None:
        await (dice.choice(faults) if dice.random() < share else well)(exchange)

    return behave


SILENT: Final = (
    *(hangs, dribbles, keeps_and_dribbles, resets, keeps_and_resets, closes, keeps_and_closes, babbles),
    *(promises_more, keeps_and_talks),
)
"""What ends without a status that says anything."""


def table(decoy: str) -> tuple[Fault, ...]:
    """All faults that end when they are lifted; redirects lead to `decoy`, where nobody may come."""
    there = f"Location: {decoy}"
    return (
        Fault("refuses", None),
        Fault("deaf", hangs, deaf=True),
        *(Fault(each.__name__.replace("_", "-"), each) for each in SILENT),
        *(Fault(f"status-{status}", says(status)) for status in (500, 502, 503, 408, 429)),
        Fault("503-in-a-second", says(503, "Retry-After: 1", pause_s=1)),
        Fault("429-in-two-seconds", says(429, "Retry-After: 2", pause_s=2)),
        Fault("429-until-a-date", asks_for_a_date),
        Fault("429-in-a-day", says(429, "Retry-After: 86400", pause_s=600), waits=True),
        *(Fault(f"status-{status}", says(status, pause_s=LONG_S), waits=True) for status in (401, 403)),
        *(
            Fault(f"status-{status}", says(status, there, pause_s=LONG_S), waits=True)
            for status in (301, 302, 307, 308)
        ),
    )
