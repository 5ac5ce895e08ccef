import pytest

from proxy.core.labels import LabelSet
from proxy.core.relabel_actions import RelabelRule
from proxy.core.tenancy import Tenancy, Trust
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import (
    OTHER_CARD,
    STALE,
    Scene,
    Series,
    card,
    interval,
    labels_of,
    owner,
    read_series,
    rules,
    tenants,
    util,
)

ML, NLP = owner("ml"), owner("nlp")
PLAIN, COPY = util(), util(vgpu="0", pod="a", container="c")
FOREVER = card(interval(0, None, ML))
BOTH = [FOREVER, card(interval(0, None, ML), uuid=OTHER_CARD)]
ONE_NAME = rules(Written(target_label="__name__", replacement="any"))
NO_UUID = rules(Written(regex="UUID|gpu", action="labeldrop"))
TWO_HEARTS = [LabelSet.of({"__name__": "heart", "side": side}) for side in ("left", "right")]
NO_SIDE = rules(Written(regex="side", action="labeldrop"))
COPIED = "quarantined:shared_not_split"


def _ruled(own: tuple[RelabelRule, ...]) -> Tenancy:
    """A tenant joined with rules of its own beside ml."""
    made = tenants(("ml", "owned"), ("joined", "joined", own))
    return Tenancy(made, {"ml": made[0]})


@pytest.mark.parametrize("requests", [1, 2])
def test_copy(requests: int) -> None:
    """A second value of one series and time, from another inbound series, waits in the quarantine; raw has both."""
    scene = Scene(tenancy_of(*ALL), FOREVER)
    series = [Series(PLAIN, (10, 1.0)), Series(COPY, (10, 1.0))]
    got: list[object] = []
    for request in [series] if requests == 1 else [[one] for one in series]:
        scene.take(*request)
        got.append([scene.got(tenant) for tenant in ("ml", "joined", "raw")])
    first = [("ml-0", 10, 1.0)]
    assert got == (
        [[first, first, [("", 10, 1.0), ("a", 10, 1.0)]]]
        if requests == 1
        else [[first, first, [("", 10, 1.0)]], [[], [], [("a", 10, 1.0)]]]
    )
    assert scene.fates() == {"routed": 1, COPIED: 1}
    assert [(held.reason, held.samples) for held in scene.taken.held] == [("shared_not_split", 1)]
    assert labels_of(read_series(scene.taken.held[0].entry)[0]) == COPY


def test_resend_has_the_same_fates() -> None:
    """A whole request that comes again gets the same fates, parts and copies."""
    scene = Scene(tenancy_of(*ALL), FOREVER)
    request = [Series(PLAIN, (10, 1.0)), Series(COPY, (10, 1.0)), Series(util(gpu="x"), (10, STALE))]
    scene.take(*request)
    parts, held, fates = scene.parts(), scene.taken.held, scene.fates()
    for times in (2, 3):
        scene.take(*request)
        assert (scene.parts(), scene.taken.held) == (parts, held)
        assert scene.fates() == {fate: samples * times for fate, samples in fates.items()}


def test_scrape_after_scrape() -> None:
    """Copies are found in every scrape, whatever order the series come in, and exactly one of them goes on."""
    scene = Scene(tenancy_of(), FOREVER)
    copies = [PLAIN, COPY, util(vgpu="1")]
    for at in range(9):
        turned = copies[at % 3 :] + copies[: at % 3]
        scene.take(*(Series(one, (10 + at, float(at))) for one in turned))
        assert scene.got("ml") == [("ml-0", 10 + at, float(at))]
    assert scene.fates() == {"routed": 9, COPIED: 18}


def test_alone_again() -> None:
    """One that is left alone by its copies takes the fast way again when they have been silent for five minutes."""
    scene = Scene(tenancy_of(), card(interval(-1000, None, ML)), until=1000)
    scene.take(Series(COPY, (10, 1.0)))
    scene.take(Series(PLAIN, (11, 1.0)))
    scene.take(Series(PLAIN, (12, 1.0)))
    assert scene.fast() == 0
    scene.take(Series(PLAIN, (312, 1.0)))
    scene.take(Series(PLAIN, (313, 1.0)))
    assert scene.fast() == 1


def test_end_of_a_copy() -> None:
    """The marker of a copy that fed nothing ends nothing but its raw series."""
    scene = Scene(tenancy_of("raw"), FOREVER)
    scene.take(Series(PLAIN, (10, 1.0)), Series(COPY, (10, 1.0)))
    scene.take(Series(COPY, (15, STALE)))
    assert (scene.got("ml"), scene.got("raw")) == ([], [("a", 15, "stale")])


