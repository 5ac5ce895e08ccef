from dataclasses import replace

import pytest

from proxy.core.again import AGAIN
from proxy.core.gathering import Moment
from proxy.core.had import Ended, Incomplete, had_after
from proxy.core.sorter import Limits
from proxy.core.tenancy import Tenancy
from proxy.core.wire import Part
from tests.proxy.core.attempts import BAD, BUSY, Attempts
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import (
    OTHER_CARD,
    STALE,
    Scene,
    Series,
    card,
    interval,
    ms,
    owner,
    rules,
    tenants,
    util,
)

ML, NLP = owner("ml"), owner("nlp")
MINE, HIS = util(), util(UUID=OTHER_CARD, gpu="1")
FOREVER = [card(interval(0, None, ML)), card(interval(0, None, NLP), uuid=OTHER_CARD)]
UNKNOWN = util(UUID="GPU-none")
BOTH = (Series(MINE, (10, 1.0)), Series(HIS, (10, 2.0)))


def _scene(*views: str) -> Scene:
    """Two cards of two tenants, and tenants of these views."""
    return Scene(tenancy_of(*views), *FOREVER)


def _without(tenant_id: str) -> Tenancy:
    """A configuration without one of the two tenants."""
    tenancy = tenancy_of()
    left = tuple(tenant for tenant in tenancy.tenants if tenant.id != tenant_id)
    return replace(tenancy, tenants=left, namespaces={tenant.id: tenant for tenant in left})


def _got(scene: Scene, *whom: str) -> dict[str, int]:
    """How many samples the latest attempt brought each tenant."""
    got = {tenant: len(scene.got(tenant)) for tenant in whom or ("ml", "nlp", *ALL)}
    return {tenant: samples for tenant, samples in got.items() if samples}


def test_only_who_lacks_it_gets_it() -> None:
    """An attempt brings a tenant what it lacks; a sample is routed if any tenant lacked it, else it is a duplicate."""
    scene = _scene("joined", "raw")
    request = Attempts.of(scene, *BOTH)
    assert request.go("nlp", "raw") == {"routed": 2}
    assert request.go("raw") == {"routed": 2}
    assert scene.got("nlp") == [("nlp-0", 10, 2.0)]
    assert _got(scene) == {"nlp": 1, "raw": 2}
    assert request.go() == {"routed": 2}
    assert _got(scene) == {"raw": 2}
    assert request.complete
    assert request.go() == {"duplicate": 2}
    assert _got(scene) == {}


def test_the_rest_is_a_duplicate() -> None:
    """Samples that all their tenants have are duplicates, beside one that is routed in the same request."""
    request = Attempts.of(_scene(), *BOTH)
    request.go("nlp")
    assert request.go("nlp") == {"routed": 1, "duplicate": 1}
    assert request.go() == {"routed": 1, "duplicate": 1}


def test_fast_and_slow_ways_know_each_other() -> None:
    """What the first attempt passed on by the fast way is recognised, samples without a value field too."""
    scene = _scene("raw")
    for at in (1, 2):
        scene.take(Series(MINE, (at, 1.0)), Series(HIS, (at, 1.0)))
    request = Attempts.of(scene, Series(MINE, (10, 0.0)), Series(HIS, (10, 3.0)), Series(MINE, (11, 4.0)))
    request.go("raw")
    assert scene.fast() == 3
    assert request.go("raw") == {"routed": 3}
    assert _got(scene) == {"raw": 3}


def test_refused_for_good_is_not_sent_again() -> None:
    """A tenant whose store refused its part does not get it once more, and its reason is kept for the last answer."""
    scene = _scene()
    request = Attempts.of(scene, *BOTH)
    request.go("nlp", refusing=["ml"])
    assert isinstance(request.had, Incomplete)
    assert request.had.refused == (("ml", BAD),)
    assert request.go("nlp") == {"routed": 1, "duplicate": 1}
    assert isinstance(request.had, Incomplete)
    assert request.had.refused == (("ml", BAD),)
    assert _got(scene) == {"nlp": 1}


def test_entries_end_apart() -> None:
    """Where a piece of a part is handed back, the rest of it is not sent again: nor what came under another pair."""
    scene = _scene()
    series = [Series(util(cluster=name, __replica__="r"), (at, 1.0)) for name in "ab" for at in (10, 11)]
    request = Attempts.of(scene, *series)
    taken = request.take()
    whole = taken.parts[1]
    piece = Part("ml", whole.pair)
    piece.chunks = whole.chunks[:1]
    request.had = had_after(taken, Ended([("ml", piece, BUSY)], held=True, status=503, text=""), None)
    assert request.go() == {"routed": 1, "duplicate": 3}
    assert [(part.pair, part.body) for part in scene.taken.parts] == [(("b", "r"), whole.chunks[0])]


