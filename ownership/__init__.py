"""Who owned a GPU at a time: documents, their intervals, the as-of lookup. Pure: bytes and values in, values out."""

from ownership.device import DeviceKey
from ownership.document import Device, Finding, Interval, NodeDocument, Owner, parse_document, to_json
from ownership.errors import DocumentError, OwnershipError, RevisionError
from ownership.fleet import Changes, Fleet, Listed, Unknown
from ownership.node import Holding, NodeState

__all__ = [
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
    "parse_document",
    "to_json",
]
