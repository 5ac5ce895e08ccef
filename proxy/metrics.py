"""`/metrics`: the books and the state of the proxy in Prometheus' text format, under the names of interface 6.

Counters are read from the books when somebody scrapes; nothing is counted twice and the hot path counts plain integers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from proxy.core.books import DUPLICATE, FILTERED, QUARANTINED, REJECTED, ROUTED, Books
from proxy.metric_families import Seconds, counter, counts, gauge, histogram, keyed


class QuarantineTotals(Protocol):
    """What is read of the quarantine."""

    @property
    def waiting(self) -> dict[str, int]:
        """Samples that wait, per reason of quarantine."""
        ...

    @property
    def recovered(self) -> dict[str, int]:
        """Samples that were there at the start, per reason of quarantine."""
        ...

    @property
    def released(self) -> int:
        """Samples whose owner or mapping became known."""
        ...

    @property
    def dropped(self) -> dict[str, int]:
        """Samples that were dropped, per reason of dropping."""
        ...


class QueueTotals(Protocol):
    """What is read of one tenant's queue."""

    @property
    def bytes(self) -> int:
        """Bytes on disk that wait."""
        ...

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest record was received, by the clock of the proxy; None where there is none."""
        ...

    @property
    def torn_bytes(self) -> int:
        """Bytes that were no whole record, moved aside."""
        ...


class Queues(Protocol):
    """What is read of the queues."""

    def all(self) -> Mapping[str, QueueTotals]:
        """Each tenant's."""
        ...


@dataclass(frozen=True, slots=True)
class Gauges:
    """State that is no book: the age of each node's ownership in seconds, and where the configuration stands.

    `circuits` has the tenants whose new parts go to their queues, and why; `now_ms` is the time since the epoch.
    """

    ownership_age_seconds: dict[str, float]
    config_generation: int
    config_last_reload_successful: bool
    wire_compiled: bool
    cached_series: int
    circuits: Mapping[str, str]
    now_ms: int


