from dataclasses import replace

import pytest

from ownership import Fleet
from proxy.core.record import QuarantineRecord
from proxy.core.replay import Replay
from proxy.core.tenancy import DynamicTenants, Tenancy, Trust
from proxy.core.timeseries import framed
from tests.proxy.core.held import got_of, held_back, replay, replayed
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import DROP_ALL, HISTORY, eventful_fleet, tenancy_of
from tests.proxy.core.scene import (
    CARD,
    OTHER_CARD,
    Scene,
    Series,
    card,
    fleet_of,
    interval,
    owner,
    rules,
    tenants,
    util,
)

NOBODY_KNOWN = fleet_of()
OWNED = fleet_of(card(interval(0, None, owner("ml"))), card(interval(0, None, owner("ml")), uuid=OTHER_CARD))


def _outcome(tenancy: Tenancy, fleet: Fleet, at: float) -> str:
    """What becomes of one sample of that time that was held back when nothing was known."""
    records = held_back(tenancy_of(), Series(util(pod="exporter"), (at, 0.5)))
    done, got = replayed(records, tenancy, fleet)
    tells = [f"{each.tenant}:{each.labels.get('pod')}" for each in got] or ["-"]
    tells += [f"kept:{record.reason}" for record in done.kept]
    tells += [f"{reason}" for reason in done.dropped]
    tells += [f"lost:{tenant}:{reason}" for verdict in done.verdicts for tenant, reason in verdict.lost]
    return " ".join(tells)


DYNAMIC = tenancy_of(dynamic=DynamicTenants())
CHOPPED = tenancy_of("joined", labels_per_series=5)

ROWS = [
    ("no owner has come", tenancy_of(), NOBODY_KNOWN, 5, "- kept:unknown_owner"),
    ("an owner has come", tenancy_of(), eventful_fleet(), 5, "ml:ml-0"),
    ("another owner", tenancy_of(), eventful_fleet(), 15, "nlp:nlp-0"),
    ("still unknown at that time", tenancy_of(), eventful_fleet(), 45, "- kept:unknown_owner"),
    ("an owner without a tenant", tenancy_of(), eventful_fleet(), 55, "- kept:unknown_owner"),
    ("an owner not yet named", tenancy_of(), eventful_fleet(), 75, "- kept:unknown_owner"),
    ("tenants are data", DYNAMIC, eventful_fleet(), 55, "stray:stray-0"),
    ("two owners", tenancy_of(), eventful_fleet(), 65, "- kept:unknown_owner"),
    ("views", tenancy_of("joined", "raw"), eventful_fleet(), 5, "ml:ml-0 joined:ml-0"),
    ("a view alone", tenancy_of("joined"), eventful_fleet(), 55, "joined:stray-0"),
    ("only a view that had it", tenancy_of("raw"), eventful_fleet(), 55, "-"),
    ("idle", tenancy_of("idle", idle="idle"), eventful_fleet(), 25, "idle:"),
    ("idle, no idle tenant", tenancy_of(), eventful_fleet(), 25, "- filtered"),
    ("rules", tenancy_of(drop="ml"), eventful_fleet(), 5, "- filtered"),
    ("too many labels", CHOPPED, eventful_fleet(), 5, "- lost:ml:labels_per_series lost:joined:labels_per_series"),
    ("unowned: drop", tenancy_of(unowned="drop"), NOBODY_KNOWN, 5, "- unowned"),
    ("unowned: reject", tenancy_of(unowned="reject"), NOBODY_KNOWN, 5, "- unowned"),
    ("unowned: a tenant", tenancy_of(unowned="nlp"), NOBODY_KNOWN, 5, "nlp:"),
    ("unowned: a tenant that drops it", tenancy_of(unowned="nlp", drop="nlp"), NOBODY_KNOWN, 5, "- filtered"),
    ("unowned: a tenant, no mapping", tenancy_of(unowned="nlp"), eventful_fleet(), 55, "nlp:stray-0"),
    ("no ownership any more", tenancy_of("joined", "raw", ownership=False), NOBODY_KNOWN, 5, "joined:exporter"),
    ("no ownership, no view", tenancy_of(ownership=False), NOBODY_KNOWN, 5, "- filtered"),
]


