"""The identity by which series and ownership are joined, and nothing else: (UUID, GPU_I_ID)."""

from collections.abc import Callable
from typing import NamedTuple

CARD_PREFIX = "GPU-"


class DeviceKey(NamedTuple):
    """A card, or one GPU instance of a MIG card.

    `uuid` is always the card's, `gpu_instance_id` is NVML's id of the instance in decimal, "" for a whole card.
    """

    uuid: str
    gpu_instance_id: str


def device_key(get: Callable[[str], str]) -> DeviceKey | None:
    """The device that a series is about, or None for a series that is about none.

    `get` returns the value of a label, "" where the series has none.
    """
    uuid = get("UUID")
    return DeviceKey(uuid, get("GPU_I_ID")) if uuid.startswith(CARD_PREFIX) else None
