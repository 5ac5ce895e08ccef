"""`/metrics`: the books and the state of the proxy in Prometheus' text format, under the names of interface 6.

Counters are read from the books when somebody scrapes; nothing is counted twice and the hot path counts plain integers.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from proxy.core.books import DUPLICATE, FILTERED, QUARANTINED, REJECTED, ROUTED, Books

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Bounds of both histograms: from a request on loopback to the time after which a sender gives up."""


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
    def dropped(self) -> dict[str, int]:
        """Samples that were dropped, per reason of dropping."""
        ...


@dataclass(frozen=True, slots=True)
class Gauges:
    """State that is no book: the age of each node's ownership in seconds, and where the configuration stands."""

    ownership_age_seconds: dict[str, float]
    config_generation: int
    config_last_reload_successful: bool
    wire_compiled: bool
    cached_series: int


class ProxyMetrics:
    """The registry of one proxy; `observe_*` are called where a request ends."""

    def __init__(self, books: Books, quarantine: QuarantineTotals, gauges: Callable[[], Gauges]) -> None:
        self.registry = CollectorRegistry()
        self._books = books
        self._quarantine = quarantine
        self._gauges = gauges
        self.requests: dict[str, int] = {}
        self.upstream_requests: dict[tuple[str, str], int] = {}
        self._request_seconds = Histogram(
            "whosegpu_request_seconds", "Time to answer a sender", ["code"], buckets=SECONDS, registry=self.registry
        )
        self._upstream_seconds = Histogram(
            "whosegpu_upstream_seconds",
            "Time until a tenant's endpoint answered",
            ["tenant", "code"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)

    def observe_request(self, code: int, seconds: float) -> None:
        """Count an answered request of a sender."""
        self.requests[str(code)] = self.requests.get(str(code), 0) + 1
        self._request_seconds.labels(str(code)).observe(seconds)

    def observe_upstream(self, tenant: str, code: str, seconds: float) -> None:
        """Count an answered request to a tenant's endpoint; `code` is 0 where no answer came."""
        self.upstream_requests[tenant, code] = self.upstream_requests.get((tenant, code), 0) + 1
        self._upstream_seconds.labels(tenant, code).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """All families but the two histograms."""
        yield from self._fates()
        yield from self._tenants()
        yield from self._requests()
        yield from self._quarantined()
        yield from self._state()

    def _fates(self) -> Iterator[Metric]:
        lines = list(self._books.fates())
        of = {kind: [fate for fate in lines if fate.kind == kind] for kind in _KINDS}
        yield _counter(
            "whosegpu_samples_received",
            "Samples and native histograms in decoded requests",
            ("sender", "version"),
            self._books.received.items(),
        )
        yield _counter(
            "whosegpu_samples_rejected",
            "Samples refused as bad",
            ("reason",),
            (((fate.detail,), fate.samples) for fate in of[REJECTED]),
        )
        yield _counter(
            "whosegpu_samples_filtered",
            "Samples that no tenant keeps",
            ("tenant", "rule"),
            (((fate.tenant, fate.detail), fate.samples) for fate in of[FILTERED]),
        )
        yield _counter(
            "whosegpu_samples_quarantined",
            "Samples that were put into quarantine",
            ("reason",),
            (((fate.detail,), fate.samples) for fate in of[QUARANTINED]),
        )
        for kind in (DUPLICATE, ROUTED):
            total = sum(fate.samples for fate in of[kind])
            yield _counter(f"whosegpu_samples_{kind}", _KINDS[kind], (), [((), total)])

    def _tenants(self) -> Iterator[Metric]:
        tenants = sorted(self._books.tenants.items())
        for name, text, attribute in (
            ("whosegpu_parts", "Parts made of samples for a tenant", "parts"),
            ("whosegpu_parts_made", "Parts that no sender sent: stale markers at a hand-over", "made"),
            ("whosegpu_parts_recovered", "Parts that the queue held at the start", "recovered"),
            ("whosegpu_samples_delivered", "Parts that the tenant's endpoint took", "delivered"),
        ):
            yield _counter(
                name, text, ("tenant",), (((tenant,), getattr(books, attribute)) for tenant, books in tenants)
            )
        yield _counter(
            "whosegpu_samples_dropped",
            "Parts that were not delivered and never will be",
            ("tenant", "reason"),
            (((tenant, reason), count) for tenant, books in tenants for reason, count in books.dropped.items()),
        )
        yield _gauge(
            "whosegpu_samples_queued",
            "Parts that wait in the tenant's queue",
            ("tenant",),
            (((tenant,), books.queued) for tenant, books in tenants),
        )

    def _requests(self) -> Iterator[Metric]:
        books = self._books
        yield _counter("whosegpu_requests", "Answered requests", ("code",), _keyed(self.requests))
        yield _counter(
            "whosegpu_upstream_requests",
            "Answered requests to tenants' endpoints",
            ("tenant", "code"),
            self.upstream_requests.items(),
        )
        yield _counter(
            "whosegpu_requests_rejected",
            "Requests refused as a whole",
            ("reason",),
            _keyed(books.requests_rejected),
        )
        yield _counter("whosegpu_exemplars", "Exemplars", ("fate",), _keyed(books.exemplars))
        yield _counter("whosegpu_metadata", "Metadata entries", ("fate",), _keyed(books.metadata))
        yield _counter(
            "whosegpu_request_fields_dropped",
            "Unknown fields at the top of requests, which are never passed on",
            (),
            [((), books.fields_dropped)],
        )

    def _quarantined(self) -> Iterator[Metric]:
        totals = self._quarantine
        yield _gauge("whosegpu_samples_quarantined", "Samples in quarantine", ("reason",), _keyed(totals.waiting))
        yield _counter(
            "whosegpu_quarantine_recovered",
            "Samples that the quarantine held at the start",
            ("reason",),
            _keyed(totals.recovered),
        )
        yield _counter(
            "whosegpu_quarantine_dropped",
            "Samples that left the quarantine undelivered",
            ("reason",),
            _keyed(totals.dropped),
        )

    def _state(self) -> Iterator[Metric]:
        gauges = self._gauges()
        yield _gauge(
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
            yield _gauge(name, text, (), [((), value)])


_KINDS: Final = {
    ROUTED: "Samples that became parts for tenants",
    FILTERED: "",
    REJECTED: "",
    QUARANTINED: "",
    DUPLICATE: "Copies of an exporter, and samples sent again",
}

_Values = Iterable[tuple[tuple[str, ...], float]]


def _keyed(counts: dict[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((key,), value) for key, value in counts.items())


def _counter(name: str, text: str, labels: tuple[str, ...], values: _Values) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _gauge(name: str, text: str, labels: tuple[str, ...], values: _Values) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family
