"""The load of the benchmarks: requests as a Prometheus sends them from a cluster of GPU nodes, made once."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cramjam

from proxy.core.fields import frame, varint
from proxy.core.timeseries import encode_labels

BEGIN_MS: Final = 1_796_000_000_000
SCRAPE_MS: Final = 15_000
SERIES_PER_REQUEST: Final = 2_000
NOBODY: Final = "http://127.0.0.1:1/"
"""Where no store is."""

FAMILIES: Final = (
    *("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
    *("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL"),
    *("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"),
    *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
    *("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES"),
)


@dataclass(frozen=True, slots=True)
class Device:
    """A card and whose it is."""

    uuid: str
    node: str
    index: int
    tenant: str
    pod: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class Load:
    """`bodies[scrape][shard]` are snappy blocks of requests, each of `series` series with one sample."""

    tenants: tuple[str, ...]
    devices: tuple[Device, ...]
    bodies: tuple[tuple[bytes, ...], ...]
    series: int


def tenant_names(count: int) -> tuple[str, ...]:
    """As many tenants."""
    return tuple(f"team-{number:04d}" for number in range(count))


def devices_of(tenants: tuple[str, ...], count: int) -> tuple[Device, ...]:
    """As many cards, eight a node; neighbours belong to different tenants."""
    return tuple(
        Device(
            uuid=f"GPU-5b1e0c44-7a0d-4f6b-9a52-{number:012x}",
            node=f"gpu-node-{number // 8:04d}",
            index=number % 8,
            tenant=tenants[number % len(tenants)],
            pod=f"trainer-{number}",
            pod_uid=f"3d0c8f52-94a1-4a0e-8b77-{number:012x}",
        )
        for number in range(count)
    )


def labels_of(device: Device, family: str) -> list[tuple[str, str]]:
    """The labels of one DCGM series behind a Prometheus with external labels: 18, sorted."""
    return sorted(
        {
            "__name__": family,
            "gpu": str(device.index),
            "UUID": device.uuid,
            "pci_bus_id": f"00000000:{device.index:02X}:00.0",
            "device": f"nvidia{device.index}",
            "modelName": "NVIDIA H100 80GB HBM3",
            "Hostname": device.node,
            "DCGM_FI_DRIVER_VERSION": "580.95.05",
            "container": "trainer",
            "namespace": device.tenant,
            "pod": device.pod,
            "pod_uid": device.pod_uid,
            "instance": f"10.0.{device.index}.7:9400",
            "job": "dcgm-exporter",
            "cluster": "prod-eu-1",
            "region": "eu-west-1",
            "zone": "eu-west-1a",
            "prometheus": "monitoring/k8s-0",
        }.items()
    )


def blocks_of(devices: tuple[Device, ...]) -> Iterator[bytes]:
    """The label block of each series, card after card."""
    for device in devices:
        for family in FAMILIES:
            yield encode_labels([(name.encode(), value.encode()) for name, value in labels_of(device, family)])


def request_of(blocks: list[bytes], time_ms: int) -> bytes:
    """A decoded request with one sample for each block; some values are 0, as those of idle engines are."""
    out: list[bytes] = []
    stamp = b"\x10" + varint(time_ms)
    for number, block in enumerate(blocks):
        value = b"" if number % 7 == 0 else b"\x09" + struct.pack("<d", 10.0 + (number * 37 + time_ms) % 1000 / 10)
        sample = value + stamp
        out.append(frame(len(block) + len(sample) + 2) + block + b"\x12" + varint(len(sample)) + sample)
    return b"".join(out)


def make_load(tenant_count: int, *, shards: int = 16, scrapes: int = 4) -> Load:
    """`shards` requests of SERIES_PER_REQUEST series for each of `scrapes` scrapes."""
    tenants = tenant_names(tenant_count)
    devices = devices_of(tenants, shards * SERIES_PER_REQUEST // len(FAMILIES))
    blocks = list(blocks_of(devices))
    bodies = tuple(
        tuple(
            bytes(cramjam.snappy.compress_raw(request_of(_shard(blocks, shard), BEGIN_MS + scrape * SCRAPE_MS)))
            for shard in range(shards)
        )
        for scrape in range(scrapes)
    )
    return Load(tenants, devices, bodies, SERIES_PER_REQUEST)


def _shard(blocks: list[bytes], shard: int) -> list[bytes]:
    return blocks[shard * SERIES_PER_REQUEST : (shard + 1) * SERIES_PER_REQUEST]


def ownership_document(load: Load, node: str = "cluster") -> bytes:
    """One static document for all cards, each with one owner for all of the time."""
    until = BEGIN_MS + 10 * 365 * 86_400_000
    devices = [
        {
            "uuid": device.uuid,
            "index": device.index,
            "model": "NVIDIA H100 80GB HBM3",
            "memory_total_bytes": 85_520_809_984,
            "gpu_instance_id": None,
            "mig_uuid": None,
            "mig_profile": None,
            "replicas": 1,
            "sharing": "exclusive",
            "intervals": [{"from": BEGIN_MS - 86_400_000, "to": None, "owners": [_owner(device)], **_NOTHING_ELSE}],
        }
        for device in load.devices
    ]
    head = {"version": 1, "revision": 1, "node": node, "observed_from": BEGIN_MS - 86_400_000, "observed_until": until}
    return json.dumps({**head, "devices": devices}).encode()


_NOTHING_ELSE: Final = {"overhead_bytes": 0, "unattributed_bytes": 0, "findings": []}


def _owner(device: Device) -> dict[str, object]:
    return {
        "pod_uid": device.pod_uid,
        "namespace": device.tenant,
        "pod": device.pod,
        "container": "trainer",
        "controller_kind": "StatefulSet",
        "controller_name": "trainer",
        "slots": 1,
        "memory_bytes": 25_769_803_776,
    }


def write_proxy_config(load: Load, folder: Path, sink: str, down: str = "") -> Path:
    """A configuration with one owned tenant for each, all sent to `sink`, each under its own path.

    Nobody listens where the tenant `down` is sent.
    """
    (folder / "ownership.json").write_bytes(ownership_document(load))
    lines = [
        "proxy: {listen: '127.0.0.1:0', data_dir: '%s'}" % (folder / "data"),
        "ownership: {files: ['%s']}" % (folder / "ownership.json"),
        "tenants:",
    ]
    for tenant in load.tenants:
        url = NOBODY if tenant == down else f"{sink}/{tenant}"
        lines.append(f"- {{id: {tenant}, namespaces: [{tenant}], endpoint: {{url: '{url}'}}}}")
    path = folder / "whosegpu.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path
