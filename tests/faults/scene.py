"""A proxy with a number of tenants, each with a store of its own that does as it is told, and what all of it must show.

Each tenant gets the series whose `dest` label names it. Its store wants a token, which no log and no page may show.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.proxy import Proxy
from tests.faults.ledger import Ledger, check
from tests.faults.sender import Sender, lines
from tests.faults.store import Store
from tests.faults.upstream import Network, Upstream, network
from tests.peers.processes import wait_until
from tests.peers.web import Call, fetch

ANSWER_S = 20.0
"""Every sender is answered by then, whatever the stores do (remote-write facts R5)."""

DELIVERY = {"park_after": "200ms", "timeout": "1s"}

Tree = dict[str, Any]


@dataclass
class Tenant:
    """A tenant's store and the address where the proxy finds it now; `more` goes into its endpoint."""

    name: str
    store: Store
    upstream: Upstream
    token_file: Path
    more: Tree = field(default_factory=dict)

    def tree(self) -> Tree:
        """Its section of the configuration."""
        endpoint = {"url": self.upstream.url, "bearer_token_file": str(self.token_file), "refusal": self.store.refusal}
        keep = {"source_labels": ["dest"], "regex": self.name, "action": "keep"}
        return {
            "id": self.name,
            "view": "raw",
            "endpoint": {**endpoint, **self.more},
            "write_relabel_configs": [keep],
        }


class Scene:
    """The proxy, which a test may stop, kill and start; `senders` are all that there were."""

    def __init__(self, folder: Path, net: Network, names: Sequence[str], delivery: Mapping[str, Any]) -> None:
        self.net = net
        self.ledger = Ledger()
        self.senders: list[Sender] = []
        self.folder = folder
        self.delivery = dict(delivery)
        self.tenants = {name: self._tenant(name) for name in names}
        self.proxy = Proxy(folder / "proxy", self.config())

    def __getitem__(self, name: str) -> Tenant:
        return self.tenants[name]

    @property
    def stores(self) -> dict[str, Store]:
        """All stores, by tenant."""
        return {name: tenant.store for name, tenant in self.tenants.items()}

    def config(self, *, without: str = "") -> Tree:
        """The configuration by what the tenants are now."""
        tenants = [tenant.tree() for name, tenant in self.tenants.items() if name != without]
        return {"proxy": {"delivery": self.delivery}, "tenants": tenants}

    def reload(self, *, without: str = "") -> None:
        """Give the proxy what the tenants are now."""
        answer = self.proxy.reload(self.config(without=without))
        assert answer.status == 200, answer.body

    def move(self, name: str) -> Upstream:
        """Let the tenant's store be found at another address from the next reload on; the old one."""
        tenant = self.tenants[name]
        old, tenant.upstream = tenant.upstream, self._upstream(name, tenant.store)
        return old

    def sender(self, name: str, tenants: Sequence[str], each: int = 2, *replicas: str) -> Sender:
        """A sender with series for each of these tenants, of each of these replicas, "" being none; else of its own."""
        series = [line for one in replicas or (name,) for line in lines(tenants, name, each, one)]
        self.senders.append(Sender(self.proxy.write_url, self.ledger, series))
        return self.senders[-1]

    def arrives(self, names: Sequence[str] = (), *, deadline_s: float = 30) -> None:
        """Wait until all that was acknowledged to these tenants is in their stores."""

        def missing() -> dict[str, int]:
            found = {name: len(self.ledger.missing(name, self.tenants[name].store)) for name in names or self.tenants}
            return {name: count for name, count in found.items() if count}

        def diagnosis() -> str:
            return f"acknowledged and not there: {missing()}"

        wait_until(lambda: not missing(), "what was acknowledged", deadline_s=deadline_s, diagnosis=diagnosis)

    def check(self) -> None:
        """The stores have what they must, the books balance, and no secret got out."""
        check(self.ledger, self.stores)
        self.proxy.balanced()
        self.check_secrets()

    def check_secrets(self) -> None:
        """No token of a store is in the log or on a page."""
        pages = [fetch(Call(f"{self.proxy.url}{path}")).body.decode() for path in ("/metrics", "/-/config")]
        for text in (*pages, (self.folder / "proxy/proxy.log").read_text()):
            assert "token-of-" not in text

    def _tenant(self, name: str) -> Tenant:
        token_file = self.folder / f"{name}.token"
        token_file.write_text(_token(name))
        store = Store()
        return Tenant(name, store, self._upstream(name, store), token_file)

    def _upstream(self, name: str, store: Store) -> Upstream:
        return self.net.upstream(store, name, f"Bearer {_token(name)}")


def _token(name: str) -> str:
    return f"token-of-{name}"


@contextmanager
def scene(
    folder: Path, names: Sequence[str], delivery: Mapping[str, Any] = DELIVERY, *, started: bool = True
) -> Iterator[Scene]:
    """A scene; at the end of the block everything is stopped, and a proxy that still runs must stop in order."""
    folder.mkdir(parents=True, exist_ok=True)
    with network() as net:
        on = Scene(folder, net, names, delivery)
        try:
            if started:
                on.proxy.start()
            yield on
            if on.proxy.process.alive:
                on.proxy.stop()
        except BaseException as error:
            error.add_note(on.proxy.process.log_tail(20))
            raise
        finally:
            on.proxy.process.kill9()
            for sender in on.senders:
                sender.close()


@contextmanager
def sending(*senders: Sender) -> Iterator[None]:
    """These senders send inside the block."""
    with contextlib.ExitStack() as stack:
        for sender in senders:
            stack.enter_context(sender)
        yield


def check_answers(senders: Sequence[Sender]) -> None:
    """No sender waited longer than it may."""
    slow = [answer for sender in senders for answer in sender.answers if answer.seconds > ANSWER_S]
    assert slow == []
