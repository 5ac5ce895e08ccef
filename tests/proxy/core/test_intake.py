from dataclasses import replace

import pytest

from proxy.core.errors import CorruptRequestError, MislabelledVersionError
from proxy.core.labels import LabelSet
from proxy.core.tenancy import DynamicTenants, Trust
from tests.proxy.core.routing import ALL, tenancy_of
from tests.proxy.core.scene import MAX_AGE, OTHER_CARD, Document, Scene, Series, card, interval, owner, util

ML, NLP = owner("ml"), owner("nlp")
EXPORTER = util(pod="exporter")


def _handed_over(end: float = 20) -> Document:
    """The card of ml until `end`, of nlp from then on."""
    return card(interval(0, end, ML), interval(end, None, NLP))


def test_cut_inside_one_entry() -> None:
    """A series with several samples is cut where its owner changes, and what ended is ended by a marker of ours."""
    scene = Scene(tenancy_of(*ALL), _handed_over())
    scene.take(Series(EXPORTER, (10, 1.0), (19.999, 2.0), (20, 3.0), (30, 4.0)))
    assert scene.got("ml") == [("ml-0", 10, 1.0), ("ml-0", 19.999, 2.0), ("ml-0", 20, "stale")]
    assert scene.got("nlp") == [("nlp-0", 20, 3.0), ("nlp-0", 30, 4.0)]
    assert scene.got("joined") == scene.got("ml") + scene.got("nlp")
    assert scene.got("raw") == [("exporter", at, value) for at, value in ((10, 1), (19.999, 2), (20, 3), (30, 4))]
    assert [scene.made(tenant) for tenant in ("ml", "nlp", "joined", "raw")] == [1, 0, 1, 0]
    assert scene.fates() == {"routed": 4}


