"""Ownership documents for the devices of tests/vectors/dcgm, as files that a proxy re-reads."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[1] / "vectors/dcgm"

BARE = ("GPU-5b1e0c44-7a0d-4f6b-9a52-0d6f2f7c1a10", "GPU-c2f49d07-63b8-4c1e-8f0a-91b7e4a5d311")
KUBERNETES = tuple(f"GPU-0f7d3a96-2c51-4be8-b6f3-5a1c9e20d40{number}" for number in (1, 2, 3))
LEGACY = tuple(f"GPU-e19c7f60-88b2-43ad-bd0e-64f1a2c3d90{number}" for number in (0, 1))
DIVIDED = "GPU-8e6b2d15-f9c3-4d72-a1e4-7730c5b9f500"
SLICED = "GPU-b7a40e38-1d96-4c2f-93d5-2e8c6f04ab70"

Tree = dict[str, Any]


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def exposition(name: str) -> str:
    """A recorded answer of dcgm-exporter."""
    return (VECTORS / f"{name}.prom").read_text(encoding="utf-8")


def owner(namespace: str, pod: str, kind: str, controller: str) -> Tree:
    """A pod's container that holds a device."""
    return {
        "pod_uid": f"uid-of-{pod}",
        "namespace": namespace,
        "pod": pod,
        "container": "main",
        "controller_kind": kind,
        "controller_name": controller,
        "slots": 1,
        "memory_bytes": 1 << 30,
    }


def interval(from_ms: int, to_ms: int | None, *owners: Tree) -> Tree:
    """One interval of a device; without owners it is idle."""
    return {"from": from_ms, "to": to_ms, "owners": list(owners), "overhead_bytes": 0, "unattributed_bytes": 0}


def device(uuid: str, *intervals: Tree, sharing: str = "exclusive", instance: str | None = None) -> Tree:
    """One device with its intervals."""
    return {
        "uuid": uuid,
        "index": 0,
        "model": "NVIDIA",
        "memory_total_bytes": 80 << 30,
        "gpu_instance_id": instance,
        "replicas": 1,
        "sharing": sharing,
        "intervals": list(intervals),
    }


def write(
    path: Path, node: str, devices: Iterable[Tree], *, from_ms: int | None = None, until_ms: int | None = None
) -> Path:
    """Write a node's document all at once; by default the node is observed from an hour ago for an hour to come."""
    document = {
        "version": 1,
        "revision": now_ms(),
        "node": node,
        "observed_from": now_ms() - 3_600_000 if from_ms is None else from_ms,
        "observed_until": now_ms() + 3_600_000 if until_ms is None else until_ms,
        "devices": list(devices),
    }
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(document), encoding="utf-8")
    unfinished.replace(path)
    return path
