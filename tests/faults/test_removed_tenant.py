"""A tenant that leaves the configuration: what waits for it waits on, and goes out when the tenant is back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.behaviour import lift
from tests.faults.scene import Scene, scene
from tests.peers.processes import wait_until

GONE, HERE = "gone", "here"


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Scene]:
    """A proxy with ten requests waiting for a tenant whose store is away, and a tenant that has everything."""
    with scene(tmp_path, [GONE, HERE]) as running:
        running[GONE].upstream.shut()
        sender = running.sender("one", [GONE, HERE])
        assert [sender.once().status for _ in range(10)] == [204] * 10
        yield running


def waiting(on: Scene) -> float:
    """Samples that wait for the tenant, as /metrics says."""
    return on.proxy.scrape().total("samples_queued", tenant=GONE)


@pytest.mark.parametrize("restart", [False, True], ids=["by reload", "over a restart"])
def test_the_queue_of_a_removed_tenant_waits_for_it(on: Scene, *, restart: bool) -> None:
    """Kept, shown, and not sent while the tenant is gone; delivered in order once it is back, elsewhere."""
    on.reload(without=GONE)
    lift(on[GONE].upstream)
    if restart:
        on.proxy.stop()
        on.proxy.start()
    assert waiting(on) == 20
    scrape = on.proxy.balanced()
    assert scrape.total("queue_bytes", tenant=GONE) > 0
    assert scrape.total("queue_oldest_seconds", tenant=GONE) > 0
    sender = on.sender("two", [GONE, HERE])
    assert [sender.once().status for _ in range(3)] == [204] * 3
    assert (waiting(on), on[GONE].store.kept) == (20, {})
    on.move(GONE)
    on.reload()
    wait_until(lambda: waiting(on) == 0, "the queue to be empty")
    series = {line.series for line in sender.lines if line.tenant == GONE}
    lost = [key for key in on.ledger.missing(GONE, on[GONE].store) if key.series not in series]
    assert lost == []  # what came while nobody claimed it was filtered
    assert len(on[GONE].store.kept) == 20
    assert on[GONE].store.faults == []
    assert on.proxy.balanced().total("samples_dropped_total") == 0
