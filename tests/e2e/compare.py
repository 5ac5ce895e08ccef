"""What a tenant should have, worked out from what the sending Prometheus itself has stored."""

from collections.abc import Callable, Iterable, Mapping

from tests.e2e.fleet import Tree
from tests.peers.processes import wait_until
from tests.peers.promql import QueryApi, Series

EXTERNAL = {"cluster": "test", "prometheus": "a"}
NEVER_BELIEVED = {
    *("pod", "namespace", "container", "pod_uid", "vgpu", "hpc_job", "Hostname", "hostname"),
    *("exported_pod", "exported_namespace", "exported_container"),
}
OWNER_LABELS = ("pod_uid", "namespace", "pod", "container", "controller_kind", "controller_name")

Content = dict[frozenset[tuple[str, str]], tuple[tuple[int, float], ...]]
"""Label sets with their samples (milliseconds, value)."""


def content(found: Iterable[Series]) -> Content:
    """What a range selector found."""
    return {frozenset(series.labels.items()): series.samples for series in found}


def sent(api: QueryApi, selector: str, at_ms: int) -> tuple[Series, ...]:
    """All that a Prometheus has of a selector in the ten minutes before, sample by sample."""
    return api.query(f"{selector}[10m]", at_ms)


def joined(series: Series, labels: Mapping[str, str]) -> Content:
    """One series as its tenant gets it: what the exporter says of owners gone, these labels put on."""
    kept = {name: value for name, value in series.labels.items() if name not in NEVER_BELIEVED}
    return {frozenset({**kept, **EXTERNAL, **labels}.items()): series.samples}


def owned(series: Iterable[Series], uuid: str, node: str, owner: Tree) -> Content:
    """The series of one card as its owner's tenant gets them."""
    labels = {"node": node, **{name: str(owner[name]) for name in OWNER_LABELS}}
    found: Content = {}
    for each in series:
        if each.labels["UUID"] == uuid:
            found |= joined(each, labels)
    return found


def wait_for(expected: Content, actual: Callable[[], Content], what: str, *, deadline_s: float = 25) -> None:
    """Wait until a store has exactly what is expected; the error names what is missing and what is too much."""

    def differences() -> str:
        have = actual()
        lines = [f"missing {dict(key)} {samples}" for key, samples in expected.items() if have.get(key) != samples]
        lines += [f"found   {dict(key)} {samples}" for key, samples in have.items() if expected.get(key) != samples]
        return f"{len(expected)} series expected, {len(have)} found\n" + "\n".join(lines[:20])

    wait_until(lambda: actual() == expected, what, deadline_s=deadline_s, diagnosis=differences)
