"""A request that is sent again and again, and what each attempt brings to whom."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from proxy.core.gathering import Held, Moment, Taken
from proxy.core.had import Complete, Ended, Had, had_after
from proxy.core.outcome import Outcome, Refused, Retryable
from proxy.core.tenancy import Trust
from proxy.core.wire import Part
from tests.proxy.core.scene import T0, Scene, Series

BUSY = Retryable("queue_full")
BAD = Refused("upstream_400", 400)


@dataclass
class Attempts:
    """The attempts of one request at a scene.

    `had` is what is known after the latest one, `ended` the parts of all that were not handed back, `durable` what the
    quarantine got.
    """

    scene: Scene
    body: bytes
    trust: Trust = field(default_factory=Trust)
    had: Had | None = None
    ended: list[Part] = field(default_factory=list)
    durable: list[Held] = field(default_factory=list)

    @classmethod
    def of(cls, scene: Scene, *series: Series, trust: Trust = Trust()) -> "Attempts":  # noqa: B008 - frozen
        """A request of these series."""
        return cls(scene, b"".join(one.to_bytes() for one in series), trust)

    def go(self, *busy: str, refusing: Collection[str] = (), held: bool = True) -> dict[str, int]:
        """One more attempt, and the fates of its samples; tenants that are `busy` hand their parts back.

        `held` tells whether the disk takes what is quarantined. Whatever happens, the books balance afterwards.
        """
        before = Counter(self.scene.fates())
        taken = self.scene.taken = self.take()
        troubles: list[tuple[str, Part, Outcome]] = []
        for part in taken.parts:
            assert part.size == len(part.body)
            books = self.scene.books.tenant(part.tenant)
            if part.tenant in busy:
                troubles.append((part.tenant, part, BUSY))
                continue
            self.ended.append(part)
            books.made += part.made
            if part.tenant in refusing:
                troubles.append((part.tenant, part, BAD))
                books.drop(BAD.reason, part.samples)
            else:
                books.deliver(part.samples)
        self.durable += taken.held if held else []
        assert self.scene.books.imbalances() == ()
        if not isinstance(self.had, Complete):
            self.had = had_after(taken, Ended(troubles, held=held or not taken.held, status=204, text=""), self.had)
        return dict(Counter(self.scene.fates()) - before)

    def take(self) -> Taken:
        """What one more attempt brings."""
        intake, moment = self.scene.intake, Moment(T0, 1)
        match self.had:
            case Complete(received):
                self.scene.books.received["sender", "1.0"] += received
                self.scene.books.fate("duplicate").samples += received
                return Taken(received=received)
            case had:
                slices = intake.take_slices(self.body, self.trust, moment, had)
        taken = Taken()
        for some in slices:
            taken.add(some)
        self.scene.books.received["sender", "1.0"] += taken.received
        return taken

    @property
    def complete(self) -> bool:
        """Whether nothing of the latest attempt was handed back."""
        return isinstance(self.had, Complete)