def test_quarantined_once() -> None:
    """What is durable in the quarantine is not put there again; what the disk did not take is."""
    scene = _scene()
    request = Attempts.of(scene, *BOTH, Series(UNKNOWN, (10, 3.0)))
    assert request.go("nlp", held=False) == {"routed": 2, "quarantined:unknown_owner": 1}
    assert request.go("nlp") == {"routed": 1, "duplicate": 1, "quarantined:unknown_owner": 1}
    assert len(scene.taken.held) == 1
    assert request.go("nlp") == {"routed": 1, "duplicate": 2}
    assert scene.taken.held == []


def test_quarantined_and_seen_raw() -> None:
    """A sample that waits is routed as long as a raw view lacks it, and a duplicate from then on."""
    scene = _scene("raw")
    request = Attempts.of(scene, Series(UNKNOWN, (10, 3.0)), *BOTH)
    assert request.go("raw", "ml") == {"quarantined:unknown_owner": 1, "routed": 2}
    assert request.go("ml") == {"routed": 3}
    assert scene.taken.held == []
    assert request.go("ml") == {"routed": 1, "duplicate": 2}
    assert _got(scene) == {"ml": 1}


def test_quarantined_again_though_seen_raw() -> None:
    """A sample that the disk did not take is quarantined again, whether the raw view has it or not."""
    scene = _scene("raw")
    request = Attempts.of(scene, Series(UNKNOWN, (10, 3.0)))
    assert request.go(held=False) == {"quarantined:unknown_owner": 1}
    assert request.go(held=False) == {"quarantined:unknown_owner": 1}
    assert _got(scene) == {}
    assert request.go() == {"quarantined:unknown_owner": 1}
    assert len(scene.taken.held) == 1
    assert request.complete


@pytest.mark.parametrize("held", [True, False])
def test_owner_becomes_known(held: bool) -> None:  # noqa: FBT001 - a table's column
    """A sample whose owner is learnt between two attempts comes from the quarantine if it is there, else at once."""
    scene = _scene()
    late = Series(MINE, (140, 3.0))
    request = Attempts.of(scene, late, Series(MINE, (20, 1.0)), Series(HIS, (20, 2.0)))
    assert request.go("nlp", held=held) == {"routed": 2, "quarantined:unknown_owner": 1}
    scene.load(*FOREVER, until=150)
    assert request.go() == ({"routed": 1, "duplicate": 2} if held else {"routed": 2, "duplicate": 1})
    assert scene.got("ml") == ([] if held else [("ml-0", 140, 3.0)])
    assert request.complete


def test_owner_changes() -> None:
    """A tenant that had its part gets, besides, what is its own by now: it lacks that."""
    scene = _scene()
    request = Attempts.of(scene, *BOTH)
    request.go("nlp")
    scene.load(FOREVER[0], card(interval(0, None, ML), uuid=OTHER_CARD), until=100)
    assert request.go() == {"routed": 1, "duplicate": 1}
    assert scene.got("ml") == [("ml-0", 10, 2.0)]
    assert scene.got("nlp") == [("nlp-0", 10.001, "stale")]


def test_another_configuration() -> None:
    """After a reload a new tenant gets its part, one that is gone none, and who had his is left out as before."""
    scene = _scene()
    request = Attempts.of(scene, *BOTH)
    request.go("nlp")
    scene.intake.retenant(tenancy_of("joined"), Limits())
    assert request.go("joined") == {"routed": 2}
    assert _got(scene) == {"nlp": 1, "joined": 2}
    scene.intake.retenant(_without("nlp"), Limits())
    assert request.go() == {"duplicate": 1, "quarantined:unmapped_namespace": 1}
    assert request.complete


def test_stale_marker() -> None:
    """A marker of the sender goes to who lacks it, and nobody else, and ends nothing twice."""
    scene = _scene("joined")
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(MINE, (15, STALE)))
    assert request.go("joined") == {"routed": 1}
    assert request.go() == {"routed": 1}
    assert scene.parts() == [("joined", ("", ""), scene.taken.parts[0].body, 1, 0, 0)]
    assert scene.got("joined") == [("ml-0", 15, "stale")]


def test_marker_that_all_have() -> None:
    """A marker that its tenants have is a duplicate beside what others lack."""
    scene = _scene()
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(MINE, (15, STALE)), Series(HIS, (15, 1.0)))
    request.go("nlp")
    assert request.go() == {"routed": 1, "duplicate": 1}
    assert _got(scene) == {"nlp": 1}


@pytest.mark.parametrize("point", [1.0, STALE], ids=["sample", "marker"])
def test_hand_over_marker(point: float) -> None:
    """A marker of our own making comes again where the earlier owner lacks it: once, behind the samples it ends."""
    scene = Scene(tenancy_of(), card(interval(0, 20, ML), interval(20, None, NLP)))
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(MINE, (15, 2.0), (25, point)), Series(MINE, (30, 3.0)))
    for busy in (["ml"], ["ml"], []):
        request.go(*busy)
        assert scene.got("ml") == [("ml-0", 15, 2.0), ("ml-0", 20, "stale")]
        assert scene.made("ml") == 1
    assert request.complete
    assert scene.books.tenants["ml"].made == 1


