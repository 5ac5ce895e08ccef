"""Orders to whoever keeps a data folder: what `whosegpu queue` and `whosegpu quarantine` ask for, and the answers.

On the wire each is one line of JSON. An order is an object with its name under `order` and every field of its class;
an answer is an object with `answer`, or with `error`, which is one sentence that says what to do.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from proxy.core.errors import ProxyError

LINE_BYTES: Final = 64 << 10
"""Of an order at most: its texts have some four thousand characters, each of them twelve bytes in escapes."""

INSPECTED: Final = 100
"""Records of a queue in one answer at most; each may have four megabytes in memory."""

LISTED: Final = 1000
"""Records of the quarantine in one answer at most."""

_TENANT_CHARACTERS: Final = 1024
_REASON_CHARACTERS: Final = 200
_MATCH_CHARACTERS: Final = 4096
_MOST: Final = 2**63 - 1
_SHOWN: Final = 80


class OrderError(ProxyError):
    """An order that cannot be read or carried out; the text is one sentence that says what to do."""

    status = 400
    reason = "order"


@dataclass(frozen=True, slots=True)
class ListQueues:
    """What waits in the queues of all tenants."""


@dataclass(frozen=True, slots=True)
class InspectQueue:
    """The first `limit` records of a tenant's queue."""

    tenant: str
    limit: int


@dataclass(frozen=True, slots=True)
class DropQueued:
    """Drop the oldest records of a tenant's queue, or all where `records` is None."""

    tenant: str
    records: int | None


@dataclass(frozen=True, slots=True)
class ListQuarantine:
    """What waits in quarantine, and the first `limit` records: those of a reason, whose series has a text in it."""

    reason: str | None
    match: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class ReplayQuarantine:
    """Decide anew on everything that waits in quarantine."""


@dataclass(frozen=True, slots=True)
class DropQuarantined:
    """Drop what waits in quarantine for a reason, or was received `older_than_ms` ago or before; None is no bound."""

    reason: str | None
    older_than_ms: int | None


Order = ListQueues | InspectQueue | DropQueued | ListQuarantine | ReplayQuarantine | DropQuarantined

_NAMES: Final[dict[str, type[Order]]] = {
    "queue list": ListQueues,
    "queue inspect": InspectQueue,
    "queue drop": DropQueued,
    "quarantine list": ListQuarantine,
    "quarantine replay": ReplayQuarantine,
    "quarantine drop": DropQuarantined,
}


def name_of(order: Order) -> str:
    """The name of an order, which is that of its verb."""
    return next(name for name, kind in _NAMES.items() if isinstance(order, kind))


def encode_order(order: Order) -> bytes:
    """The order as a line."""
    return _line({"order": name_of(order), **asdict(order)})


def decode_order(line: bytes) -> Order:
    """The order of a line. Raises OrderError for anything but an order of this version."""
    given = _object(line, "an order")
    name = given.pop("order", None)
    kind = _NAMES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise OrderError(f"there is no order {_cut(name)}; is the command of another version than the proxy?")
    known = [field.name for field in fields(kind)]
    odd = sorted(given.keys() ^ set(known))
    if odd:
        raise OrderError(f"the order {name!r} has the fields {known}, which differ in {_cut(odd[0])}")
    for field, value in given.items():
        holds, sentence = _CHECKS[kind, field]
        if not holds(value):
            raise OrderError(f"{_cut(value)} is not good for {field} of {name!r}; give {sentence}")
    return kind(**given)


def encode_answer(answer: Mapping[str, Any]) -> bytes:
    """An answer as a line."""
    return _line({"answer": answer})


def encode_error(sentence: str) -> bytes:
    """The answer to an order that was not carried out, as a line."""
    return _line({"error": sentence})


def decode_answer(line: bytes) -> Any:
    """The answer of a line. Raises OrderError with the sentence of one that was not carried out."""
    given = _object(line, "an answer")
    if isinstance(given.get("error"), str):
        raise OrderError(given["error"])
    if "answer" not in given:
        raise OrderError("the answer is none; is the command of another version than the proxy?")
    return given["answer"]


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes, what: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"{what} is one line of JSON; this is none") from error
    if not isinstance(given, dict):
        raise OrderError(f"{what} is a JSON object; this is another value")
    return given


def _cut(value: object) -> str:
    return ascii(value)[:_SHOWN]


def _whole(least: int, most: int) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return holds


def _text(most: int) -> Callable[[object], bool]:
    def holds(value: object) -> bool:
        return isinstance(value, str) and 0 < len(value) <= most

    return holds


def _or_none(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or holds(value)


_Check = tuple[Callable[[object], bool], str]
_TENANT: Final[_Check] = _text(_TENANT_CHARACTERS), f"a text of at most {_TENANT_CHARACTERS} characters"
_REASON: Final[_Check] = (
    _or_none(_text(_REASON_CHARACTERS)),
    f"a text of at most {_REASON_CHARACTERS} characters, or null",
)
_MATCH: Final[_Check] = _or_none(_text(_MATCH_CHARACTERS)), f"a text of at most {_MATCH_CHARACTERS} characters, or null"
_CHECKS: Final[Mapping[tuple[type[Order], str], _Check]] = {
    (InspectQueue, "tenant"): _TENANT,
    (InspectQueue, "limit"): (_whole(1, INSPECTED), f"a whole number from 1 to {INSPECTED}"),
    (DropQueued, "tenant"): _TENANT,
    (DropQueued, "records"): (_or_none(_whole(1, _MOST)), "a whole number from 1 on, or null"),
    (ListQuarantine, "reason"): _REASON,
    (ListQuarantine, "match"): _MATCH,
    (ListQuarantine, "limit"): (_whole(0, LISTED), f"a whole number from 0 to {LISTED}"),
    (DropQuarantined, "reason"): _REASON,
    (DropQuarantined, "older_than_ms"): (_or_none(_whole(0, _MOST)), "a whole number of milliseconds, or null"),
}
