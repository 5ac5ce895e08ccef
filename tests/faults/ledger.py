"""What senders sent, what was acknowledged, and what that means for the stores."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.faults.store import Key, Series, Store


@dataclass(frozen=True, slots=True)
class Sent:
    """One sample of a request: its tenant, what it is, its value's bytes, and when it first went out (monotonic)."""

    tenant: str
    key: Key
    bits: bytes
    at_s: float


class Ledger:
    """All senders write into it, each from its thread; what was refused with 400 is neither acknowledged nor due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both
        self._sent: defaultdict[str, dict[Key, Sent]] = defaultdict(dict)
        self._acknowledged: defaultdict[str, dict[Key, bytes]] = defaultdict(dict)

    def send(self, samples: Iterable[Sent]) -> None:
        """These go out now, or will in a moment."""
        with self._lock:
            for sample in samples:
                self._sent[sample.tenant][sample.key] = sample

    def acknowledge(self, samples: Iterable[Sent]) -> None:
        """These were answered 2xx."""
        with self._lock:
            for sample in samples:
                self._acknowledged[sample.tenant][sample.key] = sample.bits

    def acknowledged(self, tenant: str) -> dict[Key, bytes]:
        """What a tenant must have in the end, in the order of the answers."""
        with self._lock:
            return dict(self._acknowledged[tenant])

    def sent(self, tenant: str) -> dict[Key, Sent]:
        """What was sent to a tenant, acknowledged or not."""
        with self._lock:
            return dict(self._sent[tenant])

    def missing(self, tenant: str, store: Store) -> list[Key]:
        """What was acknowledged and is not in the store, or not with this value."""
        have = store.samples()
        return [key for key, bits in self.acknowledged(tenant).items() if have.get(key) != bits]

    def foreign(self, tenant: str, store: Store) -> list[Key]:
        """What is in the store and was never sent to this tenant like this."""
        sent = self.sent(tenant)
        return [key for key, bits in store.samples().items() if key not in sent or sent[key].bits != bits]

    def delays(self, tenant: str, store: Store, series: Iterable[Series]) -> list[float]:
        """Seconds from sending to arrival of each sample of these series that has arrived, sorted."""
        wanted = set(series)
        sent = {key: each.at_s for key, each in self.sent(tenant).items() if key.series in wanted}
        kept = dict(store.kept)
        return sorted(kept[key].came_s - at_s for key, at_s in sent.items() if key in kept)


def out_of_order(store: Store) -> list[Series]:
    """Series whose samples did not come in the order of their times."""
    newest: dict[Series, int] = {}
    wrong = []
    for key in store.samples():
        if key.at_ms <= newest.get(key.series, -1):
            wrong.append(key.series)
        newest[key.series] = key.at_ms
    return wrong


def check(ledger: Ledger, stores: Mapping[str, Store]) -> None:
    """Everything acknowledged is there, once and in order, nothing else is, and no request broke a rule."""
    for tenant, store in stores.items():
        assert store.faults == [], (tenant, store.faults[:5])
        missing = ledger.missing(tenant, store)
        assert missing == [], f"{tenant}: {len(missing)} acknowledged samples are lost, as {missing[0]}"
        foreign = ledger.foreign(tenant, store)
        assert foreign == [], f"{tenant}: {len(foreign)} samples that it was never sent, as {foreign[0]}"
        assert out_of_order(store) == [], tenant
