import pytest

from proto.prompb.remote_pb2 import WriteRequest
from proxy.core import metadata as metadata_module
from proxy.core.books import Books
from proxy.core.families import Families
from proxy.core.fields import frames
from proxy.core.metadata import (
    ENTRY_BYTES,
    HELD_MS,
    PART_BYTES,
    PART_ENTRIES,
    SLICE,
    Metadata,
    MetadataError,
    MetricMetadata,
    parse_metadata,
)
from proxy.core.wire import Part
from tests.proxy.core.messages import blob, double, fixed32, number, recorded

Got = list[tuple[str, list[tuple[str, str]]]]


def entry(family: str = "up", text: str = "Help.", kind: int = 2, unit: str = "") -> bytes:
    """An entry as Prometheus writes it."""
    written = (number(1, kind) if kind else b"") + blob(2, family.encode())
    return written + (blob(4, text.encode()) if text else b"") + (blob(5, unit.encode()) if unit else b"")


class Desk:
    """Metadata with its families and books; `take` is told in seconds."""

    def __init__(self) -> None:
        self.families = Families()
        self.books = Books()
        self.metadata = Metadata(self.families, self.books)
        self.parts: list[Part] = []

    def take(self, *entries: bytes, at: float = 0) -> Got:
        """What each part brings its tenant: family and help of each entry."""
        self.parts = [part for parts in self.metadata.take(entries, round(at * 1000)) for part in parts]
        return [(part.tenant, read(part)) for part in self.parts]

    def counts(self) -> dict[str, int]:
        """The books' counts."""
        return dict(self.books.metadata)


def read(part: Part) -> list[tuple[str, str]]:
    """Family and help of each entry of a part, which is in order."""
    assert (part.samples, part.made, part.exemplars, part.pair, part.replay) == (0, 0, 0, (), False)
    assert part.size == len(part.body)
    request = WriteRequest.FromString(part.body)
    assert not request.timeseries
    assert part.metadata == len(request.metadata) > 0
    return [(each.metric_family_name.decode(), each.help.decode()) for each in request.metadata]


# -- reading one entry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (entry(), MetricMetadata(2, "up", b"Help.", b"")),
        (entry("a:b", "", 0), MetricMetadata(0, "a:b", b"", b"")),
        (entry("größe", "zwei\nZeilen", 7, "bytes"), MetricMetadata(7, "größe", b"zwei\nZeilen", b"bytes")),
        (blob(4, b"h") + blob(2, b"a") + blob(2, b"b"), MetricMetadata(0, "b", b"h", b"")),
        (entry() + number(11, 7) + number(12, 9), MetricMetadata(2, "up", b"Help.", b"")),
        (blob(3, b"x") + entry() + double(9, 1.0) + fixed32(99, b"abcd"), MetricMetadata(2, "up", b"Help.", b"")),
        (number(1, 2, 3) + blob(2, b"up", 2) + blob(4, b"Help."), MetricMetadata(2, "up", b"Help.", b"")),
    ],
    ids=["usual", "name only", "all", "any order, last counts", "account and project", "unknown fields", "padded"],
)
def test_entries_that_pass(raw: bytes, read: MetricMetadata) -> None:
    """An entry is read whatever its order, and goes on as 1.0 has it: no field that 1.0 does not have, none twice."""
    assert parse_metadata(raw) == read
    framed = read.framed()
    (again,) = frames(framed).metadata
    assert again == entry(read.family, read.help.decode(), read.kind, read.unit.decode())
    assert parse_metadata(again) == read


BAD = {
    "empty": b"",
    "no name": entry(""),
    "name not UTF-8": blob(2, b"\xff"),
    "help not UTF-8": blob(2, b"up") + blob(4, b"\xc3"),
    "unit not UTF-8": blob(2, b"up") + blob(5, b"\xed\xa0\x80"),
    "unknown type": entry(kind=8),
    "negative type": entry(kind=-1),
    "type of 32 bits and more": entry(kind=(1 << 32) + 1),
    "type is no number": blob(1, b"\x01") + blob(2, b"up"),
    "name is a number": number(2, 1),
    "help is a double": blob(2, b"up") + double(4, 1.0),
    "unit is four bytes": blob(2, b"up") + fixed32(5, b"abcd"),
    "cut": entry()[:-1],
    "longer than it is": b"\x12\xff\xff\xff\xff\x0f",
    "group": blob(2, b"up") + b"\x1b\x1c",
    "field 0": blob(2, b"up") + b"\x02\x00",
    "too long": entry(text="x" * ENTRY_BYTES),
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD)
def test_entries_that_do_not(raw: bytes) -> None:
    """What is no metadata is rejected and counted; what came with it goes on."""
    with pytest.raises(MetadataError):
        parse_metadata(raw)
    desk = Desk()
    desk.families.learn("a", "up")
    assert desk.take(entry(), raw, entry("x")) == [("a", [("up", "Help.")])]
    assert (desk.counts(), desk.metadata.held) == ({"rejected": 1}, 2)


