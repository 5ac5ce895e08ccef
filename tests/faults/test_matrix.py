"""Each fault of a store, in each phase: nothing acknowledged is lost, and nobody else notices."""

import statistics
from collections.abc import Callable
from functools import cache

import pytest

from tests.faults.phases import FAULTS, HEALTHY, PHASES, Played, play
from tests.faults.scene import ANSWER_S

pytestmark = pytest.mark.timeout(120)

Plays = Callable[[str], Played]

PARK_AFTER_S = 0.2
TIMEOUT_S = 1.0
"""What a sick store takes at least from whoever waits for it."""


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """Each phase is played once, when it is first asked about; a play that fails fails each question about it."""

    @cache
    def played(phase: str) -> Played | Exception:
        try:
            return play(phase, tmp_path_factory.mktemp("play"))
        except Exception as error:  # noqa: BLE001 - raised below
            return error

    def ask(phase: str) -> Played:
        found = played(phase)
        if isinstance(found, Exception):
            raise found
        return found

    return ask


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phase", PHASES)
def test_everything_acknowledged_arrives_once_and_in_order(plays: Plays, phase: str, fault: str) -> None:
    """After the fault the store has all that was acknowledged, bit for bit, by requests that break no rule."""
    played = plays(phase)
    assert len(played.ledger.acknowledged(fault)) >= 5
    assert played.lost(fault) == []


@pytest.mark.parametrize("phase", PHASES)
def test_the_healthy_tenant_notices_nothing(plays: Plays, phase: str) -> None:
    """Beside all faults its samples arrive at once, and a sender that has no others never waits for a sick store."""
    played = plays(phase)
    store = played.stores[HEALTHY]
    assert played.lost(HEALTHY) == []
    assert played.scrape.by("samples_dropped_total", "reason", tenant=HEALTHY) == {}
    assert played.scrape.total("samples_queued", tenant=HEALTHY) == 0
    for sending in (played.mixed, played.alone):
        series = [line.series for line in sending.lines if line.tenant == HEALTHY]
        delays = played.ledger.delays(HEALTHY, store, series)
        assert statistics.median(delays) < PARK_AFTER_S
        assert phase == "over a restart" or delays[-1] < TIMEOUT_S
    times = [answer.seconds for answer in played.alone.answers if answer.status // 100 == 2]
    assert statistics.median(times) < PARK_AFTER_S


@pytest.mark.parametrize("phase", PHASES)
def test_senders_are_answered_soon(plays: Plays, phase: str) -> None:
    """Always within 20 seconds, mostly as soon as what a sick store has not taken is on disk, and never refused."""
    answers = plays(phase).mixed.answers
    assert max(answer.seconds for answer in answers) < ANSWER_S
    assert statistics.median(answer.seconds for answer in answers) < 5 * PARK_AFTER_S
    assert {answer.status for answer in answers} <= {204, 0, 503}
    assert phase == "over a restart" or {answer.status for answer in answers} == {204}


@pytest.mark.parametrize("phase", PHASES)
def test_a_redirect_leads_nowhere(plays: Plays, phase: str) -> None:
    """Where a store's 3xx points to, nobody comes."""
    assert plays(phase).strays == 0


@pytest.mark.parametrize("phase", PHASES)
def test_no_secret_is_told(plays: Plays, phase: str) -> None:
    """The log of all the trouble names no credential and bears no traceback."""
    log = plays(phase).log
    assert "upstream in trouble" in log
    assert "token-of-" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if "429" not in fault and fault != "keeps-and-talks"])
def test_a_request_is_sent_again_byte_for_byte(plays: Plays, fault: str) -> None:
    """While a store is down from the start its first request comes over and over, unchanged, and says so."""
    during = plays("before the first sample").during[fault]
    assert len({arrival.body for arrival in during}) <= 1
    assert [arrival.attempt for arrival in during] == list(range(len(during)))


@pytest.mark.parametrize("fault", ["status-401", "status-403", "status-301", "429-in-a-day"])
def test_what_only_a_person_mends_is_not_tried_again_soon(plays: Plays, fault: str) -> None:
    """One request, and no second one until the endpoint is another or the time has come."""
    assert len(plays("before the first sample").during[fault]) == 1
