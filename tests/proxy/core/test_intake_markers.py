import pytest

from proxy.core.labels import LabelSet
from proxy.core.tenancy import Trust
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import STALE, Document, Scene, Series, card, interval, ms, owner, read_series, util, varint

ML, NLP = owner("ml"), owner("nlp")
E1, E2 = util(pod="exporter-1"), util(pod="exporter-2")
FOREVER = card(interval(0, None, ML))
HANDED_OVER = card(interval(0, 20, ML), interval(20, None, NLP))


def _fed(*views: str, card_now: Document = FOREVER, at: float = 10) -> Scene:
    """A scene in which E1 has fed the card's owner at 10."""
    scene = Scene(tenancy_of(*views), card_now)
    scene.take(Series(E1, (at, 1.0)))
    return scene


def test_ends_what_was_fed() -> None:
    """A stale marker ends every series that its inbound series fed, bit for bit as it came."""
    scene = _fed(*ALL)
    scene.take(Series(E1, (15, STALE), unknown=b"\x2d\x01\x02\x03\x04"))
    assert [scene.got(tenant) for tenant in ("ml", "joined", "raw")] == [
        [("ml-0", 15, "stale")],
        [("ml-0", 15, "stale")],
        [("exporter-1", 15, "stale")],
    ]
    assert all(part.made == 0 and part.body.endswith(b"\x2d\x01\x02\x03\x04") for part in scene.taken.parts)
    assert scene.fates() == {"routed": 2}