def test_an_entry_may_be_so_long() -> None:
    """ENTRY_BYTES is what an entry may have."""
    raw = entry(text="x" * (ENTRY_BYTES - len(entry(text="x" * 40_000)) + 40_000))
    assert len(raw) == ENTRY_BYTES
    assert len(parse_metadata(raw).framed()) > ENTRY_BYTES


@pytest.mark.parametrize("name", ["prometheus-metadata", "vmagent-metadata"])
def test_real_senders(name: str) -> None:
    """What Prometheus and vmagent sent goes on byte by byte, but for the empty texts that vmagent writes."""
    raw = frames(recorded(name)).metadata
    assert raw
    for each in raw:
        (again,) = frames(parse_metadata(each).framed()).metadata
        assert again == each.removesuffix(b"\x2a\x00").removesuffix(b"\x22\x00")


# -- handing out ------------------------------------------------------------------------------------------------------


def test_who_has_a_family_gets_it_at_once() -> None:
    """Each tenant gets the entries of its families, in the order in which they came, and nothing of others'."""
    desk = Desk()
    for tenant, name in (("a", "x_total"), ("b", "y"), ("b", "x"), ("c", "z")):
        desk.families.learn(tenant, name)
    found = desk.take(entry("y", "1"), entry("w", "2"), entry("x", "3"), entry("x_total", "4"))
    assert found == [("a", [("x", "3"), ("x_total", "4")]), ("b", [("y", "1"), ("x", "3")])]
    assert desk.counts() == {}


@pytest.mark.parametrize(("later", "given"), [(0.0, True), (119.999, True), (120.0, False), (600.0, False)])
def test_who_learns_a_family_gets_it_within_two_minutes(later: float, given: bool) -> None:  # noqa: FBT001 - a table's column
    """An entry waits for two minutes, and is then dropped, once, if nobody has got it."""
    desk = Desk()
    assert desk.take(entry("x", "1"), at=5) == []
    desk.families.learn("a", "x_total")
    assert desk.take(at=5 + later) == ([("a", [("x", "1")])] if given else [])
    for _ in range(2):
        assert desk.take(at=5 + later) == []
    desk.metadata.expire(round((5 + later + 120) * 1000))
    assert (desk.metadata.held, desk.metadata.held_bytes) == (0, 0)
    assert desk.counts() == ({} if given else {"dropped": 1})


def test_some_have_it_and_some_learn_it() -> None:
    """What one tenant got at once waits for others all the same, and each gets it once."""
    desk = Desk()
    desk.families.learn("a", "x")
    assert desk.take(entry("x", "1")) == [("a", [("x", "1")])]
    for tenant in ("b", "c"):
        desk.families.learn(tenant, "x_sum")
        desk.families.learn(tenant, "x_count")
        desk.families.learn("a", "x_sum")
        assert desk.take(at=60) == [(tenant, [("x", "1")])]
    assert desk.take(at=120) == []
    assert desk.counts() == {}


def test_the_newer_entry_counts() -> None:
    """A newer entry takes the held one's place (dropped if nobody got it), and waits for two minutes of its own."""
    desk = Desk()
    desk.take(entry("x", "old"), entry("y", "old"), at=0)
    desk.families.learn("a", "y")
    assert desk.take(at=1) == [("a", [("y", "old")])]
    assert desk.take(entry("x", "new"), entry("y", "new"), at=60) == [("a", [("y", "new")])]
    assert (desk.counts(), desk.metadata.held) == ({"dropped": 1}, 2)
    desk.families.learn("b", "x")
    assert desk.take(at=179) == [("b", [("x", "new")])]
    desk.take(at=180)
    assert (desk.metadata.held, desk.counts()) == (0, {"dropped": 1})


