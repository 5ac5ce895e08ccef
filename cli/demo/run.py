"""The demo's loop: one thread, one turn a second.

A turn: hand a card over, tell who owns what, scrape, send what is due, read the books, show. A scrape is sent
`SEND_AFTER_SECONDS` later, as Prometheus does, so that the owners as of its time are known by then. The end: the loop
stops scraping in time to send all it has; the books are read when nothing is in flight; then the proxy is stopped.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from cli.demo import table
from cli.demo.books import Books, verdict
from cli.demo.hardware import TENANTS
from cli.demo.proxy_process import ProxyProcess, proxy_process
from cli.demo.scraping import metadata_request
from cli.demo.sender import Sender
from cli.demo.stop import Stop
from cli.demo.workplace import Workplace, workplace
from cli.demo.world import World
from cli.terminal import console
from proxy.clock import now_ms

TURN_SECONDS: Final = 1.0
SEND_AFTER_SECONDS: Final = 2.5  # ownership files are read once a second; real remote write waits up to 5 s
HAND_OVER_EVERY: Final = 5  # turns
FIRST_HAND_OVER: Final = 2
COUNT_SERIES_EVERY: Final = 5  # turns, because it reads the stores
PLAIN_LINE_EVERY: Final = 5  # turns
SETTLE_SECONDS: Final = 5.0  # for what is in flight at the end

Show = Callable[[table.Status], None]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`seconds` None is until Ctrl-C; `port` 0 is any; `data_dir` None is a temporary folder."""

    seconds: float | None = None
    port: int = 0
    data_dir: Path | None = None
    live: bool = True


def run_demo(options: DemoOptions) -> int:
    """Run it; the exit status is 0 when the books balance, every tenant got samples, and every request was accepted.

    Raises CommandError where it cannot start, or the proxy ends by itself.
    """
    out = console()
    with Stop() as stop, workplace(options.data_dir) as place:
        place.write_config(options.port)
        world = World(place)
        with proxy_process(place) as proxy:
            out.print(table.heading(proxy.url, str(place.folder)))
            demo = Demo(world, proxy, place, options.seconds)
            with _screen(out, live=options.live) as show:
                demo.run(stop, show)
            books, wrong = demo.settle()
            status = proxy.stop()
        if status:
            wrong = (*wrong, f"the proxy ended with status {status}")
        out.print(table.final_books(books, wrong, demo.status.stored))
    return 1 if wrong else 0


class Demo:
    """The turns of one demo, and what they came to."""

    def __init__(self, world: World, proxy: ProxyProcess, place: Workplace, seconds: float | None) -> None:
        self.status = table.Status(until=seconds)
        self._world = world
        self._proxy = proxy
        self._place = place
        self._sender = Sender(proxy.host, proxy.port)
        self._began = time.monotonic()

    def run(self, stop: Stop, show: Show) -> None:
        """Take turns until the time is over and all is sent, or until stopping is wanted."""
        self._sender.put(metadata_request(), self._began)
        while not (stop.wanted or self._is_over()):
            self._turn()
            show(self.status)
            self.status.turn += 1
            stop.wait(self._began + self.status.turn * TURN_SECONDS)
        if stop.wanted:
            self._sender.give_up()

    def settle(self) -> tuple[Books, tuple[str, ...]]:
        """The books when nothing is in flight, and what is wrong with them or with the sending."""
        self._sender.close()
        until = time.monotonic() + SETTLE_SECONDS
        books = self._proxy.books()
        while not books.balanced and time.monotonic() < until:
            time.sleep(TURN_SECONDS / 10)
            books = self._proxy.books()
        self._count_series()
        return books, verdict(books, TENANTS) + self._sender.wrong()

    def _is_over(self) -> bool:
        seconds, elapsed = self.status.until, time.monotonic() - self._began
        if seconds is None or elapsed < seconds:
            return False
        return not self._sender.waiting or elapsed >= seconds + SETTLE_SECONDS

    def _turn(self) -> None:
        at_ms, now, status = now_ms(), time.monotonic(), self.status
        status.seconds = now - self._began
        if status.turn % HAND_OVER_EVERY == FIRST_HAND_OVER:
            status.note(self._world.hand_over(at_ms))
        self._world.tell_owners(at_ms)
        if status.until is None or not status.turn or status.seconds + SEND_AFTER_SECONDS <= status.until:
            for request in self._world.scrape(at_ms):
                self._sender.put(request, now + SEND_AFTER_SECONDS)
        self._sender.send_due(now)
        status.idle = self._world.idle
        status.books = self._proxy.books()
        if status.turn % COUNT_SERIES_EVERY == 0:
            self._count_series()

    def _count_series(self) -> None:
        self.status.stored = {name: self._place.stored_series(name) for name in TENANTS}


@contextmanager
def _screen(out: Console, *, live: bool) -> Iterator[Show]:
    """A table that changes in place, or a line now and then where that cannot be."""
    if live and out.is_terminal:
        with Live(console=out, auto_refresh=False, transient=True) as screen:
            yield lambda status: screen.update(table.live(status), refresh=True)
        return

    def line(status: table.Status) -> None:
        if status.turn % PLAIN_LINE_EVERY == 0:
            out.print(table.plain(status), soft_wrap=True)

    yield line
