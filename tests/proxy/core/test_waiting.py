from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownership import DeviceKey
from proxy.core import waiting
from proxy.core.record import QuarantineRecord
from proxy.core.waiting import Contents, Span, Spans, read_entry
from tests.proxy.core.scene import CARD, T0, Series, ms, util

KEY = DeviceKey(CARD, "")


def _record(entry: bytes, sample_ms: int = T0, reason: str = "unknown_owner") -> QuarantineRecord:
    return QuarantineRecord(T0, "s", "", reason, sample_ms, 1, entry)


def _of(series: Series, at: float = 5) -> QuarantineRecord:
    return _record(series.to_bytes(), ms(at))


def test_the_device_and_the_times_of_a_record() -> None:
    """What a record is about is read from its entry, however many samples that has; the last time is exclusive."""
    spans = Spans()
    for _ in range(2):
        assert spans.of(_of(Series(util(), (5, 1)))) == Span(KEY, ms(5), ms(5) + 1)
        assert spans.of(_of(Series(util(GPU_I_ID="7"), (5, 1)))) == Span(DeviceKey(CARD, "7"), ms(5), ms(5) + 1)
        assert spans.of(_of(Series(util(), (9, 1), (5, 1), (7, 1)))) == Span(KEY, ms(5), ms(9) + 1)
        assert spans.of(_of(Series(util()).histogram(5, 1))) == Span(KEY, ms(5), ms(5) + 1)
        assert spans.of(_of(Series(util(UUID="none"), (5, 1)))) == Span(None, ms(5), ms(5) + 1)
        assert spans.of(_record(b"")) == Span(None, T0, T0 + 1)


def test_a_label_value_that_looks_like_another_label() -> None:
    """The device is that of the label, not of bytes that look like it within another one."""
    looks = b"\x0a\x04UUID\x12\x05GPU-x".decode()
    assert Spans().of(_of(Series(util(a=looks), (5, 1)))).key == KEY


@given(st.binary(max_size=60), st.booleans())
def test_hostile_entries(noise: bytes, whole: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever bytes an entry has, they have a span, also once more, and after a block of theirs was seen."""
    spans = Spans()
    entry = Series(util(), (5, 1)).to_bytes()
    made = entry[:-18] + noise if whole else noise + entry[-18:]
    first = spans.of(_record(made))
    spans.of(_record(entry))
    assert spans.of(_record(made)) == first
    if read_entry(made) is None:
        assert first.key is None


def test_blocks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many label blocks are remembered as are allowed, and the answers stay the same."""
    monkeypatch.setattr(waiting, "_BLOCKS", 3)
    spans = Spans()
    for number in range(10):
        uuid = f"GPU-{number}"
        assert spans.of(_of(Series(util(UUID=uuid), (5, 1)))).key == DeviceKey(uuid, "")
        assert len(spans._keys) <= 3


def test_contents() -> None:
    """A segment's times are those of its devices, from the earliest to the last; shared samples are counted only."""
    held = Contents(T0, T0)
    for record in (_record(b"", T0 + 5), _record(b"", T0 + 3), _record(b"", T0 + 1, "shared_not_split")):
        held.add(replace(record, received_ms=T0 + 9, samples=2), Span(KEY, record.sample_ms, record.sample_ms + 1))
    assert (held.first_ms, held.newest_ms, held.records) == (T0, T0 + 9, 3)
    assert held.samples == {"unknown_owner": 4, "shared_not_split": 2}
    assert (held.spans, held.from_ms) == ({KEY: (T0 + 3, T0 + 6)}, T0 + 3)


def test_more_devices_than_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound devices are left out, which is told; the earliest time holds for all."""
    monkeypatch.setattr(waiting, "KEYS", 2)
    held = Contents(T0, T0)
    for number in range(3):
        held.add(_record(b""), Span(DeviceKey(f"GPU-{number}", ""), T0 - number, T0))
        assert held.crowded == (number == 2)
    assert (len(held.spans), held.from_ms) == (2, T0 - 2)
