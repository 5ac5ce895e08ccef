import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.frames import START, Scan, frame, scan

# Payloads that try to look like frames: the bytes of the format are much likelier than chance.
TRICKY = st.lists(
    st.one_of(st.sampled_from([b"\xfe", b"\x01", b"\x00", b"\xfe\x01", b"\xfe\x00", frame(b"inner")]), st.binary()),
    max_size=6,
).map(b"".join)


def _payloads(found: Scan) -> list[bytes]:
    return [payload for _, payload in found.records]


@given(st.lists(TRICKY, max_size=8))
def test_frames_read_back(written: list[bytes]) -> None:
    """Whatever was framed comes back byte for byte and in order, at the offset where it stands, without damage."""
    frames = [frame(payload) for payload in written]
    found = scan(b"".join(frames))
    assert _payloads(found) == written
    assert [offset for offset, _ in found.records] == [len(b"".join(frames[:at])) for at in range(len(frames))]
    assert list(found.ends) == [len(b"".join(frames[: at + 1])) for at in range(len(frames))]
    assert (found.damage, found.torn_at) == ((), None)


@given(TRICKY)
def test_a_frame_begins_once(payload: bytes) -> None:
    """The bytes that begin a frame stand nowhere inside it, whatever the payload is."""
    framed = frame(payload)
    assert framed.startswith(START)
    assert framed.count(START) == 1


@given(st.lists(TRICKY, min_size=1, max_size=5), st.data())
def test_torn_tail(written: list[bytes], data: st.DataObject) -> None:
    """Cut anywhere, every whole record before the cut comes back, and the tail begins behind the last of them."""
    frames = [frame(payload) for payload in written]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [len(b"".join(frames[: at + 1])) for at in range(len(frames))]
    kept = sum(end <= cut for end in ends)
    found = scan(whole[:cut])
    assert _payloads(found) == written[:kept]
    end = ends[kept - 1] if kept else 0
    assert found.torn_at == (end if end < cut else None)
    assert found.damage == ()


@given(st.lists(TRICKY, min_size=1, max_size=5), st.data())
def test_flipped_byte(written: list[bytes], data: st.DataObject) -> None:
    """One changed byte costs the record that it is in, and no other; nothing that was not written comes back."""
    frames = [frame(payload) for payload in written]
    whole = bytearray(b"".join(frames))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    hit = next(index for index in range(len(frames)) if at < len(b"".join(frames[: index + 1])))
    found = scan(bytes(whole))
    assert _payloads(found) == [*written[:hit], *written[hit + 1 :]]
    begin = len(b"".join(frames[:hit]))
    if hit == len(frames) - 1:
        assert (found.torn_at, found.damage) == (begin, ())
    else:
        assert (found.torn_at, found.damage) == (None, ((begin, begin + len(frames[hit])),))


@pytest.mark.fuzz
@given(st.lists(TRICKY, min_size=1, max_size=6), st.binary(min_size=1, max_size=60), st.data())
def test_overwritten_span(written: list[bytes], junk: bytes, data: st.DataObject) -> None:
    """Whatever span is overwritten with whatever bytes, exactly the records whose bytes are as written come back."""
    frames = [frame(payload) for payload in written]
    whole = b"".join(frames)
    begin = data.draw(st.integers(0, len(whole) - 1))
    junk = junk[: len(whole) - begin]
    damaged = whole[:begin] + junk + whole[begin + len(junk) :]
    ends = [len(b"".join(frames[: at + 1])) for at in range(len(frames))]
    untouched = [
        payload
        for payload, framed, end in zip(written, frames, ends, strict=True)
        if damaged[end - len(framed) : end] == framed
    ]
    assert _payloads(scan(damaged)) == untouched


@pytest.mark.fuzz
@given(st.binary(max_size=300))
@example(START)
@example(START + b"00000000" + b"00000000")
@example(START + b"-0000001" + b"00000000")
@example(START + b" 0000000" + b"00000000")
@example(START * 50)
def test_any_bytes_scan(garbage: bytes) -> None:
    """Any bytes are a scan; what is no record is all accounted for as damage or tail."""
    found = scan(garbage)
    covered = sum(end - begin for begin, end in found.damage) + sum(len(frame(payload)) for payload in _payloads(found))
    assert covered == (len(garbage) if found.torn_at is None else found.torn_at)
    whole = sum(len(frame(payload)) for payload in _payloads(found))
    assert len(found.damaged(garbage)) == len(garbage) - whole


def test_a_forged_frame_in_a_damaged_record_is_not_a_record() -> None:
    """A label value that holds a whole frame is not read as a record when the header before it is damaged."""
    forged = frame(b"somebody else's")
    data = bytearray(frame(forged) + frame(b"next"))
    data[3] ^= 1
    assert _payloads(scan(bytes(data))) == [b"next"]


def test_trailing_zeros_are_a_tail() -> None:
    """A file that a crash left longer than its data (zeros behind it) is torn at its last record."""
    assert scan(frame(b"a") + bytes(4096)).torn_at == len(frame(b"a"))
