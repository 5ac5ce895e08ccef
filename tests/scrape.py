"""What a scrape of the proxy's /metrics says, and whether its books balance."""

from collections import defaultdict
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

_FATES = ("rejected", "quarantined", "filtered", "duplicate", "routed")


class Scrape:
    """All samples of one scrape; names are given without the prefix `whosegpu_`."""

    def __init__(self, text: str) -> None:
        self._samples: list[tuple[str, dict[str, str], float]] = [
            (sample.name.removeprefix("whosegpu_"), sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """The sum over the series of a name that have these labels, whatever others they have; 0 for none."""
        return sum(value for _, value in self._matching(name, labels))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The same per value of a label, without what is 0."""
        found: defaultdict[str, float] = defaultdict(float)
        for own, value in self._matching(name, labels):
            found[own.get(label, "")] += value
        return {key: value for key, value in found.items() if value}

    def moved(self, before: "Scrape", name: str, label: str) -> dict[str, float]:
        """How much each value of a label has moved since an earlier scrape, without what has not."""
        old, new = before.by(name, label), self.by(name, label)
        moved = {key: new.get(key, 0) - old.get(key, 0) for key in old | new}
        return {key: value for key, value in moved.items() if value}

    def imbalances(self) -> list[str]:
        """One sentence for each equation of the books that does not hold; in flight parts may make one."""
        fates = {fate: self.total(f"samples_{fate}_total") for fate in _FATES}
        received = self.total("samples_received_total")
        out = [f"received {received:g} is not the sum of {fates}"] if received != sum(fates.values()) else []
        for tenant in self.by("parts_total", "tenant") | self.by("parts_recovered_total", "tenant"):
            made = self.total("parts_total", tenant=tenant) + self.total("parts_recovered_total", tenant=tenant)
            names = ("samples_delivered_total", "samples_dropped_total", "samples_queued")
            ended = {name: self.total(name, tenant=tenant) for name in names}
            if made != sum(ended.values()):
                out.append(f"{made:g} parts of {tenant} are not the sum of {ended}")
        came = fates["quarantined"] + self.total("quarantine_recovered_total")
        names = ("quarantine_released_total", "quarantine_dropped_total", "samples_quarantined")
        left = {name: self.total(name) for name in names}
        if came != sum(left.values()):
            out.append(f"{came:g} samples in quarantine are not the sum of {left}")
        return out

    def _matching(self, name: str, labels: dict[str, str]) -> Iterator[tuple[dict[str, str], float]]:
        for found, own, value in self._samples:
            if found == name and labels.items() <= own.items():
                yield own, value
