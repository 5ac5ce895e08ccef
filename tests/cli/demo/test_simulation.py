"""Who owns which card: documents are always right, tenures never overlap, what is asked agrees with what is told."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cli.demo.hardware import CARDS, NODES, TEAMS
from cli.demo.simulation import HISTORY_MS, Cluster, begin, document, hand_over, owner_at
from ownership import Fleet, Holding, parse_document, to_json

OBSERVED = [node for node in NODES if node.observed]
DAY_MS = 86_400_000

times = st.lists(st.integers(DAY_MS, 3 * DAY_MS), min_size=1, max_size=60)
"""Times in any order: a clock may be set back."""


def after(moments: list[int], chance: Random) -> Cluster:
    """A cluster that began at the first moment and handed a card over at each of the others."""
    cluster = begin(moments[0], chance)
    for moment in moments[1:]:
        cluster, _ = hand_over(cluster, moment, chance)
    return cluster


@given(times, st.randoms(use_true_random=False))
def test_documents_are_always_right(moments: list[int], chance: Random) -> None:
    """Every document is read back as the same by the code that the proxy reads it with."""
    cluster = after(moments, chance)
    for node in OBSERVED:
        told = document(cluster, node, moments[-1])
        assert parse_document(to_json(told)) == told
        assert len(told.devices) == len(node.cards)


@given(times, st.randoms(use_true_random=False))
def test_tenures_follow_each_other(moments: list[int], chance: Random) -> None:
    """A card's intervals touch without overlap, the last one is open, and none is empty."""
    for node in OBSERVED:
        for device in document(after(moments, chance), node, moments[-1]).devices:
            for one, following in pairwise(device.intervals):
                assert one.from_ms < (one.to_ms or 0) == following.from_ms
            assert device.intervals[-1].to_ms is None


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.randoms(use_true_random=False), st.data())
def test_what_is_asked_agrees_with_what_is_told(steps: list[int], chance: Random, data: st.DataObject) -> None:
    """`owner_at`, which the exporter's values go by, is whom the fleet names for the card at that time."""
    moments = [DAY_MS + sum(steps[: index + 1]) for index in range(len(steps))]
    cluster = after(moments, chance)
    fleet = Fleet(1000, DAY_MS)
    for node in OBSERVED:
        fleet.replace(document(cluster, node, moments[-1]), static=True)
    number = data.draw(st.integers(0, 15))
    at_ms = data.draw(st.integers(moments[0], moments[-1]))
    held = next(
        fleet.lookup(listed.key, at_ms) for listed in fleet.devices() if listed.device.uuid == CARDS[number].uuid
    )
    assert isinstance(held, Holding)
    pod = owner_at(cluster, number, at_ms)
    assert [owner.pod_uid for owner in held.interval.owners] == ([] if pod is None else [pod.uid])


@given(st.integers(DAY_MS, 2 * DAY_MS), st.randoms(use_true_random=False))
def test_the_history_is_bounded(begin_ms: int, chance: Random) -> None:
    """Tenures that ended an hour before a card's last hand-over are left out, so documents stay small for days."""
    moments = [begin_ms + HISTORY_MS * index // 4 for index in range(40)]
    for tenures in after(moments, chance).tenures:
        assert all(following.from_ms >= tenures[-1].from_ms - HISTORY_MS for following in tenures[1:])


@given(st.randoms(use_true_random=False))
def test_each_team_begins_with_cards_on_each_node(chance: Random) -> None:
    """From the first second each team owns a card on each observed node, and some card is idle."""
    cluster = begin(DAY_MS, chance)
    for node in OBSERVED:
        owners = [device.intervals[0].owners for device in document(cluster, node, DAY_MS).devices]
        assert {owner.namespace for each in owners for owner in each} == set(TEAMS)
        assert [] in [list(each) for each in owners]


@given(times, st.randoms(use_true_random=False))
def test_a_hand_over_says_what_changed(moments: list[int], chance: Random) -> None:
    """A hand-over names the owner before and after, its card is an observed one, and pods are never used twice."""
    cluster = begin(moments[0], chance)
    seen = {tenures[-1].pod for tenures in cluster.tenures}
    for moment in moments[1:]:
        before = cluster
        cluster, change = hand_over(cluster, moment, chance)
        number = CARDS.index(change.card)
        assert before.tenures[number][-1].pod == change.before
        assert cluster.tenures[number][-1].pod == change.after
        assert change.card.node in {node.name for node in OBSERVED}
        assert change.after is None or change.after not in seen
        assert cluster.revision == before.revision + 1
        seen.add(change.after)
