"""Who owns which card of the demo, and since when: values in, values out; chance comes in as a generator.

A card's tenures follow each other without a gap, so its intervals never overlap. Times are milliseconds since the
epoch, and each tenure begins after the one before it, even if the clock was set back.
"""

import string
import uuid
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from cli.demo.hardware import (
    CARD_MIB,
    CARDS,
    MIB,
    MODEL,
    NODES,
    OVERHEAD_MIB,
    TEAMS,
    WORKLOADS,
    Card,
    Node,
    Workload,
)
from ownership.document import VERSION, Device, Interval, NodeDocument, Owner, Sharing

HISTORY_MS: Final = 3_600_000  # tenures that ended longer ago are left out of the documents
IDLE_ODDS: Final = 0.3  # that a card idles after a pod has gone

_OBSERVED: Final = frozenset(node.name for node in NODES if node.observed)
_SUFFIX: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, which holds one card."""

    workload: Workload
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Tenure:
    """From when on a card was a pod's, or idle (None); until the next tenure begins."""

    from_ms: int
    pod: Pod | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """A card went from one pod to another; None is idle."""

    at_ms: int
    card: Card
    before: Pod | None
    after: Pod | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The tenures of each card of `CARDS`, oldest first; `revision` grows with each change, `pods` were started."""

    revision: int
    pods: int
    tenures: tuple[tuple[Tenure, ...], ...]


def begin(now_ms: int, chance: Random) -> Cluster:
    """The cluster at the start: each team has cards on each node, and every fourth card is idle."""
    tenures: list[tuple[Tenure, ...]] = []
    turns = (*TEAMS, None)
    for number in range(len(CARDS)):
        team = turns[number % len(turns)]
        running = [workload for workload in WORKLOADS if workload.namespace == team]
        pod = start_pod(chance.choice(running), number, chance) if running else None
        tenures.append((Tenure(now_ms, pod),))
    return Cluster(revision=now_ms, pods=len(CARDS), tenures=tuple(tenures))


def hand_over(cluster: Cluster, now_ms: int, chance: Random) -> tuple[Cluster, HandOver]:
    """Some observed card changes its owner now: to another pod, or to idle, or from idle."""
    number = chance.choice([number for number, card in enumerate(CARDS) if card.node in _OBSERVED])
    tenures = cluster.tenures[number]
    last = tenures[-1]
    idles = last.pod is not None and chance.random() < IDLE_ODDS
    pod = None if idles else start_pod(chance.choice(WORKLOADS), cluster.pods, chance)
    at_ms = max(now_ms, last.from_ms + 1)
    kept = (*_recent(tenures, at_ms - HISTORY_MS), Tenure(at_ms, pod))
    changed = replace(
        cluster,
        revision=cluster.revision + 1,
        pods=cluster.pods + (pod is not None),
        tenures=(*cluster.tenures[:number], kept, *cluster.tenures[number + 1 :]),
    )
    return changed, HandOver(at_ms, CARDS[number], last.pod, pod)


def start_pod(workload: Workload, number: int, chance: Random) -> Pod:
    """A new pod of a workload, the `number`th of the cluster."""
    name = workload.pod.format(number=number, suffix="".join(chance.choices(_SUFFIX, k=5)))
    return Pod(workload, name, str(uuid.UUID(int=chance.getrandbits(128), version=4)))


def owner_at(cluster: Cluster, number: int, at_ms: int) -> Pod | None:
    """Whose the `number`th card was at a time; before its first tenure, its first owner's."""
    tenures = cluster.tenures[number]
    return next((tenure.pod for tenure in reversed(tenures) if tenure.from_ms <= at_ms), tenures[0].pod)


def document(cluster: Cluster, node: Node, now_ms: int) -> NodeDocument:
    """What the node's labeler tells now."""
    cards = [(card, cluster.tenures[number]) for number, card in enumerate(CARDS) if card.node == node.name]
    return NodeDocument(
        version=VERSION,
        revision=cluster.revision,
        node=node.name,
        observed_from_ms=min(tenures[0].from_ms for _, tenures in cards),
        observed_until_ms=max(now_ms, *(tenures[-1].from_ms for _, tenures in cards)),
        devices=tuple(_device(card, tenures) for card, tenures in cards),
    )


def _device(card: Card, tenures: tuple[Tenure, ...]) -> Device:
    ends = [*(tenure.from_ms for tenure in tenures[1:]), None]
    return Device(
        uuid=card.uuid,
        index=card.index,
        model=MODEL,
        memory_total_bytes=CARD_MIB * MIB,
        sharing=Sharing.EXCLUSIVE,
        intervals=tuple(_interval(tenure, end) for tenure, end in zip(tenures, ends, strict=True)),
    )


def _interval(tenure: Tenure, to_ms: int | None) -> Interval:
    if tenure.pod is None:
        return Interval(from_ms=tenure.from_ms, to_ms=to_ms, owners=())
    return Interval(
        from_ms=tenure.from_ms, to_ms=to_ms, owners=(_owner(tenure.pod),), overhead_bytes=OVERHEAD_MIB * MIB
    )


def _owner(pod: Pod) -> Owner:
    workload = pod.workload
    return Owner(
        pod_uid=pod.uid,
        namespace=workload.namespace,
        pod=pod.name,
        container=workload.container,
        controller_kind=workload.kind,
        controller_name=workload.name,
        memory_bytes=workload.memory_mib * MIB,
    )


def _recent(tenures: tuple[Tenure, ...], horizon_ms: int) -> tuple[Tenure, ...]:
    """Without the tenures that ended before the horizon; the last one has not ended."""
    ended = sum(following.from_ms < horizon_ms for following in tenures[1:])
    return tenures[ended:]
