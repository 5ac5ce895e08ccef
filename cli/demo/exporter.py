"""What dcgm-exporter tells of the demo's cards: the families of its default list, a few more, and its own labels.

The pod labels are what the kubelet said a moment ago, as with a real exporter: for some seconds after a hand-over they
name the pod before. Nobody should believe them, and the proxy does not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cli.demo.hardware import CARD_MIB, CARDS, MODEL, OVERHEAD_MIB, RESERVED_MIB, Card, Node
from cli.demo.simulation import Cluster, Pod, owner_at

LABELS_LATE_MS: Final = 3_000
DRIVER: Final = "580.95.05"
IDLE_WATTS: Final = 70.0
BUSY_WATTS: Final = 560.0  # on top of idle; an H100 takes up to 700 W
NVLINK_MIB_PER_SECOND: Final = 180_000.0

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """One card at one time: `load` from 0 to 1, `used_mib` of its memory, counters since the demo began."""

    load: float
    used_mib: int
    watts: float
    energy_mj: float
    nvlink_mib: float


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family of the exporter."""

    name: str
    kind: str
    text: str
    value: Callable[[Reading], float]


def _whole(scale: float, base: float = 0) -> Callable[[Reading], float]:
    return lambda reading: float(round(base + scale * reading.load))


def _ratio(scale: float) -> Callable[[Reading], float]:
    return lambda reading: round(scale * reading.load, 6)  # the exporter prints six decimals


def _zero(_: Reading) -> float:
    return 0.0


FAMILIES: Final = (
    Family("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock in MHz", _whole(1635, 345)),
    Family("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock in MHz", _whole(0, 2619)),
    Family("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature in C", _whole(28, 41)),
    Family("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature in C", _whole(34, 31)),
    Family("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw in W", lambda reading: round(reading.watts, 3)),
    Family(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Energy since boot in mJ",
        lambda reading: float(round(reading.energy_mj)),
    ),
    Family("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries", _zero),
    Family("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilisation in %", _whole(100)),
    Family("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory bandwidth in use in %", _whole(72)),
    Family("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilisation in %", _zero),
    Family("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilisation in %", _zero),
    Family("DCGM_FI_DEV_XID_ERRORS", "gauge", "The last XID error", _zero),
    Family("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttled for power, in ns", _zero),
    Family("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttled for heat, in ns", _zero),
    Family(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "Free memory in MiB",
        lambda reading: float(CARD_MIB - RESERVED_MIB - reading.used_mib),
    ),
    Family("DCGM_FI_DEV_FB_USED", "gauge", "Used memory in MiB", lambda reading: float(reading.used_mib)),
    Family("DCGM_FI_DEV_FB_RESERVED", "gauge", "Reserved memory in MiB", _whole(0, RESERVED_MIB)),
    Family("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Single-bit errors", _zero),
    Family("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit errors", _zero),
    Family("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped, uncorrectable", _zero),
    Family("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped, correctable", _zero),
    Family("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping failed", _zero),
    Family(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "NVLink traffic",
        lambda reading: float(round(reading.nvlink_mib)),
    ),
    Family("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU licence", _zero),
    Family("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Graphics engine active, 0 to 1", _ratio(0.99)),
    Family("DCGM_FI_PROF_SM_ACTIVE", "gauge", "SMs active, 0 to 1", _ratio(0.91)),
    Family("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Warps resident, 0 to 1", _ratio(0.47)),
    Family("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Tensor pipe active, 0 to 1", _ratio(0.6)),
    Family("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "gauge", "FP16 pipe active, 0 to 1", _ratio(0.12)),
    Family("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Memory interface active, 0 to 1", _ratio(0.66)),
    Family("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "PCIe sent, bytes a second", _whole(2_147_483_648, 298_011)),
    Family("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "PCIe received, bytes a second", _whole(1_610_612_736, 377_344)),
)


@dataclass(slots=True)
class _Meter:
    """Counters of one card, and up to when they count."""

    at_ms: int
    energy_mj: float
    nvlink_mib: float = 0.0


@dataclass(slots=True)
class Exporter:
    """The exporters of all nodes; remembers the cards' counters between scrapes."""

    _meters: dict[str, _Meter] = field(default_factory=dict)

    def scrape(self, node: Node, cluster: Cluster, at_ms: int) -> list[tuple[Labels, float]]:
        """Each series of the node's exporter, with the labels that the exporter gives it."""
        out: list[tuple[Labels, float]] = []
        cards = [(number, card) for number, card in enumerate(CARDS) if card.node == node.name]
        readings = [self._reading(number, card, owner_at(cluster, number, at_ms), at_ms) for number, card in cards]
        labels = [
            _card_labels(card) | _pod_labels(owner_at(cluster, number, at_ms - LABELS_LATE_MS))
            for number, card in cards
        ]
        for family in FAMILIES:
            own = {"__name__": family.name}
            if family.name == "DCGM_FI_DEV_XID_ERRORS":
                own |= {"err_code": "0", "err_msg": "No Error"}
            out += [(known | own, family.value(reading)) for known, reading in zip(labels, readings, strict=True)]
        return out

    def _reading(self, number: int, card: Card, pod: Pod | None, at_ms: int) -> Reading:
        load = _load(number, pod, at_ms)
        watts = IDLE_WATTS + BUSY_WATTS * load
        meter = self._meters.setdefault(card.uuid, _Meter(at_ms, 300e9 + 1e9 * number))
        seconds = max(0, at_ms - meter.at_ms) / 1000
        meter.energy_mj += watts * seconds * 1000
        meter.nvlink_mib += NVLINK_MIB_PER_SECOND * load * seconds
        meter.at_ms = max(meter.at_ms, at_ms)
        used_mib = 0 if pod is None else pod.workload.memory_mib + OVERHEAD_MIB
        return Reading(load, used_mib, watts, meter.energy_mj, meter.nvlink_mib)


def _load(number: int, pod: Pod | None, at_ms: int) -> float:
    """How busy a card is: training is steady, serving comes in waves."""
    if pod is None:
        return 0.0
    wave = math.sin(at_ms / 1000 / (7 + number) * math.tau)
    return 0.93 + 0.06 * wave if pod.workload.container != "server" else 0.45 + 0.4 * wave


def _card_labels(card: Card) -> Labels:
    return {
        "gpu": str(card.index),
        "UUID": card.uuid,
        "pci_bus_id": card.pci_bus_id,
        "device": f"nvidia{card.index}",
        "modelName": MODEL,
        "Hostname": card.node,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
    }


def _pod_labels(pod: Pod | None) -> Labels:
    if pod is None:
        return {}
    return {"container": pod.workload.container, "namespace": pod.workload.namespace, "pod": pod.name}
