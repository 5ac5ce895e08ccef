"""What a store refuses: the good beside it arrives whatever the refusal looks like, and the books say what went."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.behaviour import at_most, burst
from tests.faults.ledger import Ledger
from tests.faults.scene import Scene, scene, sending
from tests.faults.sender import Line, Sender
from tests.faults.store import Store
from tests.peers.processes import wait_until

TENANT = "strict"
SMALL_BYTES = 500


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Scene]:
    """A proxy with one tenant."""
    with scene(tmp_path, [TENANT]) as running:
        yield running


def unsent(ledger: Ledger, store: Store, lines: list[Line]) -> list[object]:
    """Samples of these series that were sent, acknowledged or not, and are not in the store."""
    series = {line.series for line in lines}
    return [key for key in ledger.sent(TENANT) if key.series in series and key not in store.kept]


def all_but(on: Scene, good: list[Line]) -> None:
    """Wait until the store has every sample of the good series that was sent, and the rest has ended."""
    store = on[TENANT].store
    wait_until(lambda: not unsent(on.ledger, store, good), "the good samples", deadline_s=25)
    wait_until(lambda: on.proxy.scrape().total("samples_queued") == 0, "the queue to be empty", deadline_s=25)


def poisoned(sender: Sender, number: str) -> list[Line]:
    """The series of a sender but the one with this number, which the store does not take."""
    return [line for line in sender.lines if line.labels["n"] != number]


@pytest.mark.parametrize("refusal", ["partial", "whole"])
@pytest.mark.parametrize("outage", [False, True], ids=["at once", "from the queue"])
def test_one_bad_series_costs_no_good_one(tmp_path: Path, refusal: str, *, outage: bool) -> None:
    """One refused series among two hundred: the others arrive, and it alone is counted where that is known."""
    with scene(tmp_path, [TENANT]) as on:
        store = on[TENANT].store
        store.refusal = refusal  # type: ignore[assignment]
        store.refuses = lambda labels: labels["n"] == "77"
        on.reload()
        sender = on.sender("mixed", [TENANT], each=200)
        if outage:
            on[TENANT].upstream.shut()
        answers = [sender.once().status for _ in range(3)]
        on[TENANT].upstream.open()
        all_but(on, poisoned(sender, "77"))
        assert answers == ([204] * 3 if outage else [400] * 3)
        assert not [key for key in store.kept if dict(key.series)["n"] == "77"]
        dropped = on.proxy.balanced().by("samples_dropped_total", "reason", tenant=TENANT)
        assert dropped == ({"upstream_400": 3} if refusal == "whole" else {"upstream_400_partial": 600})
        assert store.faults == []


@pytest.mark.parametrize("refusal", ["partial", "whole"])
def test_a_bad_sender_costs_no_good_one(tmp_path: Path, refusal: str) -> None:
    """Two senders whose series may travel together: the good one's samples arrive, also out of one refused request."""
    with scene(tmp_path, [TENANT]) as on:
        store = on[TENANT].store
        store.refusal = refusal  # type: ignore[assignment]
        store.refuses = lambda labels: labels["sender"] == "bad"
        on.reload()
        good = [on.sender(f"good-{number}", [TENANT], 20, "one") for number in range(2)]
        bad = on.sender("bad", [TENANT], 1, "one")
        with sending(*good, bad):
            wait_until(lambda: all(len(each.answers) >= 20 for each in (*good, bad)), "answers")
        all_but(on, [line for each in good for line in each.lines])
        assert not [key for key in store.kept if dict(key.series)["sender"] == "bad"]
        assert {answer.status for answer in bad.answers} <= {400, 204}
        if refusal == "whole":
            assert {answer.status for each in good for answer in each.answers} == {204}
            dropped = on.proxy.balanced().by("samples_dropped_total", "reason", tenant=TENANT)
            assert dropped == {"upstream_400": len(bad.answers)}
        assert store.faults == []


def test_what_is_too_large_goes_in_pieces(on: Scene) -> None:
    """A store with a small limit gets everything in requests that it takes; only what is too large alone is dropped."""
    on[TENANT].upstream.behaviour = at_most(SMALL_BYTES)
    sender = on.sender("many", [TENANT], each=30)
    large = on.sender("large", [TENANT], each=1)
    noise = "".join(chr(0x4E00 + number * 7) for number in range(SMALL_BYTES))
    large.lines = [Line(TENANT, tuple(sorted((*large.lines[0].series, ("text", noise)))))]
    answers = [sender.once().status for _ in range(3)]
    assert large.once().status in {400, 204}
    all_but(on, list(sender.lines))
    assert answers == [204] * 3
    found = on.proxy.balanced()
    assert found.by("samples_dropped_total", "reason", tenant=TENANT) == {"upstream_413": 1}
    assert on[TENANT].store.faults == []


def test_a_tiny_burst_limit_is_passed(on: Scene) -> None:
    """A store that answers 429 to more than five samples at once gets twelve in pieces, and nothing is dropped."""
    on[TENANT].upstream.behaviour = burst(5)
    sender = on.sender("many", [TENANT], each=12)
    assert [sender.once().status for _ in range(2)] == [204] * 2
    all_but(on, list(sender.lines))
    assert on.proxy.balanced().by("samples_dropped_total", "reason", tenant=TENANT) == {}
    assert on[TENANT].store.faults == []