def test_hand_over_marker_that_was_delivered() -> None:
    """A marker of our own making that the earlier owner has is not made again."""
    scene = Scene(tenancy_of(), card(interval(0, 20, ML), interval(20, None, NLP)))
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(MINE, (25, 2.0)))
    request.go("nlp")
    request.go()
    assert _got(scene) == {"nlp": 1}
    assert scene.books.tenants["ml"].made == 1


def test_no_hand_over_marker_for_who_is_gone() -> None:
    """A marker of our own making is let go with its tenant."""
    scene = Scene(tenancy_of(), card(interval(0, 20, ML), interval(20, None, NLP)))
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(MINE, (25, 2.0)))
    request.go("ml")
    scene.intake.retenant(_without("ml"), Limits())
    assert request.go() == {"duplicate": 1}
    assert request.complete


def test_copies_and_collisions() -> None:
    """Whoever had the first value of a time has it in each attempt; a copy stays a copy, a collision has ended."""
    merging = rules(Written(regex="UUID|gpu", action="labeldrop"))
    made = tenants(("ml", "owned"), ("joined", "joined", merging))
    scene = Scene(Tenancy(made, {"ml": made[0]}), FOREVER[0], card(interval(0, None, ML), uuid=OTHER_CARD))
    copy = util(vgpu="0")
    request = Attempts.of(scene, Series(MINE, (10, 1.0)), Series(HIS, (10, 2.0)), Series(copy, (10, 1.0)))
    first = {"routed": 2, "quarantined:shared_not_split": 1}
    assert request.go("joined", "ml", held=False) == first
    assert scene.got("joined") == [("ml-0", 10, 1.0)]
    for busy in (["joined", "ml"], ["joined"], []):
        request.go(*busy)
        assert scene.got("joined") == [("ml-0", 10, 1.0)]
        assert scene.got("ml") == ([("ml-0", 10, 1.0), ("ml-0", 10, 2.0)] if busy != [] else [])
    assert request.complete
    assert scene.books.tenants["joined"].dropped == {"collision": 1}


@pytest.mark.parametrize("alone", [False, True])
def test_copy_of_an_older_value(alone: bool) -> None:  # noqa: FBT001 - a table's column
    """A copy that the disk did not take stays one, though what it repeats has a newer value by now, or has ended."""
    scene = Scene(tenancy_of(), FOREVER[0])
    copy = util(vgpu="0")
    scene.take(Series(MINE, (10, 1.0)))
    request = Attempts.of(scene, Series(copy, (10, 1.0)))
    for held in (False, True):
        assert request.go(held=held) == {"quarantined:shared_not_split": 1}
        assert _got(scene) == {}
        scene.take(Series(MINE, (20, STALE if alone else 2.0)))
        for at in (30, 31) if alone else ():
            scene.take(Series(copy, (at, 3.0)))
            assert scene.fast() == (at == 31)


def test_told_again_of_what_is_refused() -> None:
    """Filtered and rejected samples have the fates that they had, and the sender is told the same sentences."""
    scene = Scene(tenancy_of(unowned="reject"), *FOREVER)
    request = Attempts.of(scene, *BOTH, Series({"job": "nameless"}, (10, 1.0)), Series(UNKNOWN, (10, 1.0)),
                          Series({"__name__": "nobodys"}, (10, 1.0)))  # fmt: skip
    first = request.go("nlp")
    refusals = scene.taken.refusals
    assert len(refusals) == 2
    assert request.go() == {**first, "routed": 1, "duplicate": 1}
    assert scene.taken.refusals == refusals
    assert scene.taken.refused == 2


def test_exemplars() -> None:
    """Exemplars go with their samples: not again to who has them, and then they are not counted as dropped."""
    scene = _scene("raw")
    request = Attempts.of(scene, Series(MINE, (10, 1.0)).exemplar(10, 2.0), Series(HIS, (10, 1.0)).exemplar(10, 2.0))
    request.go("nlp")
    request.go()
    assert [(part.tenant, part.exemplars) for part in scene.taken.parts] == [("nlp", 1)]
    assert scene.taken.exemplars_dropped == 0


def test_slices() -> None:
    """It is taken AGAIN entries at a time, and markers of our own making come behind all of them."""
    scene = _scene()
    count = 2 * AGAIN + 1
    request = Attempts.of(scene, *[Series(HIS, (at / 100, 1.0)) for at in range(count)])
    request.go("nlp")
    assert isinstance(request.had, Incomplete)
    slices = list(scene.intake.take_slices(request.body, request.trust, Moment(ms(0), 1), request.had))
    assert [some.received for some in slices] == [0, AGAIN, AGAIN, 1, 0]
    assert sum(part.samples for some in slices for part in some.parts) == count


def test_metadata_is_handed_out_once() -> None:
    """The metadata of a request has been handed out by its first attempt."""
    request = Attempts.of(_scene(), *BOTH)
    request.body += b"\x1a\x03\x12\x01a"
    request.go("nlp")
    assert request.scene.taken.metadata == [b"\x12\x01a"]
    request.go()
    assert request.scene.taken.metadata == []
