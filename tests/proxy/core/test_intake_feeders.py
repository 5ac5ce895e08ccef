import pytest

from proxy.core.feed import FEEDERS
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import STALE, Document, Scene, Series, card, interval, owner, util

ML, NLP = owner("ml"), owner("nlp")
E1, E2 = util(pod="exporter-1"), util(pod="exporter-2")
FOREVER = card(interval(0, None, ML))
HANDED_OVER = card(interval(0, 20, ML), interval(20, None, NLP))
LONG_AGO = 400
FOR_LONG = card(interval(-1000, None, ML))


def _fed(*views: str, card_now: Document = FOREVER) -> Scene:
    """A scene in which E1 has fed the card's owner at 10."""
    scene = Scene(tenancy_of(*views), card_now)
    scene.take(Series(E1, (10, 1.0)))
    return scene


def test_other_feeder_keeps_it_going() -> None:
    """Our series goes on when Prometheus ends it only because the exporter's pod label changed."""
    scene = _fed(*ALL)
    scene.take(Series(E2, (20, 2.0)))
    scene.take(Series(E1, (25, STALE)))
    assert (scene.got("ml"), scene.got("joined")) == ([], [])
    assert scene.got("raw") == [("exporter-1", 25, "stale")]
    assert scene.fates() == {"routed": 3}
    scene.take(Series(E2, (30, STALE)))
    assert scene.got("ml") == [("ml-0", 30, "stale")]


def test_duplicate() -> None:
    """A marker that is sent to nobody, because the series goes on, is a duplicate."""
    scene = _fed()
    scene.take(Series(E2, (20, 2.0)))
    scene.take(Series(E1, (25, STALE)))
    assert (scene.taken.parts, scene.fates()) == ([], {"routed": 2, "duplicate": 1})


@pytest.mark.parametrize(("at", "sent"), [(20 + 300, False), (20 + 300.001, True)])
def test_five_minutes(at: float, sent: bool) -> None:  # noqa: FBT001 - a table's column
    """A series that another fed within five minutes goes on; one that was fed longer ago is ended."""
    scene = Scene(tenancy_of(), FOR_LONG, until=LONG_AGO)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E2, (20, 2.0)))
    scene.take(Series(E1, (at, STALE)))
    assert scene.got("ml") == ([("ml-0", at, "stale")] if sent else [])


def test_one_that_ended_feeds_no_more() -> None:
    """When all that fed a series have ended, it ends."""
    scene = _fed()
    scene.take(Series(E2, (20, 2.0)))
    scene.take(Series(E2, (25, STALE)))
    assert scene.got("ml") == []
    scene.take(Series(E1, (30, STALE)))
    assert scene.got("ml") == [("ml-0", 30, "stale")]


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("marker_first", [True, False])
def test_successor_in_the_same_request(remembered: bool, marker_first: bool) -> None:  # noqa: FBT001 - table
    """A marker and its successor's first sample come in one request, in any order: the series goes on."""
    scene = _fed() if remembered else Scene(tenancy_of(), FOREVER)
    pair = [Series(E1, (15, STALE)), Series(E2, (15, 2.0))]
    scene.take(*(pair if marker_first else reversed(pair)))
    assert scene.got("ml") == [("ml-0", 15, 2.0)]
    assert scene.fates()["duplicate"] == 1


def test_hand_over_where_another_goes_on() -> None:
    """Of two that feed one series the last one to leave ends it."""
    scene = _fed(card_now=HANDED_OVER)
    scene.take(Series(E2, (15, 2.0)))
    scene.take(Series(E1, (25, 3.0)))
    assert scene.got("ml") == []
    scene.take(Series(E2, (26, 4.0)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]


def test_feeders_are_bounded() -> None:
    """Of very many series that are one of ours only so many are remembered, be they copies or successors."""
    for step in (0.0, 0.001):
        scene = Scene(tenancy_of(), FOREVER)
        scene.take(*(Series(util(pod=f"p{at}"), (10 + at * step, 1.0)) for at in range(300)))
        assert max(len(output.feeders) for output in scene.intake._decisions.outputs) <= FEEDERS
        assert scene.fates() == ({"routed": 300} if step else {"routed": 1, "quarantined:shared_not_split": 299})


def test_one_that_began_again_feeds() -> None:
    """A series that ended and began again keeps ours going when another one ends."""
    scene = _fed()
    scene.take(Series(E1, (15, STALE), (20, 1.0)))
    scene.take(Series(E2, (25, 2.0)), Series(E1, (26, 1.0)))
    scene.take(Series(E2, (30, STALE)))
    assert scene.got("ml") == []


def test_silent_feeder_comes_back() -> None:
    """A series that fell silent and comes back feeds ours again, and is not taken for the only one."""
    scene = Scene(tenancy_of(), FOR_LONG, until=2000)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E2, (400, 2.0)))
    scene.take(Series(E2, (401, 2.0)))
    assert scene.fast() == 1
    scene.take(Series(E1, (402, 1.0)))
    scene.take(Series(E2, (402, 2.0)))
    assert (scene.got("ml"), scene.fast()) == ([], 0)
    scene.take(Series(E2, (403, STALE)))
    assert scene.got("ml") == []
    scene.take(Series(E1, (404, STALE)))
    assert scene.got("ml") == [("ml-0", 404, "stale")]


def test_silent_feeder_comes_back_after_the_other_was_forgotten() -> None:
    """One that fell silent and comes back is known to those that begin after it, whoever was forgotten meanwhile."""
    scene = Scene(tenancy_of(), FOR_LONG, until=2000)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E2, (400, 2.0)))
    sorter = next(iter(scene.intake._sorters.values()))
    second = sorter.cache.find(Series(E2).to_bytes()[3:])
    assert second is not None
    sorter.cache.remove(second)
    sorter.forget(second)
    scene.take(Series(E1, (402, 1.0)))
    scene.take(Series(E2, (402, 2.0)))
    assert (scene.got("ml"), scene.fates()["quarantined:shared_not_split"]) == ([], 1)
