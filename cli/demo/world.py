"""The simulated cluster as it goes on: owners change, labelers tell of them, exporters are scraped."""

from random import Random

from cli.demo.exporter import Exporter
from cli.demo.hardware import NODES
from cli.demo.scraping import Request, Scrape, scrape, write_request
from cli.demo.simulation import HandOver, begin, document, hand_over
from cli.demo.workplace import Workplace
from proxy.clock import now_ms


class World:
    """Begins with its owners told, so that the first sample finds its owner."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._chance = Random()  # noqa: S311 - a simulation
        self._cluster = begin(now_ms(), self._chance)
        self._exporter = Exporter()
        self._scraped: dict[str, Scrape] = {}
        self.tell_owners(now_ms())

    @property
    def idle(self) -> int:
        """How many cards have no owner."""
        return sum(tenures[-1].pod is None for tenures in self._cluster.tenures)

    def hand_over(self, at_ms: int) -> HandOver:
        """Let a card change its owner."""
        self._cluster, change = hand_over(self._cluster, at_ms, self._chance)
        return change

    def tell_owners(self, at_ms: int) -> None:
        """Write the ownership documents of the observed nodes."""
        self._place.write_documents(document(self._cluster, node, at_ms) for node in NODES if node.observed)

    def scrape(self, at_ms: int) -> list[Request]:
        """Scrape each node: a request each."""
        requests: list[Request] = []
        for node in NODES:
            found = scrape(node, self._cluster, self._exporter, at_ms)
            requests.append(write_request(found, self._scraped.get(node.name, ()), at_ms))
            self._scraped[node.name] = found
        return requests
