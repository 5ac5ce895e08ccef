"""Random worlds for the properties of the books: tenancies, ownership documents and requests."""

from typing import Any, Final

from hypothesis import strategies as st

from proxy.core.labels import LabelSet
from proxy.core.tenancy import DynamicTenants, Tenancy, Trust, Unowned
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.scene import CARD, OTHER_CARD, Document, card, interval, owner, rules, tenants, util

JOB: Final = "whosegpu-labeler"
NAMESPACES: Final[list[str | None]] = ["ml", "nlp", "stray", "t1", "not|one", None]
LAST: Final = 60
"""Times are whole seconds from 0 to this."""

_MENU: Final = [
    rules(Written(action="drop")),
    rules(Written(source_labels=("pod",), regex="ml-.*", action="drop")),
    rules(Written(source_labels=("__name__",), regex="DCGM_.*", action="keep")),
    rules(Written(regex="node|pod_uid|job", action="labeldrop"), Written(target_label="site", replacement="x")),
    rules(Written(regex="__name__", action="labeldrop")),
    rules(Written(regex=".+", action="labeldrop")),
]
MERGING: Final = rules(
    Written(regex="UUID|gpu|side", action="labeldrop"), Written(target_label="__name__", replacement="n")
)
"""Makes series of several devices and families one."""

DEVICES: Final = [
    util(),
    util(__name__="DCGM_FI_DEV_FB_USED"),
    util(UUID=OTHER_CARD, gpu="1", namespace="nlp", pod="forged"),
    util(UUID=OTHER_CARD, gpu="1", cluster="c", __replica__="a", node="forged"),
    util(UUID=OTHER_CARD, gpu="1", cluster="c", __replica__="b", dra_x="y", unattributed="idle"),
    util(UUID="GPU-none", pod="x"),
    util(GPU_I_ID="3"),
]
COPIES: Final = [util(pod="exporter"), util(vgpu="1"), util(UUID=OTHER_CARD, gpu="1", exported_pod="x")]
OTHERS: Final = [
    LabelSet.of({"__name__": "heart", "side": "left", "namespace": "ml"}),
    LabelSet.of({"__name__": "heart", "side": "right", "namespace": "stray"}),
    LabelSet.of({"__name__": "whosegpu_device_up", "job": JOB, "UUID": CARD, "namespace": "nlp"}),
    LabelSet.of({"__name__": "whosegpu_owner_share", "job": JOB, "UUID": CARD, "namespace": "nlp"}),
    LabelSet.of({"__name__": "whosegpu_finding", "job": JOB}),
]
BAD: Final = [LabelSet.of({"job": "nameless"}), LabelSet.of({"__name__": "long", "v": "v" * 2049})]

Request = list[tuple[LabelSet, list[tuple[float, str]]]]
"""Entries, each with its points: a time, and what it is (value, histogram, stale, exemplar)."""

TRUSTS: Final = st.builds(
    Trust, trusted_jobs=st.sampled_from([frozenset[str](), frozenset({JOB})]), namespace_label=st.booleans()
)


@st.composite
def tenancies(draw: st.DrawFn, *, merging: bool = False, dynamic: bool = True) -> Tenancy:
    """Up to five tenants of all views with rules, namespaces that are listed, any policy, tenants as data."""
    menu = st.sampled_from([(), (), (), *_MENU, *([MERGING] if merging else [])])
    views = st.sampled_from(["owned", "owned", "joined", "raw"])
    made = tenants(*[(f"t{at}", draw(views), draw(menu)) for at in range(draw(st.integers(1, 5)))])
    some = st.sampled_from(made)
    policy = draw(st.sampled_from(["quarantine", "drop", "reject", "tenant"]))
    return Tenancy(
        made,
        {name: draw(some) for name in ("ml", "nlp") if draw(st.booleans())},
        idle_tenant=draw(st.none() | some),
        unowned=Unowned(policy, draw(some) if policy == "tenant" else None),  # type: ignore[arg-type]
        dynamic=DynamicTenants(draw(menu)) if dynamic and draw(st.booleans()) else None,
        ownership=draw(st.sampled_from([True, True, True, False])),
        strip_labels=draw(st.sampled_from([frozenset[str](), frozenset({"instance"})])),
        keep_exporter_labels=draw(st.booleans()),
        labels_per_series=draw(st.sampled_from([30, 30, 12, 6])),
    )


@st.composite
def cards(draw: st.DrawFn, until: float) -> list[Document]:
    """Both cards with intervals of all kinds, the last one open or not, none that begins after `until`."""
    out = []
    for uuid in draw(st.lists(st.sampled_from([CARD, OTHER_CARD]), unique=True, min_size=1)):
        cuts = sorted(draw(st.sets(st.integers(0, int(until)), min_size=1, max_size=6)))
        intervals = []
        for begin, end in zip(cuts, [*cuts[1:], None], strict=True):
            if draw(st.integers(0, 5)):
                most = 1 if draw(st.integers(0, 5)) else 2
                names: list[str | None] = draw(st.lists(st.sampled_from(NAMESPACES), max_size=most))
                host: dict[str, Any] = {}
                if draw(st.booleans()) and not names:
                    host = {"unattributed_bytes": 1, "unattributed_reason": "host"}
                pods = [owner(name, f"{name}-{draw(st.integers(0, 1))}") for name in names]
                intervals.append(interval(begin, end, *pods, **host))
        sharing = draw(st.sampled_from(["exclusive"] * 8 + ["time-slicing"]))
        out.append(card(*intervals, uuid=uuid, sharing=sharing))
    return out


def requests(universe: list[LabelSet], kinds: list[str], times: st.SearchStrategy[int]) -> st.SearchStrategy[Request]:
    """Requests of series of a universe, each some points of these kinds; the same series may come several times."""
    points = st.lists(st.tuples(times, st.sampled_from(kinds)), min_size=1, max_size=3)
    return st.lists(st.tuples(st.sampled_from(universe), points), min_size=1, max_size=8)


TIMES: Final = st.integers(0, LAST)
FEW_TIMES: Final = st.sampled_from([5, 20, 21, 40])
DOCUMENTS: Final = st.integers(20, LAST).flatmap(lambda until: st.tuples(cards(until), st.just(until)))
"""Both cards, and until when they were observed."""
