"""The slow way of one entry: read it whole, decide for each of its points, cut it where its owner changes.

Everything that `wire.scan` does not pass by itself comes here: new series, series with several samples, histograms,
exemplars, markers, void decisions, and whatever is refused or held back.
"""

from dataclasses import dataclass
from typing import Final

from proxy.core import feed
from proxy.core.books import QUARANTINED, REJECTED, ROUTED
from proxy.core.clash import find_clash
from proxy.core.decisions import Decisions, Resolved
from proxy.core.errors import (
    LabelNameLengthError,
    LabelValueLengthError,
    MalformedSeriesError,
    MissingNameError,
    SeriesError,
)
from proxy.core.gathering import Gathering, Moment, Run, is_held_back, stale_fate
from proxy.core.labels import METRIC_NAME, LabelSet
from proxy.core.route import OVER_LIMIT, SHARED, Decision
from proxy.core.series_cache import CacheBudget
from proxy.core.tenancy import Trust
from proxy.core.timeseries import Point, Series, parse_series
from proxy.core.wire import Entry, Fate, Output, SeriesCache, Slot

SHOWN: Final = 200
"""Characters of a series in a sentence: enough to find it, and the reason before it stays in the sender's log."""


COLLISION: Final = "collision"
"""The reason for a part whose series already has a value of that time, after rules made two series one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a label may be at most, in bytes; see `proxy.limits`."""

    label_name_bytes: int = 1024
    label_value_bytes: int = 2048


