from types import ModuleType

import pytest

from proxy.core.errors import MalformedSeriesError
from tests.proxy.core import messages, twins
from tests.proxy.core.messages import BITS_64, blob, double, fixed32, number, tag

VARINTS = {
    "00": 0,
    "7f": 127,
    "8001": 128,
    "ff7f": 16383,
    "808001": 16384,
    "ffffffff0f": (1 << 32) - 1,
    "80d095ffbc31": 1_700_000_000_000,
    "ffffffffffffffff7f": (1 << 63) - 1,
    "80808080808080808001": 1 << 63,
    "ffffffffffffffffff01": BITS_64 - 1,
}

PADDED = {"8000": 0, "ff00": 127, "80808000": 0, "81808080808080808000": 1}

NO_VARINTS = {
    "empty": "",
    "cut": "80",
    "cut after nine": "ff" * 9,
    "65 bits": "ff" * 9 + "02",
    "70 bits": "ff" * 9 + "7f",
    "eleven bytes": "80" * 10 + "00",
    "thirteen bytes": "ff" * 12 + "01",
}


@pytest.mark.parametrize(("text", "value"), [*VARINTS.items(), *PADDED.items()])
def test_varints_are_read(wire: ModuleType, text: str, value: int) -> None:
    """A varint of up to 64 bits is read wherever it stands, padded or not, and the next field begins behind it."""
    raw = bytes.fromhex(text)
    assert wire.read_varint(raw, 0, len(raw)) == (value, len(raw))
    assert wire.read_varint(b"\xff" + raw + b"\xff", 1, 1 + len(raw)) == (value, 1 + len(raw))


@pytest.mark.parametrize("text", NO_VARINTS.values(), ids=NO_VARINTS.keys())
def test_bad_varints_are_refused(wire: ModuleType, text: str) -> None:
    """A varint that is cut or has more than 64 bits is refused, in the same way by both builds."""
    raw = bytes.fromhex(text)
    with pytest.raises(MalformedSeriesError):
        wire.read_varint(raw, 0, len(raw))


def test_a_varint_is_not_read_past_its_message(wire: ModuleType) -> None:
    """What lies behind the end of a message does not complete its last varint."""
    with pytest.raises(MalformedSeriesError):
        wire.read_varint(b"\x80\x01", 0, 1)


@pytest.mark.parametrize(("text", "value"), VARINTS.items())
def test_varints_are_written_short(wire: ModuleType, text: str, value: int) -> None:
    """A varint is written in as few bytes as it takes."""
    assert wire.varint(value).hex() == text


FIELDS = {
    "varint": (number(2, 300), 0x10, 1, 3),
    "longest varint": (number(2, -1), 0x10, 1, 11),
    "padded varint": (number(2, 1, 9), 0x10, 1, 11),
    "eight bytes": (double(1, 1.0), 0x09, 1, 9),
    "four bytes": (fixed32(1, b"abcd"), 0x0D, 1, 5),
    "empty bytes": (blob(1, b""), 0x0A, 2, 2),
    "bytes": (blob(1, b"abc"), 0x0A, 2, 5),
    "long bytes": (blob(1, bytes(300)), 0x0A, 3, 303),
    "a length of five bytes": (blob(1, b"abc", 4), 0x0A, 6, 9),
    "a tag of five bytes": (tag(1, 0, 4) + b"\x07", 0x08, 5, 6),
    "the highest field": (number(536_870_911, 1), (536_870_911 << 3), 5, 6),
}


@pytest.mark.parametrize(("raw", "key", "value_at", "end"), FIELDS.values(), ids=FIELDS.keys())
def test_fields_are_found(wire: ModuleType, raw: bytes, key: int, value_at: int, end: int) -> None:
    """A field's tag, the place of its value and its end are told, wherever it stands."""
    assert wire.read_field(raw, 0, len(raw)) == (key, value_at, end)
    assert wire.read_field(b"\xff" + raw + b"\xff", 1, 1 + len(raw)) == (key, 1 + value_at, 1 + end)


@pytest.mark.parametrize("raw", [raw for raw, *_ in FIELDS.values()], ids=FIELDS.keys())
def test_cut_fields_are_refused(wire: ModuleType, raw: bytes) -> None:
    """A field that is cut anywhere is refused, although the rest of it lies behind the end."""
    for end in range(len(raw)):
        with pytest.raises(MalformedSeriesError):
            wire.read_field(raw, 0, end)


NO_FIELDS = {
    "field 0": number(0, 1),
    "field 0 with a length": blob(0, b"x"),
    "field 2^29": number(1 << 29, 1),
    "a tag of 33 bits": tag((1 << 29) + 1, 2) + b"\x00",
    "a tag of 64 bits": messages.varint(-6) + b"\x00",
    "a tag of six bytes": tag(1, 0, 5) + b"\x07",
    "a length of six bytes": blob(1, b"abc", 5),
    "a length of ten bytes": tag(1, 2) + messages.varint(-1) + b"abc",
    "a length of 2^63": tag(1, 2) + messages.varint(1 << 63) + b"abc",
    "a length one past the end": tag(1, 2) + b"\x04abc",
    "a group": tag(1, 3) + tag(1, 4),
    "an end of group": tag(1, 4),
    "wire type 6": tag(1, 6) + b"\x01",
    "wire type 7": tag(1, 7) + b"\x01",
}


@pytest.mark.parametrize("raw", NO_FIELDS.values(), ids=NO_FIELDS.keys())
def test_bad_fields_are_refused(wire: ModuleType, raw: bytes) -> None:
    """What some decoder refuses is no field: bad numbers, groups, long tags and lengths, lengths past the end."""
    with pytest.raises(MalformedSeriesError):
        wire.read_field(raw, 0, len(raw))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 8191, 8192, 16383, 16384, 1 << 25])
def test_frames_stand_before_entries(wire: ModuleType, length: int) -> None:
    """The frame of an entry is its tag and its length, the same at the second call."""
    expected = b"\x0a" + messages.varint(length)
    assert wire.frame(length) == expected
    assert wire.frame(length) == expected


TIMES = {
    "80d095ffbc31": 1_700_000_000_000,
    "ffffffffff7f": (1 << 42) - 1,
    "808080808001": 1 << 35,
    "808080808000": 0,
    "80808080807f": 0x7F << 35,
    "808080800100": -1,
    "80808080808001": -1,
    "008080808001": -1,
    "ffffffffffffffffff01": -1,
}


@pytest.mark.parametrize(("text", "time_ms"), TIMES.items())
def test_times_of_six_bytes(text: str, time_ms: int) -> None:
    """A time of six bytes is read, padded or not; -1 stands for one of another length."""
    assert twins.pure().wire._timestamp(b"\xff" + bytes.fromhex(text), 1) == time_ms
