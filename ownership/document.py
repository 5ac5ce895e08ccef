"""The ownership document, version 1: what a labeler answers at `/v1/ownership`, and what `ownership.files` hold.

A document is either right or refused: nothing is taken from one that breaks a rule, and only `DocumentError` comes
out of it, whatever its bytes are. Unknown keys are ignored, so that a newer labeler can say more to an older proxy.
Words are different: `sharing` and `unattributed_reason` decide what is done with samples, so their lists are closed,
and a new word comes with a new `version`. Codes of findings are only shown, so any is taken.

Times are milliseconds since the epoch. None means unknown, except in `to_ms` (open), `gpu_instance_id` (the whole
card), `since` (a whole document) and `unattributed_reason` (nothing is unattributed).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from ownership.device import CARD_PREFIX, DeviceKey
from ownership.errors import DocumentError

VERSION: Final = 1

DOCUMENT_BYTES: Final = 64 << 20  # 16 shared cards, whose memory moved at every poll of 3 h, are 40 MB
DEVICES: Final = 16_384  # a file may tell of a whole cluster as one node: 8000 cards, and as many instances
INTERVALS: Final = 16_384  # a new one at every poll of a second makes 10,800 in the default history of 3 h
OWNERS: Final = 1024  # the kubelet runs 110 pods by default, and 500 on the largest managed nodes
NAME_CHARS: Final = 253  # the longest name in Kubernetes; NVML's own strings end at 96
DETAIL_CHARS: Final = 1024  # a finding says one sentence
COUNT_MAX: Final = (1 << 31) - 1  # indexes, slots, replicas, ids of instances: C ints where they come from
INT64_MAX: Final = (1 << 63) - 1  # bytes and revisions; also the most that the packed history holds
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999, the last time that RFC 3339 can write


class Sharing(StrEnum):
    """How a device is given to pods."""

    EXCLUSIVE = "exclusive"
    MIG = "mig"
    TIME_SLICING = "time-slicing"
    MPS = "mps"
    DRA_SHARED = "dra-shared"


class Unattributed(StrEnum):
    """Whose the bytes are that belong to no pod; of several kinds, the one with the most bytes."""

    HOST = "host"
    FOREIGN_CONTAINER = "foreign_container"
    UNKNOWN_POD = "unknown_pod"
    UNRESOLVED = "unresolved"


def _decimal_text(value: object) -> object:
    """An instance's id is a number to NVML and a text to DCGM's labels; both are taken, the text is kept."""
    return str(value) if type(value) is int and 0 <= value <= COUNT_MAX else value


Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Bytes = Annotated[int, Field(ge=0, le=INT64_MAX)]
Milliseconds = Annotated[int, Field(ge=0, le=LAST_MS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One container that holds a device or uses it."""

    pod_uid: Name | None = None
    namespace: Name | None = None
    pod: Name | None = None
    container: Name | None = None
    controller_kind: Name | None = None
    controller_name: Name | None = None
    slots: Count = 1
    memory_bytes: Bytes | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a device that somebody should look at; codes as interface 5."""

    code: Name
    pod_uid: Name | None = None
    detail: Annotated[str, Field(max_length=DETAIL_CHARS)] = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """Who owned a device in [from_ms, to_ms); `to_ms` None is open, no owners and nothing unattributed is idle."""

    from_ms: Annotated[Milliseconds, Field(alias="from")]
    to_ms: Annotated[Milliseconds | None, Field(alias="to")]
    owners: Annotated[tuple[Owner, ...], FailFast(), Field(max_length=OWNERS)]
    overhead_bytes: Bytes = 0
    unattributed_bytes: Bytes = 0
    unattributed_reason: Unattributed | None = None
    findings: Annotated[tuple[Finding, ...], FailFast(), Field(max_length=OWNERS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A card, or one GPU instance of a MIG card (`uuid` is the card's), with its intervals in time order.

    An instance that was re-created is another device of the same key: its `mig_uuid` differs.
    """

    uuid: Name
    index: Count
    model: Name
    memory_total_bytes: Bytes
    gpu_instance_id: Annotated[Name | None, BeforeValidator(_decimal_text)] = None
    mig_uuid: Name | None = None
    mig_profile: Name | None = None
    replicas: Annotated[int, Field(ge=1, le=COUNT_MAX)] = 1
    sharing: Sharing
    intervals: Annotated[tuple[Interval, ...], FailFast(), Field(max_length=INTERVALS)]

    @property
    def key(self) -> DeviceKey:
        """What series of this device are joined by."""
        return DeviceKey(self.uuid, self.gpu_instance_id or "")