def test_exporters_that_do_not_agree() -> None:
    """Entries of one family that come together go together, at once and later."""
    desk = Desk()
    desk.families.learn("a", "x")
    both = [("x", "1"), ("x", "2")]
    assert desk.take(entry("x", "1"), entry("y", "3"), entry("x", "2")) == [("a", both)]
    desk.families.learn("b", "x")
    assert desk.take(at=1) == [("b", both)]
    assert desk.metadata.held == 3


def test_who_is_gone_gets_nothing() -> None:
    """A tenant that learnt a family and went gets nothing of what was held, nor of what comes."""
    desk = Desk()
    desk.take(entry("x"))
    desk.families.learn("a", "x")
    desk.families.keep(lambda _: False)
    assert desk.take(entry("x")) == []


MANY = [entry(f"m{at}") for at in range(2 * PART_ENTRIES + 1)]
LARGE = [entry(f"m{at}", "x" * 60_000) for at in range(40)]


@pytest.mark.parametrize("entries", [MANY, LARGE], ids=["many", "large"])
@pytest.mark.parametrize("known", [True, False])
def test_parts_are_bounded(entries: list[bytes], known: bool) -> None:  # noqa: FBT001 - a table's column
    """No part has more entries or bytes than it may, whether they go at once or all together later; none is lost."""
    desk = Desk()
    names = [parse_metadata(raw).family for raw in entries]
    found = [] if known else desk.take(*entries)
    for name in names:
        desk.families.learn("a", name)
    found += desk.take(*entries) if known else desk.take()
    assert [family for _, got in found for family, _ in got] == names
    assert max(part.metadata for part in desk.parts) <= PART_ENTRIES
    assert max(part.size for part in desk.parts) <= PART_BYTES
    assert len(desk.parts) > 2


def test_steps_are_bounded() -> None:
    """So many entries are worked on in one step, or so many bytes, and a caller has its turn after each."""
    desk = Desk()
    desk.families.learn("a", "x")
    small, large = [entry("x")] * (SLICE + 1), [entry("x", "x" * 60_000)] * 40
    steps = [sum(part.metadata for part in parts) for parts in desk.metadata.take([*small, *large], 0)]
    assert steps[:2] == [0, SLICE]
    assert sum(steps) == SLICE + 41
    assert max(steps[2:]) <= PART_BYTES // 60_000 + 1


def test_a_caller_may_ask_for_the_next_step_later() -> None:
    """Each step goes by what tenants have when it is asked for: another configuration may come between."""
    desk = Desk()
    desk.families.learn("a", "x")
    steps = desk.metadata.take([entry("x")] * (2 * SLICE), 0)
    assert [len(next(steps)), len(next(steps))] == [0, 1]
    desk.families.keep(lambda _: False)
    assert list(steps) == [[]]


@pytest.mark.parametrize(
    ("bound", "value"), [("HELD_ENTRIES", 3), ("HELD_BYTES", 3 * len(MetricMetadata(2, "m0", b"Help.", b"").framed()))]
)
def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    """Held is as much as may be; with one more the oldest goes, dropped if nobody got it."""
    monkeypatch.setattr(metadata_module, bound, value)
    desk = Desk()
    desk.families.learn("a", "m0")
    desk.take(*(entry(f"m{at}") for at in range(3)))
    assert (desk.metadata.held, desk.counts()) == (3, {})
    desk.take(entry("m3"))
    assert (desk.metadata.held, desk.counts()) == (3, {})  # m0, which somebody got
    desk.take(entry("m4"))
    assert (desk.metadata.held, desk.counts()) == (3, {"dropped": 1})
    for name in ("m1", "m2", "m3", "m4"):
        desk.families.learn("b", name)
    assert desk.take() == [("b", [("m2", "Help."), ("m3", "Help."), ("m4", "Help.")])]


def test_what_is_more_than_may_be_held_goes_to_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that is by itself more than may be held is given at once and not held, and the rest is as before."""
    monkeypatch.setattr(metadata_module, "HELD_BYTES", 1000)
    desk = Desk()
    desk.families.learn("a", "x")
    desk.take(entry("y"), entry("x", "x" * 1000))
    assert [part.metadata for part in desk.parts] == [1]
    assert (desk.metadata.held, desk.metadata.held_bytes, desk.counts()) == (0, 0, {"dropped": 1})


def test_held_for_two_minutes() -> None:
    """The design says two minutes."""
    assert HELD_MS == 2 * 60 * 1000