def label_set(series: Series, limits: Limits) -> LabelSet:
    """The labels of an entry, canonical and within limits; raises SeriesError."""
    labels = LabelSet.of(series.text_labels())
    if not labels.get(METRIC_NAME):
        raise MissingNameError(f"a series without __name__: {str(labels)[:SHOWN]}")
    for name, value in series.labels:
        if len(name) > limits.label_name_bytes:
            limit = f"{len(name)} bytes, the limit is {limits.label_name_bytes}"
            raise LabelNameLengthError(f"{limit}: {str(labels)[:SHOWN]}")
        if len(value) > limits.label_value_bytes:
            limit = f"{len(value)} bytes, the limit is {limits.label_value_bytes}"
            raise LabelValueLengthError(f"{limit}: {str(labels)[:SHOWN]}")
    return labels


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds for one point: its fate, its outputs, and the decision if it was made just now.

    `feeds` tells that the entry goes by it, so that its outputs are fed by the point.
    """

    fate: Fate
    outputs: tuple[Output, ...]
    over_limit: tuple[str, ...] = ()
    decision: Decision | None = None
    device: bool = False
    feeds: bool = False


class Sorter:
    """The slow way for the senders of one trust; `gathering` is the request in hand."""

    def __init__(self, trust: Trust, decisions: Decisions, limits: Limits, budget: CacheBudget) -> None:
        self.trust = trust
        self.decisions = decisions
        self.limits = limits
        self.cache = SeriesCache(self.take)
        self.gathering = Gathering(0, Moment(0, 0), decisions.books)
        self._budget = budget

    def take(self, body: bytes, start: int, end: int, _number: int, touched: list[Slot]) -> Entry | None:
        """Give each point of an entry its fate; the entry, if it is kept for next time."""
        gathering = self.gathering
        gathering.touched = touched
        try:
            series = parse_series(body, start, end)
        except MalformedSeriesError as error:
            gathering.reject(error.reason, 1, error.sentence)
            return None
        try:
            labels = label_set(series, self.limits)
        except SeriesError as error:
            samples = sum(point.counts for point in series.points)
            gathering.taken.exemplars_dropped += len(series.points) - samples
            gathering.reject(error.reason, samples, error.sentence)
            return None
        entry = self.cache.find(series.block)
        if entry is None:
            entry = Entry(series.block, self.decisions.static, self.decisions.books.fate(ROUTED))
        feed.rejoin(entry, self.decisions.outputs)
        entry.used = gathering.moment.tick
        _Run(self, series, labels, entry).take()
        return self._keep(entry)

    def forget(self, entry: Entry) -> None:
        """Let an entry go, with the outputs that only it feeds."""
        feed.detach(entry, self.decisions.outputs)
        entry.forget()

    def _keep(self, entry: Entry) -> Entry | None:
        if entry.home is not None:
            self._budget.recost(entry)
            return entry
        if entry.generation >= 0 and self._budget.admit(self.cache, entry, entry.used, self.forget):
            return entry
        self.forget(entry)
        return None


class _Run:
    """One entry on its way: points that go the same way are gathered and sent on as one entry."""

    def __init__(self, sorter: Sorter, series: Series, labels: LabelSet, entry: Entry) -> None:
        self._sorter = sorter
        self._gathering = sorter.gathering
        self._books = sorter.decisions.books
        self._series = series
        self._labels = labels
        self._entry = entry
        self._points: list[Point] = []
        self._fates: list[Fate] = []
        self._outputs: tuple[Output, ...] = ()
        self._held = ""
        self._kind: int | None = None

    def take(self) -> None:
        """Give each point its fate, in order."""
        for point in self._series.points:
            standing = self._stand(point)
            if point.stale and standing.device:
                self._end(point, standing)
            elif not point.counts:
                self._go(point, standing.outputs, "")
            else:
                self._sample(point, standing)
        self._flush()

    def _stand(self, point: Point) -> Standing:
        """What holds at the time of a point; a newer decision is kept by the entry, unless the point is a marker."""
        entry = self._entry
        if feed.holds(entry, point.time_ms):
            return Standing(entry.fate, entry.outputs, device=entry.device, feeds=True)
        decisions = self._sorter.decisions
        resolved = decisions.resolve(self._labels, point.time_ms, self._sorter.trust, self._series.block)
        decision = resolved.decision
        newest = point.time_ms >= entry.last_ms or entry.generation < 0
        feeds = point.counts and newest and resolved.keepable and not (point.stale and decision.device)
        if point.counts and newest and not point.stale:
            self._hand_over(resolved, point.time_ms)
        if feeds:
            self._adopt(resolved)
        return Standing(resolved.fate, resolved.outputs, resolved.over_limit, decision, decision.device, feeds)

    def _hand_over(self, resolved: Resolved, at_ms: int) -> None:
        """End what the entry fed of another owner, wherever that does not go on."""
        entry, decisions = self._entry, self._sorter.decisions
        decision = resolved.decision
        if not entry.device or entry.ended or not feed.is_fed(entry) or decision.key is None or decision.owner is None:
            return
        end_ms = feed.hand_over_ms(entry, decisions.fleet.lookup(decision.key, entry.from_ms), decision, at_ms)
        if end_ms is None:
            return
        self._flush()
        for output in entry.outputs:
            stays = output in resolved.outputs or decisions.is_gone(output)
            if not stays and not feed.fed_by_others(output, entry, end_ms):
                self._gathering.end_series(output, end_ms)
        entry.ended = True
        entry.fast = False

    def _adopt(self, resolved: Resolved) -> None:
        """Let the entry go by a decision from now on; where a tenant has too many labels, for this point only."""
        entry, decision, decisions = self._entry, resolved.decision, self._sorter.decisions
        feed.detach(entry, decisions.outputs)
        entry.outputs = resolved.outputs
        entry.fate = resolved.fate
        entry.epoch = decisions.epoch_of(decision)
        entry.generation = entry.epoch.generation
        entry.from_ms, entry.to_ms = decisions.window_of(decision)
        if resolved.over_limit:
            entry.to_ms = entry.from_ms
        entry.device = decision.device
        entry.owner = decisions.one_owner(decision.owner)
        entry.ended = False
        feed.attach(entry, decisions.outputs)

    def _sample(self, point: Point, standing: Standing) -> None:
        """A sample or histogram: refused, held back, or passed on to those outputs that have no value of its time."""
        gathering = self._gathering
        fate, outputs = standing.fate, standing.outputs
        decisions = self._sorter.decisions
        clash = find_clash(self._labels, self._entry, outputs, point.time_ms, decisions.tenancy)
        tail = point.raw + self._series.unknown
        is_copy = gathering.is_copy(self._series.block, tail, known=clash.is_copy)
        if is_copy:
            fate = self._books.fate(QUARANTINED, "", SHARED)
            outputs = tuple(output for output in outputs if decisions.is_raw(output))
        elif clash.taken:
            losing = gathering.collide(clash.taken, tail)
            outputs = tuple(output for output in outputs if output not in losing)
            for output in losing:
                self._books.tenant(output.slot.tenant).drop(COLLISION, 1)
        if fate.kind == REJECTED:
            gathering.taken.refuse(f"{fate.detail}: no tenant may have {str(self._labels)[:SHOWN]}", 1)
        self._drop_over_limit(standing)
        self._go(point, outputs, fate.detail if fate.kind == QUARANTINED else "")
        self._fates.append(fate)
        if standing.feeds and not is_copy:
            self._feed(point.time_ms)

    def _drop_over_limit(self, standing: Standing) -> None:
        for tenant in standing.over_limit:
            self._books.tenant(tenant).drop(OVER_LIMIT, 1)
            self._gathering.taken.refuse(f"{OVER_LIMIT}: too many labels for a tenant: {str(self._labels)[:SHOWN]}", 1)

    def _feed(self, time_ms: int) -> None:
        entry = self._entry
        entry.last_ms = max(entry.last_ms, time_ms)
        entry.fast = feed.is_alone(entry, time_ms) and feed.holds(entry, time_ms)

    def _end(self, point: Point, standing: Standing) -> None:
        """A stale marker ends what the entry fed last; with nothing remembered, or late, it goes as of its own time."""
        self._flush()
        entry, decision = self._entry, standing.decision
        if not feed.is_fed(entry) or point.time_ms < entry.last_ms:
            fate = standing.fate
            if is_held_back(fate):
                fate = self._books.fate(ROUTED) if standing.outputs else stale_fate(self._books)
            self._drop_over_limit(standing)
            self._defer(point, point.time_ms, standing.outputs, fate)
            return
        end_ms = None
        if decision is not None and decision.key is not None:
            old = self._sorter.decisions.fleet.lookup(decision.key, entry.from_ms)
            end_ms = feed.hand_over_ms(entry, old, decision, point.time_ms)
        fate = entry.fate
        if end_ms is None:
            self._drop_over_limit(standing)
        if not entry.outputs and fate.kind == ROUTED and (end_ms is not None or not standing.over_limit):
            fate = stale_fate(self._books)
        self._defer(point, point.time_ms if end_ms is None else min(point.time_ms, end_ms), entry.outputs, fate)
        entry.ended = True
        entry.fast = False

    def _defer(self, point: Point, at_ms: int, outputs: tuple[Output, ...], fate: Fate) -> None:
        self._gathering.defer(feed.Marker(self._entry, point, self._series.unknown, at_ms, outputs, fate))

    def _go(self, point: Point, outputs: tuple[Output, ...], held: str) -> None:
        """Add a point to the run, which is sent on first if the point goes another way.

        An entry with samples and histograms is sent as two, because VictoriaMetrics refuses the request of such a one.
        """
        other_kind = point.counts and self._kind not in (None, point.kind)
        if outputs != self._outputs or held != self._held or other_kind:
            self._flush()
            self._outputs, self._held = outputs, held
        if point.counts:
            self._kind = point.kind
        self._points.append(point)

    def _flush(self) -> None:
        points, self._points = self._points, []
        fates, self._fates = self._fates, []
        self._kind = None
        if points:
            series = self._series
            self._gathering.send(Run(series.block, points, series.unknown, self._outputs, self._held, fates))