@dataclass(frozen=True, slots=True)
class NodeDocument:
    """What one node has observed in [observed_from_ms, observed_until_ms].

    With `since` it is partial: only the devices that changed since that revision, each with only those of its
    intervals that began, ended or changed.
    """

    version: Annotated[int, Field(ge=VERSION, le=VERSION)]
    revision: Annotated[int, Field(ge=0, le=INT64_MAX)]
    node: Name
    observed_from_ms: Annotated[Milliseconds, Field(alias="observed_from")]
    observed_until_ms: Annotated[Milliseconds, Field(alias="observed_until")]
    devices: Annotated[tuple[Device, ...], FailFast(), Field(max_length=DEVICES)]
    since: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None


_JSON: Final = TypeAdapter(NodeDocument)

_SENTENCES: Final = {  # pydantic's kinds of error that these types can make; `ctx` fills the braces
    "missing": "is missing",
    "int_type": "must be an integer",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "dataclass_type": "must be an object",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} entries",
    "enum": "must be {expected}",
    "json_invalid": "is not JSON: {error}",
}


def parse_document(raw: bytes) -> NodeDocument:
    """The document that the bytes hold; raises DocumentError, whose sentence begins with the path."""
    if len(raw) > DOCUMENT_BYTES:
        raise DocumentError(f"the document: must have at most {DOCUMENT_BYTES} bytes, this one has {len(raw)}")
    try:
        document = _JSON.validate_json(raw, strict=True)
    except ValidationError as error:
        raise DocumentError(_sentence(error.errors(include_url=False, include_input=False)[0])) from None
    for fault in _faults(document):
        raise DocumentError(fault)
    return document


def to_json(document: NodeDocument) -> bytes:
    """The document as JSON, of which `parse_document` makes the same; raises DocumentError for text beyond UTF-8."""
    whole = {"since"} if document.since is None else None
    try:
        return _JSON.dump_json(document, by_alias=True, exclude=whole)
    except PydanticSerializationError as error:
        raise DocumentError(f"the document: cannot be written as JSON: {error}") from error


def _sentence(error: ErrorDetails) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    template = _SENTENCES.get(error["type"])
    said = template.format_map(error.get("ctx", {})) if template else error["msg"]
    return f"{path.removeprefix('.') or 'the document'}: {said}"


def _faults(document: NodeDocument) -> Iterator[str]:
    """What is wrong between fields."""
    if document.observed_until_ms < document.observed_from_ms:
        yield "observed_until: must not be before observed_from"
    if document.since is not None and document.since > document.revision:
        yield "since: must not be above revision"
    listed: dict[tuple[DeviceKey, str | None], int] = {}
    for position, device in enumerate(document.devices):
        path = f"devices[{position}]"
        if not device.uuid.startswith(CARD_PREFIX):
            yield f"{path}.uuid: must be the UUID of a card, which starts with {CARD_PREFIX}"
        first = listed.setdefault((device.key, device.mig_uuid), position)
        if first != position:
            yield f"{path}: is the same device as devices[{first}]"
        yield from _interval_faults(device, path)
    yield from _overlap_faults(document.devices)


def _interval_faults(device: Device, path: str) -> Iterator[str]:
    end: int | None = 0
    for position, interval in enumerate(device.intervals):
        start = interval.from_ms
        at = f"{path}.intervals[{position}]"
        if end is None:
            yield f"{at}: follows an open interval, and only the last one may be open"
        elif start < end:
            yield f"{at}.from: must not be before the end of the interval before it"
        if interval.to_ms is not None and interval.to_ms <= start:
            yield f"{at}.to: must be after from"
        if interval.unattributed_bytes and interval.unattributed_reason is None:
            yield f"{at}.unattributed_reason: is missing, with unattributed_bytes above 0"
        end = interval.to_ms


def _overlap_faults(devices: tuple[Device, ...]) -> Iterator[str]:
    """Instances that followed each other under one key must not overlap in time."""
    if len({device.key for device in devices}) == len(devices):
        return
    spans = sorted(
        (device.key, interval.from_ms, LAST_MS + 1 if interval.to_ms is None else interval.to_ms, position)
        for position, device in enumerate(devices)
        for interval in device.intervals
    )
    for (key, _, end, _), (next_key, start, _, position) in pairwise(spans):
        if key == next_key and start < end:
            yield f"devices[{position}].intervals: overlap those of another instance with this gpu_instance_id"
