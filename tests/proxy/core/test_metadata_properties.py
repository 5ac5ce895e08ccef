"""Metadata of random families among random tenants: who gets it, who does not, and what the counts say."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import MetricMetadata
from proxy.core import metadata as metadata_module
from proxy.core.fields import frames
from proxy.core.metadata import HELD_MS, Metadata, MetadataError, parse_metadata
from proxy.core.tenancy import Tenancy, Trust
from tests.proxy.core.ledger import World
from tests.proxy.core.messages import blob, double, number
from tests.proxy.core.scene import Document, labels_of, points_of, read_series, util
from tests.proxy.core.strategies import TRAPS
from tests.proxy.core.worlds import BAD, DEVICES, DOCUMENTS, OTHERS, TIMES, TRUSTS, Request, requests, tenancies

pytestmark = pytest.mark.fuzz

SUFFIXES: Final = ("", "_bucket", "_sum", "_count", "_total", "_created", "_info")
UNIVERSE: Final = [*DEVICES, *OTHERS, *BAD, *(util(__name__=f"latency{suffix}") for suffix in SUFFIXES[1:4])]
NAMES: Final = [*sorted({each.get("__name__") for each in UNIVERSE} - {""}), "latency", "n", "never"]


class Asked(NamedTuple):
    """A request with metadata of these families, so many milliseconds after what was before."""

    after_ms: int
    families: list[str]


Step = tuple[list[Document], int] | Request | Tenancy | Asked
ASKED: Final = st.builds(
    Asked, st.sampled_from([0, 1000, HELD_MS // 2, HELD_MS - 1, HELD_MS]), st.lists(st.sampled_from(NAMES), max_size=8)
)
SERIES: Final = requests(UNIVERSE, ["value", "value", "histogram", "stale", "exemplar"], TIMES)
STEPS: Final = st.lists(
    st.one_of(DOCUMENTS, SERIES, SERIES, ASKED, ASKED, tenancies(merging=True)), min_size=2, max_size=12
)


@dataclass
class Town:
    """A world with metadata. `may` is what a tenant could have been sent, `had` what it was sent, by name of series.

    Each entry says in its help when it came and which one it is, so that it is known again wherever it goes.
    """

    world: World
    metadata: Metadata
    now_ms: int = 0
    taken: int = 0
    given: Counter[tuple[str, str]] = field(default_factory=Counter)
    may: dict[str, set[str]] = field(default_factory=dict)
    had: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tenancy: Tenancy, trust: Trust, cache_bytes: int) -> "Town":
        """A town where nothing has happened."""
        world = World.of(tenancy, trust, cache_bytes)
        return cls(world, Metadata(world.scene.intake.families, world.scene.books))

    @property
    def counts(self) -> Counter[str]:
        """What the books say of metadata."""
        return self.world.scene.books.metadata

    def go(self, step: Step) -> None:
        """Let something happen."""
        match step:
            case Tenancy():
                self._retenant(step)
            case Asked():
                self.now_ms += step.after_ms
                self.ask(step.families)
            case (list() as devices, int(until)):
                self.world.load(devices, until)
            case list():
                self._take(step)
                self.ask([])

    def ask(self, families: list[str]) -> None:
        """Metadata comes; everything that must hold of what is given, does."""
        entries = []
        for family in families:
            self.taken += 1
            entries.append(number(1, 1) + blob(2, family.encode()) + blob(4, b"%d %d" % (self.now_ms, self.taken)))
        fresh = {}
        for parts in self.metadata.take(entries, self.now_ms):
            for part in parts:
                for each in WriteRequest.FromString(part.body).metadata:
                    family, text = each.metric_family_name.decode(), each.help.decode()
                    self._check(part.tenant, family, int(text.split()[0]))
                    self.given[part.tenant, text] += 1
                    fresh[part.tenant, family] = text
        for tenant, names in self.had.items():
            missing = {family for family in families if is_family(family, names)} - {
                family for owner, family in fresh if owner == tenant
            }
            assert not missing, f"{tenant} has not got {missing}"

    def _check(self, tenant: str, family: str, arrived_ms: int) -> None:
        assert is_family(family, self.may.get(tenant, set())), f"{tenant} got {family}"
        assert self.world.scene.intake.tenancy.tenant(tenant) is not None
        assert self.now_ms - HELD_MS < arrived_ms <= self.now_ms

    def _take(self, request: Request) -> None:
        self.world.ever.clear()
        self.world.take(request)
        for tenant, labels in self.world.ever:
            self.may.setdefault(tenant, set()).add(labels.get("__name__"))
        for part in self.world.scene.taken.parts:
            for series in read_series(part.body):
                if any("stale" not in str(value) for _, value in points_of(series)):
                    self.had.setdefault(part.tenant, set()).add(labels_of(series).get("__name__"))

    def _retenant(self, tenancy: Tenancy) -> None:
        self.world.retenant(tenancy)
        known = self.world.scene.intake.tenancy
        for names in (self.may, self.had):
            for gone in [tenant for tenant in names if known.tenant(tenant) is None]:
                del names[gone]


def is_family(family: str, names: set[str]) -> bool:
    """Whether a family is one of series of these names."""
    return any(family + suffix in names for suffix in SUFFIXES)


@given(tenancies(merging=True), TRUSTS, STEPS, st.sampled_from([0, 3000, 1 << 30]))
def test_metadata_goes_to_those_who_have_the_family(
    tenancy: Tenancy, trust: Trust, steps: list[Step], cache_bytes: int
) -> None:
    """No tenant gets metadata of a family that none of its series has, and those who have one get it, in time."""
    town = Town.of(tenancy, trust, cache_bytes)
    for step in steps:
        town.go(step)


@given(
    tenancies(merging=True), TRUSTS, STEPS, st.sampled_from([0, 1, 5, 20_000]), st.sampled_from([0, 40, 200, 8 << 20])
)
def test_what_is_held_leaves_and_is_counted_once(
    tenancy: Tenancy, trust: Trust, steps: list[Step], entries: int, size: int
) -> None:
    """Bounds hold, nothing is held after two minutes, and each entry was given to somebody or is dropped, once."""
    town = Town.of(tenancy, trust, 1 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata_module, "HELD_ENTRIES", entries)
        patch.setattr(metadata_module, "HELD_BYTES", size)
        for step in steps:
            town.go(step)
            assert 0 <= town.metadata.held <= entries
            assert 0 <= town.metadata.held_bytes <= size
    town.metadata.expire(town.now_ms + HELD_MS)
    assert (town.metadata.held, town.metadata.held_bytes) == (0, 0)
    assert town.taken == len({text for _, text in town.given}) + town.counts["dropped"]
    assert set(town.counts) <= {"dropped"}


PIECES: Final = st.one_of(
    st.builds(number, st.sampled_from([1, 1, 11, 12]), st.sampled_from([0, 1, 7, 8, 1 << 32, (1 << 64) - 1])),
    st.builds(blob, st.sampled_from([2, 2, 4, 5, 3, 1]), st.sampled_from([b"", b"up", b"a\nb", b"\xff", b"\xc3\xa9"])),
    st.builds(double, st.integers(1, 6), st.just(1.0)),
    st.sampled_from(TRAPS),
    st.binary(max_size=4),
)


@given(st.lists(PIECES, max_size=6).map(b"".join))
def test_any_bytes_are_metadata_or_are_refused(raw: bytes) -> None:
    """What passes is what the protobuf runtime reads, and means the same to it afterwards; else our own error comes."""
    try:
        read = parse_metadata(raw)
    except MetadataError:
        try:
            theirs = MetricMetadata.FromString(raw)
        except DecodeError:
            return
        texts = (theirs.metric_family_name, theirs.help, theirs.unit)
        plain = b"".join(
            [*(number(1, int(theirs.type)) for _ in range(theirs.type != 0)), *map(blob, (2, 4, 5), texts)]
        )
        assert theirs.SerializeToString() != plain or not _is_good(theirs)
        return
    (again,) = WriteRequest.FromString(read.framed()).metadata
    theirs = MetricMetadata.FromString(raw)
    theirs.DiscardUnknownFields()
    assert again == theirs
    assert _is_good(again)
    (body,) = frames(read.framed()).metadata
    assert parse_metadata(body).framed() == read.framed()


def _is_good(entry: MetricMetadata) -> bool:
    try:
        for text in (entry.metric_family_name, entry.help, entry.unit):
            text.decode()
    except UnicodeDecodeError:
        return False
    return bool(entry.metric_family_name) and 0 <= entry.type < 8
