from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import TimeSeries
from proxy.core.pieces import Piece, fitting, split_entries
from proxy.core.wire import Part
from tests.proxy.core.messages import blob, block, exemplar, fixed32, histogram, number, recorded, sample
from tests.proxy.core.strategies import REQUESTS, SERIES, loosened

LABELS = block(("__name__", "m"), ("k", "v"))
ONE = blob(1, LABELS + sample())
MANY = blob(1, LABELS + sample() + histogram() + exemplar() + sample(None) + exemplar())
EXEMPLAR_ONLY = blob(1, LABELS + exemplar())
METADATA = blob(3, blob(2, b"m") + blob(4, b"help"))


def _part(*entries: bytes, made: int = 0) -> Part:
    part = Part("a", ("prod", "0"))
    for entry in entries:
        part.add(entry[:3])
        part.add(entry[3:])
    pieces = split_entries(b"".join(entries))
    part.samples = sum(piece.samples for piece in pieces)
    part.exemplars = sum(piece.exemplars for piece in pieces)
    part.metadata = sum(entry.startswith(b"\x1a") for entry in entries)
    part.made = made
    part.replay = True
    part.batch = object()
    return part


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        (b"", []),
        (ONE, [Piece(ONE, 1, 0)]),
        (ONE + MANY + EXEMPLAR_ONLY, [Piece(ONE, 1, 0), Piece(MANY, 3, 2), Piece(EXEMPLAR_ONLY, 0, 1)]),
        (METADATA + ONE + METADATA, [Piece(METADATA, 0, 0), Piece(ONE, 1, 0), Piece(METADATA, 0, 0)]),
        (blob(1, b"") * 2, [Piece(blob(1, b""), 0, 0)] * 2),
        (blob(1, sample() + LABELS, padding=2), [Piece(blob(1, sample() + LABELS, padding=2), 1, 0)]),
        (
            blob(1, number(2, 5) + fixed32(4, b"abcd") + blob(5, sample())),
            [Piece(blob(1, number(2, 5) + fixed32(4, b"abcd") + blob(5, sample())), 0, 0)],
        ),
        (number(1, 7) + ONE, [Piece(number(1, 7), 0, 0), Piece(ONE, 1, 0)]),
        (ONE + ONE[:-1], [Piece(ONE, 1, 0), Piece(ONE[:-1], 0, 0)]),
        (ONE + b"\x00" + ONE, [Piece(ONE, 1, 0), Piece(b"\x00" + ONE, 0, 0)]),
        (blob(1, sample() + b"\x0b") + ONE, [Piece(blob(1, sample() + b"\x0b"), 1, 0), Piece(ONE, 1, 0)]),
    ],
)
def test_split_entries(body: bytes, pieces: list[Piece]) -> None:
    """Each field of a request is a piece, a series with its samples, histograms and exemplars counted."""
    assert split_entries(body) == pieces


@pytest.mark.fuzz
@given(st.lists(SERIES, max_size=4), st.integers(0, 1 << 32))
def test_counts_are_those_of_the_message(series: list[TimeSeries], seed: int) -> None:
    """An entry bears what the protobuf runtime finds in it, in whatever order and with whatever else it is written."""
    random = Random(seed)
    entries = [blob(1, loosened(each, random), random.choice([0, 1])) for each in series]
    assert split_entries(b"".join(entries)) == [
        Piece(entry, len(each.samples) + len(each.histograms), len(each.exemplars))
        for entry, each in zip(entries, series, strict=True)
    ]


@pytest.mark.fuzz
@given(st.one_of(st.binary(), REQUESTS.map(WriteRequest.SerializeToString)), st.data())
def test_nothing_is_lost_or_moved_whatever_the_bytes(body: bytes, data: st.DataObject) -> None:
    """The pieces of any bytes, joined, are these bytes, and taking a piece apart again changes nothing."""
    body = body[: data.draw(st.integers(0, len(body)))]
    pieces = split_entries(body)
    assert b"".join(piece.entry for piece in pieces) == body
    assert [split_entries(piece.entry) for piece in pieces] == [[piece] for piece in pieces]


