"""What an upstream's reply means for the parts that were in the request, and what the sender is answered.

The table is that of Prometheus' own sender with two differences: a redirect is never followed, and 401, 403 and 429
are retried, because our credentials and a tenant's rate limit are no fault of the sender's data (remote write 1.0 and
2.0, "Retries & Backoff"). A `whole` upstream stores nothing of a request that it answers 400, a `partial` one the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal

REPLY_BODY_BYTES: Final = 4096
"""What is kept of a reply's body, for the log only: it names other tenants' series and inner addresses."""

Refusal = Literal["partial", "whole"]


@dataclass(frozen=True, slots=True)
class Reply:
    """How one request to an upstream ended.

    `status` is 0 when no whole reply came; `error` then says why in one word, and is None otherwise.
    """

    status: int
    retry_after: str | None = None
    body: bytes = b""
    error: str | None = None

    @property
    def code(self) -> str:
        """The value of the label `code` in the metrics: the status, or the word of the error."""
        return str(self.status) if self.error is None else self.error


@dataclass(frozen=True, slots=True)
class Delivered:
    """The upstream has it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The upstream will never take it; `reason` is that of `whosegpu_samples_dropped_total`.

    Reasons: `upstream_<status>`; of a 400 `upstream_400_partial` where the store kept what was good, `upstream_400`
    where it refused this alone, `upstream_400_rest` where nobody tried which of it was bad; `too_old` of a replay.
    """

    reason: str
    status: int


@dataclass(frozen=True, slots=True)
class Retryable:
    """It may be taken later; `retry_after_seconds` is what the upstream asked for, if it did."""

    reason: str
    retry_after_seconds: float | None = None


Outcome = Delivered | Refused | Retryable

DELIVERED: Final = Delivered()

THROTTLED: Final = "upstream_429"
"""The reason of what exceeds a tenant's rate limit: nothing of the request was stored."""

_Kind = type[Delivered] | type[Refused] | type[Retryable]

_KIND_OF_CLASS: Final[Mapping[int, _Kind]] = MappingProxyType(
    {2: Delivered, 3: Retryable, 4: Refused, 5: Retryable},
)
_KIND_OF_STATUS: Final[Mapping[int, _Kind]] = MappingProxyType(
    {401: Retryable, 403: Retryable, 408: Retryable, 429: Retryable},
)
_REASON_OF_400: Final[Mapping[Refusal, str]] = MappingProxyType(
    {"partial": "upstream_400_partial", "whole": "upstream_400"},
)
_ANSWER_OF_KIND: Final[Mapping[_Kind, int]] = MappingProxyType({Delivered: 204, Refused: 400, Retryable: 503})

# RFC 9110 5.6.7: what a recipient must read, the one to be sent first.
_HTTP_DATES: Final = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")
_DELAY_DIGITS: Final = 9  # thirty years; more digits are no delay but an attack on whoever multiplies it


def judge(reply: Reply, refusal: Refusal, now_ms: int) -> Outcome:
    """What a reply means; `refusal` is what this upstream's 400 means, `now_ms` is when the reply came."""
    if reply.error is not None:
        return Retryable(f"upstream_{reply.error}")
    status = reply.status
    kind = _KIND_OF_STATUS.get(status) or _KIND_OF_CLASS.get(status // 100, Retryable)
    if kind is Delivered:
        return DELIVERED
    if kind is Refused:
        return Refused(_REASON_OF_400[refusal] if status == 400 else f"upstream_{status}", status)  # noqa: PLR2004 - the status 400
    return Retryable(f"upstream_{status}", retry_after_seconds(reply.retry_after, now_ms))


_TOO_OLD_TEXTS: Final = (
    b"out of order sample",
    b"too old sample",
    b"out of bounds",
    b"duplicate sample for timestamp",
    b"timestamp too old",
    b"err-mimir-sample-timestamp-too-old",
    b"err-mimir-sample-out-of-order",
    b"err-mimir-sample-duplicate-timestamp",
)
_IN_THE_FUTURE: Final = b"out of bounds: timestamp is too far in the future"


def is_too_old(body: bytes) -> bool:
    """Whether a refusal says that a sample is older than what the store takes, or comes after another for its time.

    `body` is the start of the reply's. What stands in double quotes is nobody's reason but a label's value. The texts:

    - Prometheus 3.8 and 3.16 (storage/interface.go): `out of order sample`, `too old sample`, `out of bounds`,
      `duplicate sample for timestamp`. A sample that is too new is `out of bounds: timestamp is too far in the future`.
    - Cortex 1.21 passes these on from its ingesters, behind `user=<tenant>: err: `; its distributors say
      `timestamp too old` (pkg/util/validation/errors.go).
    - Thanos 0.40 answers 409 and the texts of Prometheus.
    - Mimir 2 and 3 (pkg/util/globalerror/user.go): `err-mimir-sample-...`, the identifiers above.
    - VictoriaMetrics 1.151 leaves such samples out, and says so in its own log only.
    """
    text = body.lower().replace(b"\\\\", b"").replace(b'\\"', b"")
    said = b" ".join(text.split(b'"')[::2]).replace(_IN_THE_FUTURE, b"")
    return any(each in said for each in _TOO_OLD_TEXTS)


def retry_after_seconds(text: str | None, now_ms: int) -> float | None:
    """The seconds that a `Retry-After` asks for, as a number or as a date; None where it says nothing readable."""
    if text is None:
        return None
    text = text.strip(" \t")
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _DELAY_DIGITS else None
    for form in _HTTP_DATES:
        try:
            until = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return max(0.0, until.timestamp() - now_ms / 1000)
    return None


def answer(outcomes: Iterable[Outcome]) -> int:
    """The status for a sender whose request became these parts; retryable outranks permanent, that outranks success."""
    return max((_ANSWER_OF_KIND[type(outcome)] for outcome in outcomes), default=204)