@pytest.mark.parametrize("known_before", [True, False])
def test_cut_over_requests(known_before: bool) -> None:  # noqa: FBT001 - a table's column
    """The hand-over is made when the next owner's first sample comes, whenever it became known."""
    first = _handed_over() if known_before else card(interval(0, None, ML))
    scene = Scene(tenancy_of(), first, until=15 if not known_before else 100)
    scene.take(Series(EXPORTER, (10, 1.0)))
    scene.take(Series(EXPORTER, (15, 1.5)))
    assert (scene.got("ml"), scene.fast()) == ([("ml-0", 15, 1.5)], 1)
    scene.load(_handed_over(), until=40)
    scene.take(Series(EXPORTER, (25, 2.0)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]
    assert scene.got("nlp") == [("nlp-0", 25, 2.0)]
    scene.take(Series(EXPORTER, (30, 3.0)))
    assert (scene.got("ml"), scene.got("nlp"), scene.fast()) == ([], [("nlp-0", 30, 3.0)], 1)


def test_marker_follows_what_was_sent_too_late() -> None:
    """Where the owner had ended before his last sample was seen, the marker comes after that sample, not before it."""
    scene = Scene(tenancy_of(), card(interval(0, None, ML)), until=10)
    scene.take(Series(EXPORTER, (12, 1.0)))
    scene.load(_handed_over(11), until=20)
    scene.take(Series(EXPORTER, (15, 2.0)))
    assert scene.got("ml") == [("ml-0", 12.001, "stale")]
    assert scene.got("nlp") == [("nlp-0", 15, 2.0)]


def test_same_sample_after_a_late_hand_over() -> None:
    """A resend that by now has another owner goes to that one, and the series that had it is ended."""
    scene = Scene(tenancy_of(), card(interval(0, None, ML)), until=10)
    scene.take(Series(EXPORTER, (12, 1.0)))
    scene.load(_handed_over(11), until=20)
    scene.take(Series(EXPORTER, (12, 1.0)))
    assert scene.got("ml") == [("ml-0", 12.001, "stale")]
    assert scene.got("nlp") == [("nlp-0", 12, 1.0)]


@pytest.mark.parametrize(
    ("after", "views", "fate"),
    [
        (interval(20, None), (), "filtered:idle"),
        (interval(20, None, owner("stray")), (), "quarantined:unmapped_namespace"),
        (interval(20, None, owner(None)), (), "quarantined:unknown_owner"),
        (interval(20, None, owner("stray")), ("joined",), "routed"),
    ],
    ids=["idle", "nobody's namespace", "not yet named", "joined"],
)
def test_hand_over_to_whom_we_do_not_send(after: Document, views: tuple[str, ...], fate: str) -> None:
    """A series ends when its owner does, also where the next owner's samples go nowhere; it does so once."""
    scene = Scene(tenancy_of(*views), card(interval(0, 20, ML), after))
    scene.take(Series(EXPORTER, (10, 1.0)))
    before = dict(scene.fates())
    scene.take(Series(EXPORTER, (25, 2.0)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]
    assert scene.fates().get(fate, 0) - before.get(fate, 0) == 1
    scene.take(Series(EXPORTER, (30, 2.0)))
    assert scene.got("ml") == []


def test_no_marker_of_ours_where_nobody_knows() -> None:
    """A sample whose owner is unknown ends nothing: the owner may still be the last one."""
    scene = Scene(tenancy_of(), card(interval(0, 20, ML), interval(30, None, NLP)))
    scene.take(Series(EXPORTER, (10, 1.0), (25, 2.0)))
    assert scene.got("ml") == [("ml-0", 10, 1.0)]
    scene.take(Series(EXPORTER, (35, 3.0)))
    assert scene.got("ml") == [("ml-0", 20, "stale")]


def test_same_owner_in_the_next_interval() -> None:
    """An interval that ends for another reason than its owner (his memory moved) ends no series."""
    more = owner("ml", memory_bytes=5)
    scene = Scene(tenancy_of(*ALL), card(interval(0, 20, ML), interval(20, 30, more), interval(30, None, NLP)))
    scene.take(Series(EXPORTER, (10, 1.0), (25, 2.0)))
    assert scene.got("ml") == [("ml-0", 10, 1.0), ("ml-0", 25, 2.0)]
    scene.take(Series(EXPORTER, (35, 2.0)))
    assert scene.got("ml") == [("ml-0", 30, "stale")]


@pytest.mark.parametrize("end", [None, 20])
def test_completed_interval(end: float | None) -> None:
    """When an owner's labels are learnt later his old series ends where the new one begins, if he has gone too."""
    scene = Scene(tenancy_of(), card(interval(0, None, owner("ml", controller_name=None))), until=10)
    scene.take(Series(EXPORTER, (10, 1.0)))
    scene.load(card(interval(0, end, ML)), until=30)
    scene.take(Series(EXPORTER, (15, 2.0)))
    assert scene.got("ml", "controller_name") == [("", 10.001, "stale"), ("ml-set", 15, 2.0)]


def test_removed_tenant_gets_no_marker() -> None:
    """What fed a tenant that is configured no more is not ended there."""
    scene = Scene(tenancy_of("joined"), _handed_over())
    scene.take(Series(EXPORTER, (10, 1.0)))
    scene.intake.retenant(tenancy_of(), scene.intake._limits)
    scene.take(Series(EXPORTER, (25, 2.0)))
    assert scene.got("joined") == []
    assert scene.got("ml") == [("ml-0", 20, "stale")]


def test_retenant() -> None:
    """With another configuration each series is decided anew when it next comes; an unchanged owner ends nothing."""
    scene = Scene(tenancy_of(), _handed_over())
    scene.take(Series(EXPORTER, (10, 1.0)))
    scene.intake.retenant(tenancy_of("raw", drop="ml"), scene.intake._limits)
    scene.take(Series(EXPORTER, (11, 2.0)))
    assert (scene.got("ml"), scene.got("raw"), scene.fast()) == ([], [("exporter", 11, 2.0)], 0)
    scene.take(Series(EXPORTER, (12, 2.0)))
    assert (scene.got("ml"), scene.got("raw"), scene.fast()) == ([], [("exporter", 12, 2.0)], 1)


def test_late_samples() -> None:
    """A sample older than its series' newest goes to who owned the device then, and changes nothing."""
    scene = Scene(tenancy_of(), _handed_over())
    scene.take(Series(EXPORTER, (10, 1.0), (25, 2.0)))
    scene.take(Series(EXPORTER, (12, 3.0)))
    assert (scene.got("ml"), scene.got("nlp")) == ([("ml-0", 12, 3.0)], [])
    scene.take(Series(EXPORTER, (22, 4.0)))
    assert (scene.got("ml"), scene.got("nlp"), scene.fast()) == ([], [("nlp-0", 22, 4.0)], 1)
    scene.take(Series(EXPORTER, (30, 5.0)))
    assert (scene.got("ml"), scene.got("nlp"), scene.fast()) == ([], [("nlp-0", 30, 5.0)], 1)


def test_max_age_and_its_extension() -> None:
    """The last owner is assumed up to max_age after the last observation, and another observation extends that."""
    whole = card(interval(0, None, ML))
    scene = Scene(tenancy_of(), whole, until=10)
    edge = 10 + MAX_AGE
    scene.take(Series(EXPORTER, (edge - 1, 1.0)))
    scene.take(Series(EXPORTER, (edge - 0.001, 1.0)))
    assert (scene.got("ml"), scene.fast()) == ([("ml-0", edge - 0.001, 1.0)], 1)
    scene.take(Series(EXPORTER, (edge, 1.0)))
    assert [(held.reason, held.samples) for held in scene.taken.held] == [("unknown_owner", 1)]
    scene.load(whole, until=20)
    scene.take(Series(EXPORTER, (edge, 1.0)))
    assert (scene.got("ml"), scene.fast()) == ([("ml-0", edge, 1.0)], 1)


def test_window_that_ends_in_the_future() -> None:
    """A closed interval that ends just when the node's last observation gets too old is not taken for an open one."""
    edge = 10 + MAX_AGE
    scene = Scene(tenancy_of(), _handed_over(edge), until=10)
    scene.take(Series(EXPORTER, (edge - 1, 1.0)))
    scene.load(_handed_over(edge), until=50)
    scene.take(Series(EXPORTER, (edge + 1, 2.0)))
    assert scene.got("ml") == [("ml-0", edge, "stale")]
    assert scene.got("nlp") == [("nlp-0", edge + 1, 2.0)]


def test_card_that_two_nodes_list() -> None:
    """A node's open interval is good as long as that node was observed, however lately another one lists the card."""
    scene = Scene(tenancy_of(), card(interval(0, None, ML)), until=10)
    scene.take(Series(EXPORTER, (5, 1.0)))
    scene.load(card(interval(-20, -10, NLP)), until=500, node="node-b")
    scene.take(Series(EXPORTER, (6, 1.0)))
    assert scene.got("ml") == [("ml-0", 6, 1.0)]
    scene.take(Series(EXPORTER, (10 + MAX_AGE, 1.0)))
    assert scene.fates() == {"routed": 2, "quarantined:unknown_owner": 1}


def test_changed_ownership_voids_only_its_devices() -> None:
    """A document that changes one card leaves the decisions for the others in force."""
    other = card(interval(0, None, ML), uuid=OTHER_CARD)
    scene = Scene(tenancy_of(), card(interval(0, None, ML)), other, until=10)
    both = (Series(EXPORTER, (5, 1.0)), Series(util(UUID=OTHER_CARD), (5, 1.0)))
    scene.take(*both)
    scene.load(card(interval(0, None, NLP)), other, until=20)
    scene.take(*both)
    assert (scene.fast(), scene.got("nlp")) == (1, [("nlp-0", 5, 1.0)])
    assert scene.got("ml") == [("ml-0", 5.001, "stale"), ("ml-0", 5, 1.0)]


def test_unowned_tenant_loses_what_finds_an_owner() -> None:
    """A decision under `unowned: tenant:<id>` or drop holds for its interval: the next owner's samples are his."""
    history = card(interval(0, 20, owner("stray")), interval(20, None, ML))
    for policy, fate in (("idle", "routed"), ("drop", "filtered:unowned")):
        scene = Scene(tenancy_of("idle", unowned=policy), history)
        scene.take(Series(EXPORTER, (10, 1.0)))
        scene.take(Series(EXPORTER, (11, 1.0)))
        assert (scene.fates(), scene.fast()) == ({fate: 2}, 1)
        scene.take(Series(EXPORTER, (25, 2.0)))
        assert scene.got("ml") == [("ml-0", 25, 2.0)]
        assert scene.got("idle") == ([("stray-0", 20, "stale")] if policy == "idle" else [])


def test_dynamic_tenant_is_found_by_what_was_decided_before() -> None:
    """When an owner makes a tenant, series that name its namespace and had no claim so far go there from then on."""
    tenancy = replace(tenancy_of(), dynamic=DynamicTenants())
    scene = Scene(tenancy, card(interval(0, None, owner("new"))))
    other, trust = Series({"__name__": "up", "namespace": "new"}, (5, 1.0)), Trust(namespace_label=True)
    scene.take(other, trust=trust)
    scene.take(other, Series(EXPORTER, (5, 1.0)), other, trust=trust)
    assert scene.fates() == {"filtered:no_claim": 2, "routed": 2}
    assert scene.got("new") == [("new-0", 5, 1.0), ("", 5, 1.0)]


@pytest.mark.parametrize("name", ["whosegpu_device_up", "whosegpu_owner_share"])
def test_trusted_series_are_never_ended_by_us(name: str) -> None:
    """The labeler ends its own series: a hand-over makes no marker for them."""
    series = LabelSet.of({"__name__": name, "UUID": util().get("UUID"), "job": "labeler", "namespace": "ml"})
    scene = Scene(tenancy_of(*ALL), _handed_over())
    trust = Trust(frozenset({"labeler"}))
    scene.take(Series(series, (10, 1.0)), trust=trust)
    scene.take(Series(series, (25, 1.0)), trust=trust)
    assert sum(part.made for part in scene.taken.parts) == 0
    assert len(scene.got("nlp")) == (name == "whosegpu_device_up")


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(tuple(reversed(EXPORTER.pairs)), id="unsorted"),
        pytest.param((*EXPORTER.pairs, ("pod_uid", ""), ("vgpu", ""), ("x", "")), id="empty values"),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_label_sets_are_made_canonical(labels: tuple[tuple[str, str], ...], times: int) -> None:
    """Labels in any order and with empty values are the series that they mean, by the slow way and by the fast one."""
    scene = Scene(tenancy_of("raw"), _handed_over())
    for at in range(times):
        scene.take(Series(labels, (10 + at, 1.0)))
    assert scene.got("ml") == [("ml-0", 9 + times, 1.0)]
    assert scene.got("raw") == [("exporter", 9 + times, 1.0)]
    assert scene.fast() == times - 1


def test_pairs_travel_apart() -> None:
    """Series of different (cluster, replica) pairs are never in one part; a missing pair is one of its own."""
    scene = Scene(tenancy_of(), _handed_over())
    pairs = [("", ""), ("c", ""), ("c", "a"), ("c", "b"), ("d", "a")]
    series = [Series(util(cluster=cluster, __replica__=replica), (10, 1.0)) for cluster, replica in pairs]
    for _ in range(2):
        scene.take(*series, *series)
        assert [(part.tenant, part.pair, part.samples) for part in scene.taken.parts] == [("ml", p, 2) for p in pairs]


@pytest.mark.parametrize("body", [b"", b"\x1a\x00"], ids=["empty", "metadata only"])
def test_no_series(body: bytes) -> None:
    """A request without a series is taken."""
    taken = Scene(tenancy_of("raw")).take_bytes(body)
    assert (taken.parts, taken.received, taken.metadata) == ([], 0, [b""] * (len(body) // 2))


@pytest.mark.parametrize(
    ("body", "error"), [(b"\x0a", CorruptRequestError), (b"\x22\x00\x2a\x00", MislabelledVersionError)]
)
def test_no_request(body: bytes, error: type[Exception]) -> None:
    """A body that is no request changes nothing and counts nothing."""
    scene = Scene(tenancy_of("raw"))
    good = Series(util(), (1, 1.0)).to_bytes()
    with pytest.raises(error):
        scene.take_bytes((good if error is CorruptRequestError else b"") + body)
    assert (scene.fates(), scene.intake.cached_series) == ({}, 0)


def test_fields_that_stores_read_are_left_behind() -> None:
    """Unknown top-level fields do not pass, and are counted."""
    scene = Scene(tenancy_of("raw"))
    taken = scene.take_bytes(b"\x10\x01" + Series(util(), (1, 1.0)).to_bytes() + b"\xc0\x3e\x01")
    assert (taken.fields_dropped, len(scene.got("raw"))) == (2, 1)
    assert taken.parts[0].body == Series(util(), (1, 1.0)).to_bytes()
