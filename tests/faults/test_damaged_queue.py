"""Queue files that were torn or whose bits flipped: everything whole is delivered, the rest is moved aside and told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.core.frames import scan
from tests.faults.behaviour import lift
from tests.faults.scene import Scene, scene
from tests.faults.sender import Sender
from tests.faults.store import Key
from tests.peers.processes import wait_until

TENANT = "away"
REQUESTS = 10
FLIPPED = 3


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Scene]:
    """A proxy in whose queue ten requests wait, one after the other."""
    with scene(tmp_path, [TENANT]) as running:
        running[TENANT].upstream.shut()
        yield running


def fill(on: Scene) -> list[list[Key]]:
    """Send ten requests one after the other; the samples of each."""
    sender: Sender = on.sender("one", [TENANT])
    requests = []
    for _ in range(REQUESTS):
        before = set(on.ledger.acknowledged(TENANT))
        assert sender.once().status == 204
        requests.append([key for key in on.ledger.acknowledged(TENANT) if key not in before])
    return requests


def segments(on: Scene) -> list[tuple[Path, int, int]]:
    """The frames of all queue files of the tenant: path, and where each begins and ends."""
    found = []
    for path in sorted((on.proxy.data_dir / "queue" / TENANT).iterdir()):
        data = path.read_bytes()
        begins = [begin for begin, _ in scan(data).records]
        found += [(path, begin, end) for begin, end in zip(begins, [*begins[1:], len(data)], strict=True)]
    return found


def flip(path: Path, at: int) -> None:
    """Turn one bit over."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def arrived_but(on: Scene, lost: list[Key]) -> None:
    """Wait until everything is in the store but these."""
    lift(on[TENANT].upstream)
    store = on[TENANT].store
    expected = set(lost)
    wait_until(lambda: set(on.ledger.missing(TENANT, store)) == expected, "all that is whole")
    wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "the queue to be empty")
    assert store.faults == []


def test_what_is_whole_is_delivered_after_damage(on: Scene) -> None:
    """A flipped bit in the middle and a torn end cost one record each; the damaged bytes lie in `.torn`, counted."""
    requests = fill(on)
    on.proxy.process.kill9()
    frames = segments(on)
    assert len(frames) == REQUESTS
    path, begin, end = frames[FLIPPED]
    flip(path, (begin + end) // 2)
    path, begin, end = frames[-1]
    with path.open("r+b") as file:
        file.truncate(end - 3)
    on.proxy.start()
    arrived_but(on, requests[FLIPPED] + requests[-1])
    scrape = on.proxy.balanced()
    aside = list((on.proxy.data_dir / "queue" / TENANT).glob("*.torn"))
    assert aside
    assert scrape.total("queue_torn_bytes_total", tenant=TENANT) == sum(each.stat().st_size for each in aside) > 0
    assert scrape.total("parts_recovered_total", tenant=TENANT) == 2 * (REQUESTS - 2)
    assert on.proxy.events("segment damaged")


def test_damage_under_a_running_proxy_costs_what_it_hit(on: Scene) -> None:
    """A bit that flips while the record waits: the record is dropped as torn, the others arrive, the books balance."""
    requests = fill(on)
    path, begin, end = segments(on)[FLIPPED]
    flip(path, (begin + end) // 2)
    arrived_but(on, requests[FLIPPED])
    assert on.proxy.balanced().by("samples_dropped_total", "reason", tenant=TENANT) == {"torn": 2}


def test_files_of_no_use_stop_nobody(on: Scene) -> None:
    """Rubbish, an empty file and a folder in the queue's folder: the proxy starts, and delivers what is whole."""
    fill(on)
    on.proxy.process.kill9()
    folder = on.proxy.data_dir / "queue" / TENANT
    suffix = segments(on)[0][0].suffix
    (folder / f"{7_000_000:020d}{suffix}").write_bytes(b"\xfe\x01" * 999)
    (folder / f"{8_000_000:020d}{suffix}").touch()
    (folder / "notes").mkdir()
    (on.proxy.data_dir / "queue" / "stray.txt").write_text("a file where tenants' folders are")
    on.proxy.start()
    arrived_but(on, [])
    assert on.proxy.scrape().total("queue_torn_bytes_total", tenant=TENANT) == 2 * 999
