"""What can be wrong with a request, a series or a rule: one root, leaves by what the caller does about it.

`status` is what a sender is answered, `reason` is the value of the `reason` label in the counters of
`whosegpu_requests_rejected_total` or `whosegpu_samples_rejected_total`. `sentence` is what a person is told; the
reason stands first, so that a log line cut at 1024 bytes still has it.
"""

from typing import ClassVar


class ProxyError(Exception):
    """Root of all errors of this service; never raised itself."""

    status: ClassVar[int] = 500
    reason: ClassVar[str] = "internal"

    @property
    def sentence(self) -> str:
        """One line: the reason, then what to do."""
        return f"{self.reason}: {self}"


class RequestError(ProxyError):
    """The whole request is refused; none of its samples is counted as received."""

    status = 400


class CorruptSnappyError(RequestError):
    """The body is not one snappy block."""

    reason = "corrupt_snappy"


class DeclaredSizeError(RequestError):
    """The snappy header declares more bytes than `limits.decoded_bytes`."""

    reason = "declared_size"


class CompressedSizeError(RequestError):
    """The body is longer than `limits.compressed_bytes`."""

    reason = "compressed_size"


class CorruptRequestError(RequestError):
    """The decoded body is not a sequence of protobuf fields."""

    reason = "corrupt_protobuf"


class TooManySeriesError(RequestError):
    """The request has more entries than any sender puts into one."""

    reason = "too_many_series"


class MislabelledVersionError(RequestError):
    """A body of remote write 2.0 that is declared to be 1.0."""

    reason = "mislabelled_version"


class ContentTypeError(RequestError):
    """The content type is none that a receiver of remote write takes."""

    status = 415
    reason = "content_type"


class ContentEncodingError(RequestError):
    """The body is compressed with something else than snappy."""

    status = 415
    reason = "content_encoding"


class UnsupportedVersionError(RequestError):
    """Remote write 2.0, which this version does not take."""

    status = 415
    reason = "unsupported_version"


class MethodError(RequestError):
    """Anything but POST on the write path."""

    status = 405
    reason = "method"


class SlowBodyError(RequestError):
    """The body did not arrive within `limits.read_timeout`. vmagent sends it again, Prometheus drops it."""

    status = 408
    reason = "read_timeout"


class BusyError(RequestError):
    """More than `limits.inflight_requests` are being worked on; a sender sends it again."""

    status = 503
    reason = "inflight"


class UnderwayError(RequestError):
    """An earlier attempt of the same request is still worked on; a sender sends it again."""

    status = 503
    reason = "underway"


class UnauthenticatedError(RequestError):
    """The sender did not say who it is, or is none of `proxy.senders`."""

    status = 401
    reason = "unauthenticated"


class SeriesError(ProxyError):
    """One series is refused; the rest of its request goes on, and the sender is answered 400."""

    status = 400
    reason = "malformed_series"


class MalformedSeriesError(SeriesError):
    """The entry is not a `TimeSeries` message."""


class InvalidUtf8Error(SeriesError):
    """A label name or value is not UTF-8."""

    reason = "invalid_utf8"


class LabelError(SeriesError):
    """The labels are no label set."""

    reason = "invalid_labels"


class DuplicateLabelError(LabelError):
    """A label name occurs twice."""

    reason = "duplicate_label"


class EmptyLabelNameError(LabelError):
    """A label has no name."""

    reason = "empty_label_name"


class MissingNameError(LabelError):
    """The series has no `__name__`."""

    reason = "missing_name"


class LabelNameLengthError(LabelError):
    """A label name is longer than `limits.label_name_bytes`."""

    reason = "label_name_too_long"


class LabelValueLengthError(LabelError):
    """A label value is longer than `limits.label_value_bytes`."""

    reason = "label_value_too_long"


class RelabelError(ProxyError):
    """A relabel rule cannot be used; raised when the configuration is loaded, never by traffic."""

    status = 400
    reason = "relabel_rule"


class TextFormatError(ProxyError):
    """A series in text form cannot be read."""

    status = 400
    reason = "text_format"


class StorageError(ProxyError):
    """The disk did not take what must be durable before the answer; a sender sends it again."""

    status = 503
    reason = "storage"


class QueueFullError(StorageError):
    """The tenant's queue has no room, and is told to refuse rather than to drop its oldest (`queue_full: refuse`)."""

    reason = "queue_full"
