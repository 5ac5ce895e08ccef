"""What must become of the samples of a random world, told sample by sample.

Every sample has a value of its own, by which it is found again wherever it went. `may_have` is the design once more, in
other words: it reads the documents as they were generated, and nothing of the code under test.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from proxy.core.labels import LabelSet
from proxy.core.route import decide
from proxy.core.sorter import Limits
from proxy.core.tenancy import DynamicTenants, Tenancy, Tenant, Trust
from tests.proxy.core.scene import (
    MAX_AGE,
    STALE,
    Document,
    Scene,
    Series,
    labels_of,
    ms,
    points_of,
    read_series,
)
from tests.proxy.core.worlds import BAD, Request


@dataclass(frozen=True)
class Sample:
    """One sample of a request: the labels and the time that it had."""

    labels: LabelSet
    at: float


@dataclass(frozen=True)
class Delivered:
    """A sample as a tenant got it."""

    tenant: str
    pair: Hashable
    labels: LabelSet
    at: float
    value: float | str


@dataclass
class World:
    """An intake at work, what it was given, and what `decide` says of each sample when nothing is remembered."""

    scene: Scene
    tenancy: Tenancy
    trust: Trust
    devices: dict[str, Document] = field(default_factory=dict)
    until: float = 0
    samples: dict[float, Sample] = field(default_factory=dict)
    fates: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    ever: set[tuple[str, LabelSet]] = field(default_factory=set)
    """What a tenant could have been sent at all, for markers."""

    @classmethod
    def of(cls, tenancy: Tenancy, trust: Trust, cache_bytes: int = 1 << 30) -> "World":
        """A world without ownership; the oracle makes dynamic tenants of its own."""
        scene = Scene(_own(tenancy), cache_bytes=cache_bytes)
        return cls(scene, _own(tenancy), trust)

    def retenant(self, tenancy: Tenancy) -> None:
        """Another configuration."""
        self.tenancy = _own(tenancy)
        self.scene.intake.retenant(_own(tenancy), Limits())

    def load(self, devices: list[Document], until: float) -> None:
        """A new document."""
        listed = {device["uuid"]: device for device in devices}
        gone = {uuid: device for uuid, device in self.devices.items() if uuid not in listed}
        self.devices = {uuid: _ended(device, ms(self.until)) for uuid, device in gone.items()} | listed
        self.until = until
        self.scene.load(*devices, until=until)

    def take(self, request: Request, tick: int = 1) -> list[Delivered]:
        """Take a request: what was delivered, markers included."""
        self.scene.take(*[self._series(labels, points) for labels, points in request], trust=self.trust, tick=tick)
        return list(self._delivered())

    def _series(self, labels: LabelSet, points: list[tuple[float, str]]) -> Series:
        series = Series(labels)
        for at, kind in points:
            value = float(len(self.samples) + 1)
            self.samples[value] = Sample(labels, at)
            if kind == "exemplar":
                series.exemplar(at, value)
            elif kind == "histogram":
                series.histogram(at, value)
            else:
                series.message.samples.add(value=STALE if kind == "stale" else value, timestamp=ms(at))
            self._expect(labels, at, units=int(kind != "exemplar"))
        return series

    def _expect(self, labels: LabelSet, at: float, units: int) -> None:
        if labels in BAD:
            reason = "label_value_too_long" if labels.get("__name__") else "missing_name"
            self.fates[f"rejected:{reason}"] += units
            return
        decision = decide(labels, ms(at), self.trust, self.tenancy, self.scene.fleet)
        fate = decision.fate
        self.fates[":".join(filter(None, (fate.kind, fate.tenant, fate.detail)))] += units
        for claim in decision.claims:
            if claim.kept is not None:
                self.parts[claim.tenant.id] += units
                self.ever.add((claim.tenant.id, claim.kept))

    def _delivered(self) -> Iterator[Delivered]:
        for part in self.scene.taken.parts:
            for series in read_series(part.body):
                labels = labels_of(series)
                for at, value in points_of(series):
                    number = float(str(value).removeprefix("sum ")) if str(value).startswith("sum ") else value
                    yield Delivered(part.tenant, part.pair, labels, at, number)

    def _owners(self, labels: LabelSet, at: float) -> tuple[list[str | None] | None, bool]:
        """The namespaces of the owners of a series' device at a time, None if unknown, and whether it is shared."""
        device = self.devices.get(labels.get("UUID"))
        if device is None or labels.get("GPU_I_ID"):
            return None, False
        for each in device["intervals"]:
            end = ms(self.until + MAX_AGE) if each["to"] is None else each["to"]
            if each["from"] <= ms(at) < end:
                names = [one["namespace"] for one in each["owners"]]
                return names, device["sharing"] != "exclusive" or len(names) > 1
        return None, False

    def may_have(self, tenant_id: str, sample: Sample) -> bool:
        """Whether a tenant may have a sample at all, by design 2 and 5."""
        labels, tenant = sample.labels, self.tenancy.by_id.get(tenant_id)
        view = "" if tenant is None else tenant.view
        owners, shared = self._owners(labels, sample.at)
        is_idle = tenant is not None and tenant is self.tenancy.idle_tenant
        if labels.get("job") in self.trust.trusted_jobs:
            of_device = labels.get("__name__") in ("whosegpu_device_up", "whosegpu_finding")
            whose = (owners or []) if of_device else [labels.get("namespace")]
            return view in ("raw", "joined") or is_idle or any(self._is(name, tenant_id) for name in whose)
        if not (self.tenancy.ownership and labels.get("UUID").startswith("GPU-")):
            by_label = self.trust.namespace_label and self._is(labels.get("namespace"), tenant_id)
            return view in ("raw", "joined") or by_label
        return view == "raw" or (not shared and self._may_have_device(tenant, tenant_id, owners))

    def _may_have_device(self, tenant: Tenant | None, tenant_id: str, owners: list[str | None] | None) -> bool:
        is_unowned = tenant is not None and tenant is self.tenancy.unowned.tenant
        is_joined = tenant is not None and tenant.view == "joined"
        if owners is None or owners == [None]:
            return is_unowned
        if not owners:
            return is_joined or (tenant is not None and tenant is self.tenancy.idle_tenant)
        is_nobodys = not any(self._is(owners[0], name) for name in [*self.tenancy.by_id, str(owners[0])])
        return is_joined or self._is(owners[0], tenant_id) or (is_nobodys and is_unowned)

    def _is(self, namespace: str | None, tenant_id: str) -> bool:
        listed: Tenant | None = self.tenancy.namespaces.get(namespace or "")
        if listed is not None or not namespace:
            return listed is not None and listed.id == tenant_id
        is_data = self.tenancy.dynamic is not None and tenant_id not in self.tenancy.by_id and "|" not in namespace
        return is_data and namespace == tenant_id


def _ended(device: Document, until_ms: int) -> Document:
    """A device that a document lists no more: somebody saw its owner up to the document before."""
    intervals = [{**each, "to": each["to"] or until_ms} for each in device["intervals"]]
    return {**device, "intervals": [each for each in intervals if each["from"] < each["to"]]}


def _own(tenancy: Tenancy) -> Tenancy:
    """The same with tenants as data of its own."""
    return replace(tenancy, dynamic=tenancy.dynamic and DynamicTenants(tenancy.dynamic.rules))