class ProxyMetrics:
    """The registry of one proxy; `observe_*` are called where a request ends, and count plain numbers."""

    def __init__(
        self, books: Books, quarantine: QuarantineTotals, queues: Queues, gauges: Callable[[], Gauges]
    ) -> None:
        self.registry = CollectorRegistry()
        self._books = books
        self._quarantine = quarantine
        self._queues = queues
        self._gauges = gauges
        self._requests_answered: dict[int, Seconds] = {}
        self._upstream_answered: dict[tuple[str, str], Seconds] = {}
        self.registry.register(self)

    def observe_request(self, code: int, seconds: float) -> None:
        """Count an answered request of a sender."""
        known = self._requests_answered.get(code)
        if known is None:
            known = self._requests_answered[code] = Seconds()
        known.observe(seconds)

    def observe_upstream(self, tenant: str, code: str, seconds: float) -> None:
        """Count an answered request to a tenant's endpoint; `code` is 0 where no answer came."""
        known = self._upstream_answered.get((tenant, code))
        if known is None:
            known = self._upstream_answered[tenant, code] = Seconds()
        known.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        gauges = self._gauges()
        yield from self._fates()
        yield from self._tenants()
        yield from self._queued(gauges)
        yield from self._requests()
        yield from self._quarantined()
        yield from _state(gauges)

    def _fates(self) -> Iterator[Metric]:
        fates = list(self._books.fates())
        yield counter(
            "whosegpu_samples_received",
            "Samples and native histograms in decoded requests",
            ("sender", "version"),
            self._books.received.items(),
        )
        yield counter(
            "whosegpu_samples_rejected",
            "Samples refused as bad",
            ("reason",),
            (((fate.detail,), fate.samples) for fate in fates if fate.kind == REJECTED),
        )
        yield counter(
            "whosegpu_samples_filtered",
            "Samples that no tenant keeps",
            ("tenant", "rule"),
            (((fate.tenant, fate.detail), fate.samples) for fate in fates if fate.kind == FILTERED),
        )
        yield counter(
            "whosegpu_samples_quarantined",
            "Samples that were put into quarantine",
            ("reason",),
            (((fate.detail,), fate.samples) for fate in fates if fate.kind == QUARANTINED),
        )
        for kind, text in (
            (DUPLICATE, "Copies of an exporter, and samples sent again"),
            (ROUTED, "Samples that became parts for tenants"),
        ):
            yield counter(f"whosegpu_samples_{kind}", text, (), [((), self._books.total(kind))])

    def _tenants(self) -> Iterator[Metric]:
        tenants = sorted(self._books.tenants.items())
        for name, text, attribute in (
            ("whosegpu_parts", "Parts made of samples for a tenant", "parts"),
            ("whosegpu_parts_made", "Parts that no sender sent: stale markers at a hand-over", "made"),
            ("whosegpu_parts_recovered", "Parts that the queue held at the start", "recovered"),
            ("whosegpu_samples_delivered", "Parts that the tenant's endpoint took", "delivered"),
        ):
            yield counter(
                name, text, ("tenant",), (((tenant,), getattr(books, attribute)) for tenant, books in tenants)
            )
        yield counter(
            "whosegpu_samples_dropped",
            "Parts that were not delivered and never will be",
            ("tenant", "reason"),
            (((tenant, reason), count) for tenant, books in tenants for reason, count in books.dropped.items()),
        )
        yield gauge(
            "whosegpu_samples_queued",
            "Parts that wait in the tenant's queue",
            ("tenant",),
            (((tenant,), books.queued) for tenant, books in tenants),
        )

    def _queued(self, gauges: Gauges) -> Iterator[Metric]:
        queues = sorted(self._queues.all().items())
        yield gauge(
            "whosegpu_queue_bytes",
            "Bytes on disk that wait in the tenant's queue",
            ("tenant",),
            (((tenant,), queue.bytes) for tenant, queue in queues),
        )
        yield gauge(
            "whosegpu_queue_oldest_seconds",
            "Age of the oldest part in the tenant's queue",
            ("tenant",),
            (((tenant,), _age(queue.oldest_ms, gauges.now_ms)) for tenant, queue in queues),
        )
        yield counter(
            "whosegpu_queue_torn_bytes",
            "Bytes of the tenant's queue that were no whole record, moved aside",
            ("tenant",),
            (((tenant,), queue.torn_bytes) for tenant, queue in queues),
        )
        yield gauge(
            "whosegpu_circuit_open",
            "1 while the tenant's new parts go to its queue, with the reason of its last failed request",
            ("tenant", "reason"),
            (((tenant, reason), 1) for tenant, reason in sorted(gauges.circuits.items())),
        )

    def _requests(self) -> Iterator[Metric]:
        books = self._books
        answered = [((str(code),), seconds) for code, seconds in self._requests_answered.items()]
        yield counter("whosegpu_requests", "Answered requests", ("code",), counts(answered))
        yield histogram("whosegpu_request_seconds", "Time to answer a sender", ("code",), answered)
        replied = list(self._upstream_answered.items())
        labels = ("tenant", "code")
        yield counter("whosegpu_upstream_requests", "Requests to tenants' endpoints", labels, counts(replied))
        yield histogram("whosegpu_upstream_seconds", "Time until a tenant's endpoint answered", labels, replied)
        yield counter(
            "whosegpu_requests_rejected",
            "Requests refused as a whole",
            ("reason",),
            keyed(books.requests_rejected),
        )
        yield counter("whosegpu_exemplars", "Exemplars", ("fate",), keyed(books.exemplars))
        yield counter("whosegpu_metadata", "Metadata entries", ("fate",), keyed(books.metadata))
        yield counter(
            "whosegpu_request_fields_dropped",
            "Unknown fields at the top of requests, which are never passed on",
            (),
            [((), books.fields_dropped)],
        )

    def _quarantined(self) -> Iterator[Metric]:
        totals = self._quarantine
        yield gauge("whosegpu_samples_quarantined", "Samples in quarantine", ("reason",), keyed(totals.waiting))
        yield counter(
            "whosegpu_quarantine_recovered",
            "Samples that the quarantine held at the start",
            ("reason",),
            keyed(totals.recovered),
        )
        yield counter(
            "whosegpu_quarantine_released",
            "Samples that left the quarantine because their owner or tenant became known",
            (),
            [((), totals.released)],
        )
        yield counter(
            "whosegpu_quarantine_dropped",
            "Samples that left the quarantine undelivered",
            ("reason",),
            keyed(totals.dropped),
        )


def _state(gauges: Gauges) -> Iterator[Metric]:
    yield gauge(
        "whosegpu_ownership_age_seconds",
        "Time since the node's last observation",
        ("node",),
        (((node,), age) for node, age in gauges.ownership_age_seconds.items()),
    )
    for name, text, value in (
        ("whosegpu_config_generation", "How often a configuration has been taken", gauges.config_generation),
        (
            "whosegpu_config_last_reload_successful",
            "Whether the last reload was taken",
            gauges.config_last_reload_successful,
        ),
        ("whosegpu_wire_compiled", "Whether the wire module runs compiled", gauges.wire_compiled),
        ("whosegpu_cached_series", "Series whose decision is remembered", gauges.cached_series),
    ):
        yield gauge(name, text, (), [((), value)])


def _age(oldest_ms: int | None, now_ms: int) -> float:
    return 0.0 if oldest_ms is None else max(0.0, (now_ms - oldest_ms) / 1000)
