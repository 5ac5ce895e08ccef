"""What stands in the demo's racks, and what its teams run there."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20
MODEL: Final = "NVIDIA H100 80GB HBM3"
CARD_MIB: Final = 81_559  # used, free and reserved together, as such a card tells
RESERVED_MIB: Final = 551
OVERHEAD_MIB: Final = 20  # what the driver holds of a used card beside the processes


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU."""

    node: str
    index: int
    uuid: str
    pci_bus_id: str


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. `honor_labels` is how Prometheus scrapes it: whether the exporter's own pod labels stay as they are.

    `observed` tells whether a labeler runs there: without one nobody knows who owns its cards.
    """

    name: str
    address: str
    honor_labels: bool
    observed: bool
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What a team runs: `pod` is the pattern of its pods' names, `number` and `suffix` are filled in."""

    namespace: str
    kind: str
    name: str
    container: str
    pod: str
    memory_mib: int


def _cards(node: str, serial: int, count: int) -> tuple[Card, ...]:
    return tuple(
        Card(
            node,
            index,
            f"GPU-{serial:08x}-63b8-4c1e-8f0a-{0x91B7E4A5D300 + index:012x}",
            f"00000000:{0x1A + 0x10 * index:02X}:00.0",
        )
        for index in range(count)
    )


NODES: Final = (
    Node("gpu-node-a", "10.0.0.11", honor_labels=True, observed=True, cards=_cards("gpu-node-a", 0x5B1E0C44, 8)),
    Node("gpu-node-b", "10.0.0.12", honor_labels=False, observed=True, cards=_cards("gpu-node-b", 0x0F7D3A96, 8)),
    Node("gpu-node-c", "10.0.0.13", honor_labels=True, observed=False, cards=_cards("gpu-node-c", 0xC2F49D07, 1)),
)
"""The third is new: its exporter runs already, its labeler does not, so its samples wait in quarantine."""

CARDS: Final = tuple(card for node in NODES for card in node.cards)

WORKLOADS: Final = (
    Workload("team-ml", "StatefulSet", "vllm", "server", "vllm-{number}", 66_048),
    Workload("team-ml", "Job", "finetune", "trainer", "finetune-{suffix}", 72_704),
    Workload("team-nlp", "Deployment", "chat", "server", "chat-7c9d5b6f4d-{suffix}", 52_224),
    Workload("team-nlp", "Job", "evaluate", "runner", "evaluate-{suffix}", 30_720),
    Workload("team-vision", "PyTorchJob", "resnet", "pytorch", "resnet-worker-{number}", 70_656),
    Workload("team-vision", "Deployment", "detector", "server", "detector-6f5b8c9d7b-{suffix}", 16_384),
)

TEAMS: Final = tuple(sorted({workload.namespace for workload in WORKLOADS}))
PLATFORM: Final = "platform"
TENANTS: Final = (*TEAMS, PLATFORM)
"""Each team's namespace has its name, and so has its tenant; the platform team sees everything."""
