"""`/metrics`: the books and the state of the proxy in Prometheus' text format, under the names of interface 6.

Counters are read from the books when somebody scrapes; nothing is counted twice and the hot path counts plain integers.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
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


class _Seconds:
    """One histogram of seconds; `samples[i]` are those up to SECONDS[i], the last those above all."""

    __slots__ = ("samples", "total")

    def __init__(self) -> None:
        self.samples = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.samples[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.samples)

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as an exposition has them."""
        sums = itertools.accumulate(self.samples)
        return [(_bound(bound), count) for bound, count in zip((*SECONDS, math.inf), sums, strict=True)]


class ProxyMetrics:
    """The registry of one proxy; `observe_*` are called where a request ends, and count plain numbers."""

    def __init__(self, books: Books, quarantine: QuarantineTotals, gauges: Callable[[], Gauges]) -> None:
        self.registry = CollectorRegistry()
        self._books = books
        self._quarantine = quarantine
        self._gauges = gauges
        self._requests_answered: dict[int, _Seconds] = {}
        self._upstream_answered: dict[tuple[str, str], _Seconds] = {}
        self.registry.register(self)

    def observe_request(self, code: int, seconds: float) -> None:
        """Count an answered request of a sender."""
        known = self._requests_answered.get(code)
        if known is None:
            known = self._requests_answered[code] = _Seconds()
        known.observe(seconds)

    def observe_upstream(self, tenant: str, code: str, seconds: float) -> None:
        """Count an answered request to a tenant's endpoint; `code` is 0 where no answer came."""
        known = self._upstream_answered.get((tenant, code))
        if known is None:
            known = self._upstream_answered[tenant, code] = _Seconds()
        known.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self._fates()
        yield from self._tenants()
        yield from self._requests()
        yield from self._quarantined()
        yield from self._state()

    def _fates(self) -> Iterator[Metric]:
        fates = list(self._books.fates())
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
            (((fate.detail,), fate.samples) for fate in fates if fate.kind == REJECTED),
        )
        yield _counter(
            "whosegpu_samples_filtered",
            "Samples that no tenant keeps",
            ("tenant", "rule"),
            (((fate.tenant, fate.detail), fate.samples) for fate in fates if fate.kind == FILTERED),
        )
        yield _counter(
            "whosegpu_samples_quarantined",
            "Samples that were put into quarantine",
            ("reason",),
            (((fate.detail,), fate.samples) for fate in fates if fate.kind == QUARANTINED),
        )
        for kind, text in (
            (DUPLICATE, "Copies of an exporter, and samples sent again"),
            (ROUTED, "Samples that became parts for tenants"),
        ):
            yield _counter(f"whosegpu_samples_{kind}", text, (), [((), self._books.total(kind))])

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
        answered = [((str(code),), seconds) for code, seconds in self._requests_answered.items()]
        yield _counter("whosegpu_requests", "Answered requests", ("code",), _counts(answered))
        yield _histogram("whosegpu_request_seconds", "Time to answer a sender", ("code",), answered)
        replied = list(self._upstream_answered.items())
        labels = ("tenant", "code")
        yield _counter("whosegpu_upstream_requests", "Requests to tenants' endpoints", labels, _counts(replied))
        yield _histogram("whosegpu_upstream_seconds", "Time until a tenant's endpoint answered", labels, replied)
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


_Values = Iterable[tuple[tuple[str, ...], float]]


def _keyed(counts: dict[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((key,), value) for key, value in counts.items())


def _bound(seconds: float) -> str:
    return "+Inf" if math.isinf(seconds) else str(seconds)


def _counts(answered: Iterable[tuple[tuple[str, ...], _Seconds]]) -> Iterator[tuple[tuple[str, ...], float]]:
    return ((labels, seconds.count) for labels, seconds in answered)


def _histogram(
    name: str, text: str, labels: tuple[str, ...], answered: Iterable[tuple[tuple[str, ...], _Seconds]]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, seconds in answered:
        family.add_metric(values, seconds.buckets(), seconds.total)
    return family


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