def test_same_series_of_two_senders() -> None:
    """The same inbound series from another sender is no copy of itself."""
    scene = Scene(tenancy_of(), FOREVER)
    scene.take(Series(PLAIN, (10, 1.0)))
    scene.take(Series(PLAIN, (10, 1.0)), trust=Trust(namespace_label=True))
    assert (scene.got("ml"), scene.fates()) == ([("ml-0", 10, 1.0)], {"routed": 2})


def test_same_series_in_another_order() -> None:
    """Labels in another order are the same series again, and no copy."""
    scene = Scene(tenancy_of(), FOREVER)
    scene.take(Series(PLAIN, (10, 1.0)), Series(tuple(reversed(PLAIN.pairs)), (10, 1.0)))
    assert scene.fates() == {"routed": 2}


def test_copy_that_came_joined() -> None:
    """A series that came with just the labels that ours has is a copy too: however it was put together, ours is one."""
    fed = Scene(tenancy_of(), FOREVER)
    fed.take(Series(PLAIN, (10, 1.0)))
    joined = labels_of(read_series(fed.taken.parts[0].body)[0])
    for first, second in ((PLAIN, joined), (joined, PLAIN)):
        scene = Scene(tenancy_of(), FOREVER)
        scene.take(Series(first, (10, 1.0)), Series(second, (10, 1.0)))
        assert scene.got("ml") == [("ml-0", 10, 1.0)]
        assert scene.fates() == {"routed": 1, COPIED: 1}


def test_replicas_are_no_copies() -> None:
    """Each replica of a high-availability pair brings its own sample: the store chooses."""
    scene = Scene(tenancy_of(), FOREVER)
    replicas = [util(cluster="c", __replica__=name) for name in ("a", "b")]
    for at in (10, 11):
        scene.take(*(Series(one, (at, 1.0)) for one in replicas))
        assert [part.pair for part in scene.taken.parts] == [("c", "a"), ("c", "b")]
    assert (scene.fates(), scene.fast()) == ({"routed": 4}, 2)


@pytest.mark.parametrize(
    ("own", "second"),
    [(NO_UUID, util(UUID=OTHER_CARD, gpu="1")), (ONE_NAME, util(__name__="DCGM_FI_DEV_FB_USED"))],
    ids=["two cards", "two families"],
)
def test_collision_by_rules(own: tuple[RelabelRule, ...], second: LabelSet) -> None:
    """Two values that a tenant's rules make one are its own loss: the part is dropped there, and goes on elsewhere."""
    scene = Scene(_ruled(own), *BOTH)
    for at in (10, 11):
        scene.take(Series(util(), (at, 1.0)), Series(second, (at, 2.0)))
        assert scene.got("ml") == [("ml-0", at, 1.0), ("ml-0", at, 2.0)]
        assert scene.got("joined") == [("ml-0", at, 1.0)]
    assert scene.fates() == {"routed": 4}
    assert scene.books.tenants["joined"].dropped == {"collision": 2}


def test_collision_and_copy() -> None:
    """A copy of a series that collided is still a copy."""
    scene = Scene(_ruled(NO_UUID), *BOTH)
    scene.take(Series(util(UUID=OTHER_CARD), (10, 1.0)), Series(PLAIN, (10, 2.0)), Series(COPY, (10, 2.0)))
    assert scene.got("ml") == [("ml-0", 10, 1.0), ("ml-0", 10, 2.0)]
    assert scene.fates() == {"routed": 2, COPIED: 1}


def test_collision_of_what_waits() -> None:
    """A sample without an owner waits in the quarantine also where a raw view has another value in its place."""
    raw = tenants(("raw", "raw", NO_UUID))
    scene = Scene(Tenancy(raw), FOREVER)
    scene.take(Series(PLAIN, (10, 1.0)), Series(util(UUID=OTHER_CARD), (10, 2.0)))
    assert scene.got("raw") == [("", 10, 1.0)]
    assert scene.fates() == {"routed": 1, "quarantined:unknown_owner": 1}
    assert [(held.reason, held.samples) for held in scene.taken.held] == [("unknown_owner", 1)]


def test_collision_of_other_series() -> None:
    """Of two series of no device that rules make one the first value is sent, and the second dropped."""
    made = tenants(("joined", "joined", NO_SIDE))
    scene = Scene(Tenancy(made))
    scene.take(*(Series(one, (10, 1.0)) for one in TWO_HEARTS))
    assert scene.got("joined") == [("", 10, 1.0)]
    assert scene.fates() == {"routed": 2}
    assert scene.books.tenants["joined"].dropped == {"collision": 1}
