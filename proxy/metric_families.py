"""Families of our own metrics: a histogram of seconds that costs little to count, and how values become families."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Bounds of both histograms: from a request on loopback to the time after which a sender gives up."""


class Seconds:
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


Values = Iterable[tuple[tuple[str, ...], float]]


def keyed(by_label: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    """Counts that have one label."""
    return (((key,), value) for key, value in by_label.items())


def _bound(seconds: float) -> str:
    return "+Inf" if math.isinf(seconds) else str(seconds)


def counts(answered: Iterable[tuple[tuple[str, ...], Seconds]]) -> Iterator[tuple[tuple[str, ...], float]]:
    """How many each histogram has counted."""
    return ((labels, seconds.count) for labels, seconds in answered)


def histogram(
    name: str, text: str, labels: tuple[str, ...], answered: Iterable[tuple[tuple[str, ...], Seconds]]
) -> HistogramMetricFamily:
    """A family of histograms."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, seconds in answered:
        family.add_metric(values, seconds.buckets(), seconds.total)
    return family


def counter(name: str, text: str, labels: tuple[str, ...], values: Values) -> CounterMetricFamily:
    """A family of counters; `name` is without `_total`."""
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def gauge(name: str, text: str, labels: tuple[str, ...], values: Values) -> GaugeMetricFamily:
    """A family of gauges."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family
