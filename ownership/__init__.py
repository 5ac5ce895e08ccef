"""Who owned a GPU at a time: documents, their intervals, the as-of lookup. Pure: bytes and values in, values out."""

from ownership.device import DeviceKey, device_key
from ownership.document import (
    DOCUMENT_BYTES,
    Device,
    Finding,
    Interval,
    NodeDocument,
    Owner,
    parse_document,
    to_json,
)
from ownership.errors import DocumentError, OwnershipError, RevisionError
from ownership.fleet import Changes, Fleet, Listed, Unknown
from ownership.node import Holding, NodeState

__all__ = [
    "DOCUMENT_BYTES",
    "Changes",
    "Device",
    "DeviceKey",
    "DocumentError",
    "Finding",
    "Fleet",
    "Holding",
    "Interval",
    "Listed",
    "NodeDocument",
    "NodeState",
    "Owner",
    "OwnershipError",
    "RevisionError",
    "Unknown",
    "device_key",
    "parse_document",
    "to_json",
]
