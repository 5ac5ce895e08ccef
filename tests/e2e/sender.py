"""What a sending Prometheus says of its own remote write."""

from tests.peers.prometheus import Prometheus
from tests.peers.web import Call, fetch
from tests.scrape import Scrape

OUT_OF_PATIENCE = "--storage.remote.flush-deadline=500ms"
"""At its end it tries for so long to send what is left; one minute by default."""


def counted(sender: Prometheus, name: str) -> float:
    """A counter of its remote write at this moment, without `prometheus_remote_storage_`."""
    found = Scrape(fetch(Call(f"{sender.url}/metrics")).body.decode())
    return found.total(f"prometheus_remote_storage_{name}")
