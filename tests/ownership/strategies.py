"""Ownership documents for property tests: any valid one, and small ones whose times can be counted one by one."""

from collections.abc import Callable

from hypothesis import strategies as st

from ownership.document import (
    COUNT_MAX,
    DETAIL_CHARS,
    INT64_MAX,
    LAST_MS,
    NAME_CHARS,
    Device,
    Finding,
    Interval,
    NodeDocument,
    Owner,
    Sharing,
    Unattributed,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.just("n" * NAME_CHARS)
_counts = st.integers(0, COUNT_MAX)
_bytes = st.integers(0, INT64_MAX)
_maybe_name = st.none() | names
_owners = st.builds(
    Owner,
    pod_uid=_maybe_name,
    namespace=_maybe_name,
    pod=_maybe_name,
    container=_maybe_name,
    controller_kind=_maybe_name,
    controller_name=_maybe_name,
    slots=_counts,
    memory_bytes=st.none() | _bytes,
)
_findings = st.builds(
    Finding,
    code=names,
    pod_uid=_maybe_name,
    detail=st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("d" * DETAIL_CHARS),
)


@st.composite
def _intervals(draw: st.DrawFn, last_ms: int, owners: st.SearchStrategy[tuple[Owner, ...]]) -> tuple[Interval, ...]:
    times = sorted(draw(st.sets(st.integers(0, last_ms), max_size=8)))
    made = [draw(_interval(start, end, owners)) for start, end in zip(times[::2], times[1::2], strict=False)]
    if len(times) % 2:
        made.append(draw(_interval(times[-1], None, owners)))
    return tuple(made)


@st.composite
def _interval(
    draw: st.DrawFn, start_ms: int, end_ms: int | None, owners: st.SearchStrategy[tuple[Owner, ...]]
) -> Interval:
    unattributed = draw(st.just(0) | _bytes)
    reasons = st.sampled_from(Unattributed)
    return Interval(
        start_ms,
        end_ms,
        draw(owners),
        draw(_bytes),
        unattributed,
        draw(reasons if unattributed else st.none() | reasons),
        tuple(draw(st.lists(_findings, max_size=1))),
    )


@st.composite
def documents(draw: st.DrawFn) -> NodeDocument:
    """Any valid document, with every field over its whole range."""
    uuids = names.map("GPU-{}".format).map(lambda uuid: uuid[:NAME_CHARS])
    identities = draw(
        st.lists(
            st.tuples(uuids, st.none() | names, _maybe_name), max_size=3, unique_by=lambda each: (each[0], each[1])
        )
    )
    devices = tuple(
        Device(
            uuid=uuid,
            index=draw(_counts),
            model=draw(names),
            memory_total_bytes=draw(_bytes),
            gpu_instance_id=instance,
            mig_uuid=mig_uuid,
            mig_profile=draw(_maybe_name),
            replicas=draw(st.integers(1, COUNT_MAX)),
            sharing=draw(st.sampled_from(Sharing)),
            intervals=draw(_intervals(LAST_MS, st.lists(_owners, max_size=2).map(tuple))),
        )
        for uuid, instance, mig_uuid in identities
    )
    observed = sorted(draw(st.tuples(st.integers(0, LAST_MS), st.integers(0, LAST_MS))))
    revision = draw(st.integers(0, INT64_MAX))
    since = draw(st.none() | st.integers(0, revision))
    return NodeDocument(1, revision, draw(names), observed[0], observed[1], devices, since)


LAST_SMALL_MS = 40
NODES = ("node-a", "node-b")
CARD = "GPU-1"
_small_owners = st.sampled_from([(), (Owner(pod_uid="a"),), (Owner(pod_uid="b"),), (Owner(pod_uid="c", slots=2),)])


@st.composite
def small_documents(draw: st.DrawFn, revision: int, since: Callable[[str], int | None]) -> NodeDocument:
    """A valid document of a card and an instance that may be re-created, with times up to LAST_SMALL_MS.

    `since`: the revision of a node that a partial document would continue, None where none is possible.
    """
    node = draw(st.sampled_from(NODES))
    devices: list[Device] = []
    for instance, mig_uuids in ((None, (None,)), ("3", ("MIG-x", "MIG-y"))):
        rest = draw(_intervals(LAST_SMALL_MS, _small_owners))
        listed = [mig_uuid for mig_uuid in mig_uuids if draw(st.booleans())]
        for mig_uuid in listed:
            last = mig_uuid == listed[-1]
            count = len(rest) if last else draw(st.integers(0, len(rest)))
            devices.append(_small_device(instance, mig_uuid, draw(st.sampled_from(Sharing)), rest[:count]))
            rest = rest[count:]
    begun, until = sorted(draw(st.tuples(st.integers(0, LAST_SMALL_MS), st.integers(0, LAST_SMALL_MS))))
    base = since(node) if draw(st.booleans()) else None
    return NodeDocument(1, revision, node, begun, until, tuple(devices), base)


def _small_device(
    instance: str | None, mig_uuid: str | None, sharing: Sharing, intervals: tuple[Interval, ...]
) -> Device:
    return Device(
        uuid=CARD,
        index=0,
        model="H100",
        memory_total_bytes=80,
        gpu_instance_id=instance,
        mig_uuid=mig_uuid,
        sharing=sharing,
        intervals=intervals,
    )