@pytest.mark.parametrize("name", ["prometheus-1", "prometheus-histograms-1", "prometheus-metadata", "vmagent-1"])
def test_recorded_requests(name: str) -> None:
    """A real sender's request has as many series, samples and exemplars as the protobuf runtime sees."""
    body = recorded(name)
    message = WriteRequest.FromString(body)
    pieces = split_entries(body)
    assert len(pieces) == len(message.timeseries) + len(message.metadata)
    series = message.timeseries
    assert sum(piece.samples for piece in pieces) == sum(len(each.samples) + len(each.histograms) for each in series)
    assert sum(piece.exemplars for piece in pieces) == sum(len(each.exemplars) for each in series)


@pytest.mark.parametrize(("spare_bytes", "spare_samples", "parts"), [(0, 0, 1), (-1, 0, 2), (0, -1, 2), (9, 9, 1)])
def test_bounds_are_inclusive(spare_bytes: int, spare_samples: int, parts: int) -> None:
    """A part of exactly both bounds goes as it is, the same object; one byte or one sample more cuts it."""
    part = _part(ONE, MANY)
    cut = fitting(part, len(ONE) + len(MANY) + spare_bytes, 4 + spare_samples)
    assert len(cut) == parts
    assert (cut[0] is part) == (parts == 1)


@pytest.mark.parametrize(
    ("entries", "max_bytes", "max_samples", "counts"),
    [
        ([ONE] * 5, 2 * len(ONE), 99, [2, 2, 1]),
        ([ONE] * 5, 3 * len(ONE) - 1, 99, [2, 2, 1]),
        ([ONE] * 5, 1 << 20, 2, [2, 2, 1]),
        ([ONE, MANY, ONE], len(ONE), 99, [1, 1, 1]),
        ([ONE, MANY, ONE], 1 << 20, 2, [1, 1, 1]),
        ([MANY, EXEMPLAR_ONLY, ONE], 1 << 20, 2, [1, 2]),
        ([EXEMPLAR_ONLY, ONE, EXEMPLAR_ONLY, ONE], 1 << 20, 1, [3, 1]),
        ([METADATA] * 3, 2 * len(METADATA), 0, [2, 1]),
        ([ONE], 0, 0, [1]),
    ],
)
def test_cuts(entries: list[bytes], max_bytes: int, max_samples: int, counts: list[int]) -> None:
    """A part is filled up to the bound that is met first, framing counted; what is larger alone stands alone."""
    cut = fitting(_part(*entries), max_bytes, max_samples)
    assert [len(split_entries(part.body)) for part in cut] == counts
    assert b"".join(part.body for part in cut) == b"".join(entries)


ENTRIES = st.lists(st.sampled_from([ONE, MANY, EXEMPLAR_ONLY, METADATA, blob(1, LABELS * 9 + sample())]), min_size=1)


@given(ENTRIES, st.integers(0, 400), st.integers(0, 8), st.integers(0, 3))
def test_cut_parts_add_up(entries: list[bytes], max_bytes: int, max_samples: int, made: int) -> None:
    """Nothing is lost, doubled or moved; each part is within the bounds or one entry, and none could take the next."""
    whole = _part(*entries, made=made)
    cut = fitting(whole, max_bytes, max_samples)
    assert b"".join(part.body for part in cut) == whole.body
    for count in ("size", "samples", "made", "exemplars", "metadata"):
        assert sum(getattr(part, count) for part in cut) == getattr(whole, count)
    assert cut[0].made == made
    for part in cut:
        assert (part.tenant, part.pair, part.replay, part.batch) == ("a", ("prod", "0"), True, whole.batch)
        pieces = split_entries(part.body)
        assert (part.size, part.samples) == (len(part.body), sum(piece.samples for piece in pieces))
        assert part.exemplars == sum(piece.exemplars for piece in pieces)
        assert len(pieces) == 1 or (part.size <= max_bytes and part.samples <= max_samples)
    for part, following in pairwise(cut):
        first = split_entries(following.body)[0]
        assert part.size + len(first.entry) > max_bytes or part.samples + first.samples > max_samples


@pytest.mark.parametrize("entries", [[], [ONE], [MANY]])
def test_what_cannot_be_cut_stays(entries: list[bytes]) -> None:
    """A part of one entry or none goes as it is, the same object, however small the bounds: its batch waits for it."""
    part = _part(*entries)
    part.samples = 7
    assert fitting(part, 1, 1) == [part]