def test_owner_changed_since() -> None:
    """A marker after a hand-over ends at the hand-over what was fed, by our own doing; raw gets it as sent."""
    scene = _fed(*ALL, card_now=HANDED_OVER)
    scene.take(Series(E1, (25, STALE)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]
    assert scene.got("joined") == [("ml-0", 20, "stale")]
    assert scene.got("raw") == [("exporter-1", 25, "stale")]
    assert scene.got("nlp") == []
    assert [scene.made(tenant) for tenant in ("ml", "joined", "raw")] == [1, 1, 0]
    assert scene.fates() == {"routed": 2}


@pytest.mark.parametrize(
    ("after", "ends"),
    [
        ([interval(20, None, owner("stray"))], 20),
        ([interval(20, None)], 20),
        ([interval(20, None, owner(None))], 20),
        ([interval(20, None, owner("ml", "other-pod"))], 20),
        ([interval(30, None, NLP)], 20),
        ([interval(20, 30, owner("ml", memory_bytes=1)), interval(30, None, NLP)], 20),
        ([interval(20, None, owner("ml", memory_bytes=1))], 25),
    ],
    ids=["unmapped", "idle", "not named", "another pod", "gap", "an interval of his more", "same owner"],
)
def test_where_it_ends(after: list[Document], ends: float) -> None:
    """The end of the fed interval is where a series of an owner who has gone ends; else the marker's own time is."""
    scene = _fed(card_now=card(interval(0, 20, ML), *after))
    scene.take(Series(E1, (35 if ends == 20 else ends, STALE)))
    assert scene.got("ml") == [("ml-0", ends, "stale")]
    assert scene.made("ml") == (ends == 20)


def test_beyond_the_last_observation() -> None:
    """Where an interval is still open but too old to be believed, the marker ends its series at its own time."""
    scene = Scene(tenancy_of(), FOREVER, until=10)
    scene.take(Series(E1, (10, 1.0)))
    scene.take(Series(E1, (200, STALE)))
    assert (scene.got("ml"), scene.made("ml")) == ([("ml-0", 200, "stale")], 0)
    assert scene.fates() == {"routed": 2}


def test_never_before_the_last_value() -> None:
    """Where samples were sent to the owner after he had ended, the marker comes after them."""
    scene = Scene(tenancy_of(), FOREVER, until=10)
    scene.take(Series(E1, (12, 1.0)))
    scene.load(card(interval(0, 11, ML), interval(11, None, NLP)), until=30)
    scene.take(Series(E1, (15, STALE)))
    assert scene.got("ml") == [("ml-0", 12.001, "stale")]


def test_nothing_remembered() -> None:
    """The first thing seen of a series may be its marker: it goes where the series belongs at that time."""
    scene = Scene(tenancy_of(*ALL), HANDED_OVER)
    scene.take(Series(E1, (25, STALE)))
    assert scene.got("nlp") == [("nlp-0", 25, "stale")]
    assert scene.got("raw") == [("exporter-1", 25, "stale")]
    assert scene.got("ml") == []
    assert scene.intake.cached_series == 0


@pytest.mark.parametrize("policy", ["quarantine", "drop", "reject"])
@pytest.mark.parametrize(
    "state",
    [card(interval(30, None, ML)), card(interval(0, None, ML), sharing="mps"), card(interval(0, None, owner("stray")))],
    ids=["unknown", "shared", "unmapped"],
)
def test_ends_nothing(policy: str, state: Document) -> None:
    """A marker that ends nothing we sent is filtered, neither quarantined nor refused, whatever `unowned` says."""
    scene = Scene(tenancy_of(unowned=policy), state)
    taken = scene.take(Series(E1, (10, STALE)))
    assert (taken.held, taken.refusals, taken.parts) == ([], [], [])
    assert scene.fates() == {"filtered:stale": 1}


@pytest.mark.parametrize("policy", ["quarantine", "drop", "reject", "idle"])
def test_unknown_owner_with_views(policy: str) -> None:
    """Of a marker of unknown owner raw views get what was sent, and so does the tenant of `unowned: tenant:<id>`."""
    scene = Scene(tenancy_of(*ALL, unowned=policy), card(interval(30, None, ML)))
    scene.take(Series(E1, (10, STALE)))
    assert scene.got("raw") == [("exporter-1", 10, "stale")]
    assert scene.got("joined") == []
    assert scene.got("idle") == ([("", 10, "stale")] if policy == "idle" else [])
    assert scene.fates() == {"routed": 1}


def test_filtered_series() -> None:
    """The marker of a series that its owner does not want is filtered as its samples are."""
    scene = Scene(tenancy_of(drop="ml"), FOREVER)
    scene.take(Series(E1, (10, 1.0)), Series(E2, (11, STALE)))
    scene.take(Series(E1, (12, STALE)))
    assert scene.fates() == {"filtered:ml:write_relabel_configs[0]": 3}


@pytest.mark.parametrize("entries", [1, 2])
def test_value_at_that_time(entries: int) -> None:
    """A marker is not sent where its series has a value of that time."""
    scene = Scene(tenancy_of(), FOREVER)
    both = Series(E1, (10, 1.0), (10, STALE))
    scene.take(*([both] if entries == 1 else [Series(E1, (10, 1.0)), Series(E1, (10, STALE))]))
    assert scene.got("ml") == [("ml-0", 10, 1.0)]
    assert scene.fates() == {"routed": 1, "duplicate": 1}


def test_begins_again() -> None:
    """A series that ended goes on with its next sample, in the order in which they came."""
    scene = _fed()
    scene.take(Series(E1, (15, STALE), (20, 2.0)))
    assert scene.got("ml") == [("ml-0", 15, "stale"), ("ml-0", 20, 2.0)]
    scene.take(Series(E1, (25, 2.0)))
    assert scene.fast() == 1


def test_resend_of_a_marker() -> None:
    """A marker that comes again goes out again: its first answer may have been lost."""
    scene = _fed(*ALL, card_now=HANDED_OVER)
    scene.take(Series(E1, (25, STALE)))
    first = scene.parts()
    scene.take(Series(E1, (25, STALE)))
    assert scene.parts() == first
    assert scene.fates() == {"routed": 3}


def test_late_marker() -> None:
    """A marker older than its series' newest sample goes to the owner of its own time, and ends nothing."""
    scene = _fed(card_now=HANDED_OVER)
    scene.take(Series(E1, (25, 2.0)))
    scene.take(Series(E1, (12, STALE)))
    assert (scene.got("ml"), scene.got("nlp")) == ([("ml-0", 12, "stale")], [])
    scene.take(Series(E1, (22, STALE)))
    assert (scene.got("ml"), scene.got("nlp")) == ([], [("nlp-0", 22, "stale")])
    scene.take(Series(E1, (30, 2.0)))
    assert (scene.got("nlp"), scene.fast()) == ([("nlp-0", 30, 2.0)], 1)


def test_after_a_hand_over_of_ours() -> None:
    """After a hand-over the marker ends the new owner's series, and leaves the old one's alone."""
    scene = _fed(card_now=HANDED_OVER)
    scene.take(Series(E1, (25, 2.0)))
    scene.take(Series(E1, (30, STALE)))
    assert (scene.got("ml"), scene.got("nlp")) == ([], [("nlp-0", 30, "stale")])


def test_removed_tenant() -> None:
    """A marker is not sent to a tenant that is configured no more."""
    scene = _fed("joined")
    scene.intake.retenant(tenancy_of(), scene.intake._limits)
    scene.take(Series(E1, (15, STALE)))
    assert (scene.got("ml"), scene.got("joined")) == ([("ml-0", 15, "stale")], [])


def test_beside_a_tenant_with_too_many_labels() -> None:
    """A series that one tenant cannot have for its many labels is still ended where it was fed."""
    scene = Scene(tenancy_of("raw", labels_per_series=12), HANDED_OVER)
    series = E1.with_labels({f"dra_{at}": "x" for at in range(12)})
    scene.take(Series(series, (10, 1.0)))
    scene.take(Series(series, (25, STALE)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]
    assert scene.books.tenants["raw"].dropped == {"labels_per_series": 1}


def test_too_many_labels_for_all() -> None:
    """The marker of a series that nobody could have for its many labels is dropped for that reason, as its samples."""
    scene = Scene(tenancy_of(labels_per_series=5), FOREVER)
    for value in (1.0, STALE):
        scene.take(Series(E1, (10, value)))
        assert scene.taken.refused == 1
    scene.take(Series(E2, (10, STALE)))
    assert scene.books.tenants["ml"].dropped == {"labels_per_series": 3}
    assert scene.fates() == {"routed": 3}


def test_of_a_histogram() -> None:
    """A native histogram's marker is its sum: it ends its series, at a hand-over by a marker that we make."""
    scene = Scene(tenancy_of(), HANDED_OVER)
    scene.take(Series(E1).histogram(10, 5.0), Series(E2).histogram(11, 6.0))
    scene.take(Series(E2).histogram(12, STALE))
    assert scene.got("ml") == []
    scene.take(Series(E1).histogram(12.5, STALE))
    assert scene.got("ml") == [("ml-0", 12.5, "stale histogram")]
    scene.take(Series(E1).histogram(15, 5.0))
    scene.take(Series(E1).histogram(25, STALE))
    assert scene.got("ml") == [("ml-0", 20, "stale")]


@pytest.mark.parametrize("trust", [Trust(), Trust(frozenset({"labeler"}))], ids=["other", "trusted"])
def test_of_no_device_series(trust: Trust) -> None:
    """Series that are not joined go on as sent, their markers too, each as it comes."""
    series = LabelSet.of({"__name__": "whosegpu_owner_share", "job": "labeler", "namespace": "ml"})
    scene = Scene(tenancy_of("raw"), FOREVER)
    for at in (10, 11):
        scene.take(Series(series, (at, 1.0)), trust=trust)
        scene.take(Series(series, (at, STALE)), trust=trust)
        assert scene.got("raw") == [("", at, "stale")]
    assert scene.fast() == 1


def test_time_of_our_marker() -> None:
    """A marker of ours is one sample with Prometheus' NaN at the end of the interval."""
    scene = _fed(card_now=HANDED_OVER)
    scene.take(Series(E1, (25, STALE)))
    (series,) = read_series(scene.taken.parts[0].body)
    assert len(series.samples) == 1
    assert series.SerializeToString().endswith(b"\x12\x10\x09\x02\x00\x00\x00\x00\x00\xf0\x7f\x10" + varint(ms(20)))