@pytest.mark.parametrize(
    ("tenancy", "fleet", "at", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_becomes_of_a_sample(tenancy: Tenancy, fleet: Fleet, at: float, expected: str) -> None:
    """Ownership, a mapping or another policy releases a sample to whom it then belongs, or drops it; else it waits."""
    assert _outcome(tenancy, fleet, at) == expected


def test_a_part_is_labelled_as_traffic_labels_it() -> None:
    """The exporter's labels go, the owner's come, under the pair of the series as sent; the sample's bytes stay."""
    series = Series(
        util(cluster="c", __replica__="r", namespace="forged", pod="forged"), (5, -0.0), unknown=b"\x30\x07"
    )
    done, got = replayed(held_back(tenancy_of(), series), tenancy_of(), eventful_fleet())
    assert [each.pair for each in got] == [("c", "r")]
    direct = Scene(tenancy_of(), HISTORY)
    direct.take(series)
    assert [part.body for part in done.parts] == [part.body for part in direct.taken.parts]


def test_a_sender_that_is_believed() -> None:
    """A record tells whether its sender's namespace label counts, where the series is no device series any more."""
    (record,) = held_back(tenancy_of(), Series(util(namespace="ml"), (5, 1)))
    tenancy = tenancy_of(ownership=False)
    believed = replace(record, trust="namespace_label")
    assert [each.tenant for each in replayed([believed], tenancy, NOBODY_KNOWN)[1]] == ["ml"]
    assert replayed([record], tenancy, NOBODY_KNOWN)[0].dropped == {"filtered": 1}


def test_a_job_that_is_trusted_by_now() -> None:
    """What was no labeler's series when it came is none afterwards, whatever job it names."""
    records = held_back(tenancy_of(), Series(util(job="whosegpu-labeler", namespace="nlp"), (5, 1)))
    assert [each.tenant for each in replayed(records, tenancy_of(), OWNED)[1]] == ["ml"]


def test_samples_of_one_record_go_several_ways() -> None:
    """Each sample goes by its own time: two to one owner, one to another, two wait on, of a record that says so."""
    records = held_back(tenancy_of(), Series(util(), (8, 1), (9, 2), (10, 3), (45, 4), (46, 5)))
    done, got = replayed(records, tenancy_of(), eventful_fleet())
    assert [(each.tenant, each.at, each.value) for each in got] == [("ml", 8, 1), ("ml", 9, 2), ("nlp", 10, 3)]
    assert len(records) == 1
    (kept,) = done.kept
    again = held_back(tenancy_of(), Series(util(), (45, 4), (46, 5)))
    assert [kept] == again


def test_histograms_and_samples() -> None:
    """A native histogram is replayed as it came, in an entry of its own."""
    records = held_back(tenancy_of(), Series(util(), (5, 1)).histogram(6, 7.5))
    done, got = replayed(records, tenancy_of(), OWNED)
    assert [(each.at, each.value) for each in got] == [(5, 1), (6, "sum 7.5")]
    assert (done.released, sum(part.samples for part in done.parts)) == (2, 2)


def test_shared_samples_wait() -> None:
    """What was held back as shared waits even where the device has one owner by now: it may be a copy of a value."""
    scene = Scene(tenancy_of("raw"), card(interval(0, None, owner("ml"))))
    records = held_back(tenancy_of(), Series(util(), (5, 1)), Series(util(pod="x"), (5, 2)), fleet=scene)
    assert [record.reason for record in records] == ["shared_not_split"]
    assert replayed(records, tenancy_of(), OWNED)[0].kept == tuple(records)


def test_copies_among_what_is_replayed() -> None:
    """Of the copies of a value the first goes to its tenant, as in traffic; the others wait, as shared."""
    copies = [Series(util(pod=pod), (5, 1), (6, 2)) for pod in ("x", "y")]
    records = held_back(tenancy_of(), *copies)
    done, got = replayed(records, tenancy_of(), OWNED)
    assert [(each.at, each.value) for each in got] == [(5, 1), (6, 2)]
    assert [(kept.reason, kept.samples) for kept in done.kept] == [("shared_not_split", 2)]


def test_copies_apart() -> None:
    """Copies are told across several calls of one replay; the same series again is a resend, which goes on."""
    series = [Series(util(), (5, 1)), Series(util(pod="x"), (5, 1)), Series(util(), (5, 1))]
    records = held_back(tenancy_of(), *series)
    going = Replay(tenancy_of(), OWNED)
    verdicts = [verdict for record in records for verdict in going.take([record]).verdicts]
    assert [(each.released, len(each.kept)) for each in verdicts] == [(1, 0), (0, 1), (1, 0)]


def test_rules_that_make_two_series_one() -> None:
    """Where a tenant's rules give two series one name, the second value of a time is no part, and counted as lost."""
    merging = rules(Written(regex="UUID|gpu", action="labeldrop"))
    tenancy = replace(tenancy_of(), tenants=(), namespaces={"ml": tenants(("ml", "owned", merging))[0]})
    series = [Series(util(), (5, 1)), Series(util(UUID=OTHER_CARD), (5, 2))]
    done, got = replayed(held_back(tenancy_of(), *series), tenancy, OWNED)
    assert ([each.value for each in got], done.released) == ([1], 2)
    assert [verdict.lost for verdict in done.verdicts] == [(), (("ml", "collision"),)]


def test_oldest_first() -> None:
    """A tenant's samples come in order of their times, those of one time as they arrived."""
    other = util(__name__="DCGM_FI_DEV_FB_USED")
    times = [(other, 7), (util(), 9), (other, 3), (util(), 3), (util(), 5)]
    records = held_back(tenancy_of(), *[Series(labels, (at, 1)) for labels, at in times])
    _, got = replayed(records, tenancy_of(), OWNED)
    assert [(each.labels.get("__name__")[12:], each.at) for each in got] == [
        ("FB_USED", 3),
        ("GPU_UTIL", 3),
        ("GPU_UTIL", 5),
        ("FB_USED", 7),
        ("GPU_UTIL", 9),
    ]


def test_records_that_reach_into_each_other() -> None:
    """Records of several samples are taken apart where it needs that for each series to be in order."""
    other = util(UUID=OTHER_CARD)
    series = [Series(util(), (1, 1), (9, 2)), Series(other, (2, 3), (8, 4)), Series(util(), (5, 5))]
    _, got = replayed(held_back(tenancy_of(), *series), tenancy_of(), OWNED)
    order = [(each.labels.get("UUID") == CARD, each.at) for each in got]
    assert order == [(True, 1), (False, 2), (False, 8), (True, 5), (True, 9)]


def _bad(record: QuarantineRecord) -> list[QuarantineRecord]:
    entry = record.entry
    block = held_back(tenancy_of(), Series([*util().pairs, ("gpu", "1")], (5, 1)))
    return [
        replace(record, entry=b""),
        replace(record, entry=entry[:-1]),
        replace(record, entry=entry + entry),
        replace(record, entry=b"\x12" + entry[1:]),
        replace(record, samples=2),
        replace(record, entry=framed(b"\x0a\x03\x0a\x01\xff", entry[-18:])),
        replace(record, entry=Series([*util().pairs, ("gpu", "1")], (5, 1)).to_bytes()),
        replace(record, entry=Series(util(), (5, 1)).exemplar(5, 1).to_bytes()),
        *block,
    ]


def test_what_cannot_be_read_is_dropped() -> None:
    """A record that no version of ours wrote, or that bears other samples than the books say, is dropped as that."""
    (record,) = held_back(tenancy_of(), Series(util(), (5, 1)))
    for bad in _bad(record):
        done = replay([bad], tenancy_of(), OWNED)
        assert (done.parts, done.dropped) == ((), {"unreadable": bad.samples}), bad


def test_a_paused_tenant() -> None:
    """What a paused tenant has to have waits as it is, also for the others who have to have it; the rest goes on."""
    records = held_back(tenancy_of(), Series(util(), (5, 1)), Series(util(), (15, 2)))
    done = Replay(tenancy_of("joined"), eventful_fleet(), {"ml"}).take(records)
    assert [(each.tenant, each.at) for each in got_of(done.parts)] == [("nlp", 15), ("joined", 15)]
    assert [(each.waits_for, each.changes) for each in done.verdicts] == [("ml", False), ("", True)]


def test_tenants_who_had_it() -> None:
    """Who has had its part of a record gets none once more, and need not be waited for."""
    records = held_back(tenancy_of(), Series(util(), (5, 1)))
    going = Replay(tenancy_of("joined"), eventful_fleet(), {"joined"}, {records[0]: {"joined"}})
    done = going.take(records)
    assert [each.tenant for each in got_of(done.parts)] == ["ml"]
    assert [(each.released, each.kept) for each in done.verdicts] == [(1, ())]


def test_rules_see_what_they_see_in_traffic() -> None:
    """A tenant's rules come after the owner's labels, and drop what they say."""
    tenancy = tenancy_of(drop="ml")
    assert tenancy.tenants[0].rules == DROP_ALL
    done, got = replayed(held_back(tenancy_of(), Series(util(), (5, 1))), tenancy, OWNED)
    assert (got, done.dropped) == ([], {"filtered": 1})


def test_a_tenant_that_a_replay_makes() -> None:
    """A tenant made from data by a replay is there for traffic too, also for a series that had no claim before."""
    tenancy = tenancy_of(dynamic=DynamicTenants())
    scene = Scene(tenancy, HISTORY)
    trust = Trust(namespace_label=True)
    others = [Series({"__name__": "heart", "namespace": "stray"}, (at, at)) for at in (1, 2)]
    scene.take(others[0], trust=trust)
    assert scene.got("stray") == []
    replay(held_back(tenancy_of(), Series(util(), (55, 1))), tenancy, scene.fleet)
    scene.take(others[1], trust=trust)
    assert [value for _, _, value in scene.got("stray")] == [2]


def test_two_series_that_are_no_devices() -> None:
    """Without ownership nothing is a copy of a device's value: what rules make one is lost as in traffic."""
    merging = rules(Written(regex="pod", action="labeldrop"))
    view = tenants(("joined", "joined", merging))
    tenancy = Tenancy(view, ownership=False)
    records = held_back(tenancy_of(), *[Series(util(pod=pod), (5, 1)) for pod in ("x", "y")])
    done, got = replayed(records, tenancy, NOBODY_KNOWN)
    assert (len(got), done.released, done.kept) == (1, 2, ())
    assert [verdict.lost for verdict in done.verdicts] == [(), (("joined", "collision"),)]
