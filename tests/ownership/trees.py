"""Ownership documents as JSON trees, for tests of what is taken and what is refused."""

import json
from typing import Any

Json = dict[str, Any]


def owner(**fields: object) -> Json:
    """One owner."""
    return {"pod_uid": "3d0c", "namespace": "team-ml", "pod": "vllm-0", "container": "server"} | fields


def interval(**fields: object) -> Json:
    """One interval of it."""
    return {"from": 100, "to": 200, "owners": [owner()]} | fields


def device(**fields: object) -> Json:
    """A card with that interval."""
    card: Json = {"uuid": "GPU-1", "index": 0, "model": "H100", "memory_total_bytes": 80, "sharing": "exclusive"}
    return card | {"intervals": [interval()]} | fields


def document(**fields: object) -> Json:
    """A whole document of that card."""
    whole: Json = {"version": 1, "revision": 17, "node": "gpu-node-a", "observed_from": 100, "observed_until": 300}
    return whole | {"devices": [device()]} | fields


def with_interval(**fields: object) -> Json:
    """The document with other fields in its interval."""
    return document(devices=[device(intervals=[interval(**fields)])])


def with_intervals(*spans: tuple[int, int | None]) -> Json:
    """The document with these intervals, idle ones."""
    return document(devices=[device(intervals=[{"from": start, "to": end, "owners": []} for start, end in spans])])


def without(name: str, thing: Json) -> Json:
    """A thing without one of its keys."""
    return {key: value for key, value in thing.items() if key != name}


def as_bytes(tree: object) -> bytes:
    """As a labeler would send it."""
    return json.dumps(tree).encode()
