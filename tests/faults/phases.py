"""The plays of the fault matrix: one for each phase, in which every tenant but `healthy` suffers a fault of its own.

All faults of a phase share one proxy, so that they also stand beside each other, and a play takes as long as its
slowest fault. A play only acts and notes; what must hold is asked of what it noted, fault by fault.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.faults.behaviour import Fault, lift, table
from tests.faults.ledger import Ledger, out_of_order
from tests.faults.scene import Scene, Tenant, scene, sending
from tests.faults.sender import Answered, Line, Sender
from tests.faults.store import Store
from tests.faults.upstream import Arrival, Upstream
from tests.peers.processes import wait_until
from tests.scrape import Scrape

HEALTHY: Final = "healthy"
FAULTS: Final = tuple(fault.name for fault in table(""))

_OUTAGE_S: Final = 1.5
_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class Sending:
    """What one sender noted: its series, and how each of its attempts ended."""

    lines: tuple[Line, ...]
    answers: tuple[Answered, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What a play noted. `during` are the requests that came to each tenant's store while its fault lasted."""

    ledger: Ledger
    stores: Mapping[str, Store]
    mixed: Sending
    alone: Sending
    during: Mapping[str, tuple[Arrival, ...]]
    strays: int
    scrape: Scrape
    log: str

    def lost(self, name: str) -> list[str]:
        """What is wrong with what a tenant's store has, in words."""
        store = self.stores[name]
        counts = {
            "lost": len(self.ledger.missing(name, store)),
            "never sent": len(self.ledger.foreign(name, store)),
            "out of order": len(out_of_order(store)),
        }
        return [f"{count} {what}" for what, count in counts.items() if count] + store.faults[:5]


class Play:
    """The scene of one phase with its faults and its senders: two send to all tenants, one to the healthy one alone.

    Of those two one is a replica, and one sends series of another and of none in one request.
    """

    def __init__(self, on: Scene, faults: Sequence[Fault]) -> None:
        self.on = on
        self._faults = {fault.name: fault for fault in faults}
        self._begun: dict[str, tuple[Upstream, int, int]] = {}
        self.during: dict[str, tuple[Arrival, ...]] = {}
        self.mixed = on.sender("mixed", list(on.tenants), each=1)
        self.paired = on.sender("paired", list(on.tenants), 1, "other", "")
        self.alone = on.sender("alone", [HEALTHY])
        self.senders = (self.mixed, self.paired, self.alone)

    def sick(self) -> Iterator[tuple[Fault, Tenant]]:
        """Each fault with its tenant."""
        for name, fault in self._faults.items():
            yield fault, self.on[name]

    def begin(self) -> None:
        """All faults, from now on."""
        for fault, tenant in self.sick():
            fault.begin(tenant.upstream)
            self._note_begin(fault, tenant.upstream)

    def begin_after_one(self) -> None:
        """All faults, once their store has taken one more request."""
        for fault, tenant in self.sick():
            lift(tenant.upstream)
            self._note_begin(fault, tenant.upstream)
            fault.begin_after(tenant.upstream, 1)

    def last(self, more: int = 0) -> None:
        """Return when each fault has been met, and more than once where the proxy tries again soon."""
        begun = time.monotonic()

        def unmet() -> list[str]:
            return [
                fault.name for fault, _ in self.sick() if self._met(fault) < more + (1 if fault.waits else _ATTEMPTS)
            ]

        wait_until(lambda: not unmet(), "each fault to be met", deadline_s=20, diagnosis=lambda: str(unmet()))
        wait_until(lambda: time.monotonic() > begun + _OUTAGE_S, "the outage to have lasted")

    def end(self) -> None:
        """All stores are well again; those whose fault waits get another endpoint too, by a reload."""
        self.note_end()
        for fault, tenant in self.sick():
            lift(tenant.upstream)
            if fault.waits:
                tenant.upstream.not_before_s = 0
                tenant.more = {"headers": {"X-Mended": str(time.time())}}
        self.on.reload()

    def note_end(self) -> None:
        """The faults end: note what came while they lasted."""
        for fault, _ in self.sick():
            upstream, arrivals, _ = self._begun[fault.name]
            self.during[fault.name] = tuple(upstream.arrivals[arrivals:])

    def sends(self, more: int = 5) -> None:
        """Return when all senders have had some more acknowledgements."""
        for sender in self.senders:
            due = sender.acknowledgements + more
            wait_until(lambda s=sender, d=due: s.acknowledgements >= d, "acknowledgements", deadline_s=25)  # type: ignore[misc]

    def _note_begin(self, fault: Fault, upstream: Upstream) -> None:
        self._begun[fault.name] = upstream, len(upstream.arrivals), upstream.attempts

    def _met(self, fault: Fault) -> int:
        upstream, _, attempts = self._begun[fault.name]
        if fault.behaviour is None:
            return 99  # nobody is there to count; the outage lasts for a while in any case
        return upstream.attempts - attempts


def _before_the_first_sample(play: Play) -> None:
    play.begin()
    with sending(*play.senders):
        play.last()
        play.sends()
        play.end()
        play.sends()


def _in_the_middle_of_traffic(play: Play) -> None:
    with sending(*play.senders):
        play.sends()
        play.begin()
        play.last()
        play.end()
        play.sends()


def _while_the_queue_is_worked_off(play: Play) -> None:
    for _, tenant in play.sick():
        tenant.upstream.shut()
    with sending(*play.senders):
        play.sends(10)
        play.begin_after_one()
        play.last(1)
        play.end()
        play.sends()


def _at_a_reload_with_another_url(play: Play) -> None:
    with sending(*play.senders):
        play.sends(1)
        play.begin()
        play.last()
        play.note_end()
        for fault, _ in play.sick():
            play.on.move(fault.name)
        play.on.reload()
        play.sends()


def _over_a_restart(play: Play) -> None:
    play.begin()
    with sending(*play.senders):
        play.last()
        play.on.proxy.stop()
        for _, tenant in play.sick():
            tenant.upstream.not_before_s = 0  # it remembers no Retry-After
        play.on.proxy.start()
        play.sends()
        play.end()
        play.sends()


PHASES: Final[Mapping[str, Callable[[Play], None]]] = MappingProxyType(
    {
        each.__name__.strip("_").replace("_", " "): each
        for each in (
            _before_the_first_sample,
            _in_the_middle_of_traffic,
            _while_the_queue_is_worked_off,
            _at_a_reload_with_another_url,
            _over_a_restart,
        )
    }
)


@contextmanager
def _staged(folder: Path) -> Iterator[tuple[Play, Upstream]]:
    """A play that is ready to begin, and the address to which redirects lead."""
    with scene(folder, [HEALTHY, *FAULTS]) as on:
        decoy = on.net.upstream(Store(), "nobody")
        yield Play(on, table(decoy.url)), decoy


def _sending(sender: Sender) -> Sending:
    return Sending(tuple(sender.lines), tuple(sender.answers))


def play(phase: str, folder: Path) -> Played:
    """Play a phase to its end, when everything has arrived or could have."""
    with _staged(folder) as (staged, decoy):
        on = staged.on
        PHASES[phase](staged)
        try:
            on.arrives(deadline_s=25)
        except Exception as error:  # noqa: BLE001 - the rows say for which faults
            print(error)  # noqa: T201 - pytest shows it with a row that fails
        return Played(
            on.ledger,
            on.stores,
            _sending(staged.mixed),
            _sending(staged.alone),
            staged.during,
            decoy.connections,
            on.proxy.balanced(),
            (folder / "proxy/proxy.log").read_text(),
        )
