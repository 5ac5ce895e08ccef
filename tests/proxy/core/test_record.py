import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core import codec
from proxy.core.frames import RecordError
from proxy.core.record import MAX_ENTRIES_BYTES, QuarantineRecord, QueueRecord, queued_size

RECORDS = st.builds(
    QuarantineRecord,
    received_ms=st.integers(-(2**63), 2**63 - 1),
    sender=st.text(),
    trust=st.text(),
    reason=st.text(),
    sample_ms=st.integers(-(2**63), 2**63 - 1),
    samples=st.integers(0, 2**32 - 1),
    entry=st.binary(),
)


@given(RECORDS)
def test_record_round_trip(record: QuarantineRecord) -> None:
    """A record reads back equal."""
    assert QuarantineRecord.decode(record.encode()) == record


@pytest.mark.fuzz
@given(
    st.one_of(st.binary(max_size=80), st.builds(lambda record, cut: record.encode()[:cut], RECORDS, st.integers(0, 60)))
)
def test_any_payload_is_a_record_or_our_error(payload: bytes) -> None:
    """Bytes that decode encode to the same bytes again; all others raise our error."""
    try:
        record = QuarantineRecord.decode(payload)
    except RecordError:
        return
    assert record.encode() == payload


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        QuarantineRecord(1, "s", "t", "r", 2, 3, b"e").encode()[:20],
        b"\x02" + QuarantineRecord(1, "s", "t", "r", 2, 3, b"e").encode()[1:],
        QuarantineRecord(1, "s", "t", "r", 2, 3, b"").encode()[:-1],
        QuarantineRecord(1, "s", "t", "r", 2, 3, b"").encode()[:-1] + b"\xff",
    ],
    ids=["empty", "short", "later version", "short text", "not UTF-8"],
)
def test_bad_payloads(payload: bytes) -> None:
    """What this version does not write is refused with our error."""
    with pytest.raises(RecordError):
        QuarantineRecord.decode(payload)


@pytest.mark.parametrize(("received_ms", "samples"), [(2**63, 1), (0, 2**32), (0, -1)])
def test_numbers_beyond_their_range(received_ms: int, samples: int) -> None:
    """A number that does not fit is our error, never a record that says something else."""
    with pytest.raises(RecordError):
        QuarantineRecord(received_ms, "s", "t", "r", 0, samples, b"").encode()


QUEUED = st.builds(
    QueueRecord,
    received_ms=st.integers(-(2**63), 2**63 - 1),
    pair=st.tuples(st.text(), st.text()),
    samples=st.integers(0, 2**32 - 1),
    made=st.integers(0, 2**32 - 1),
    exemplars=st.integers(0, 2**32 - 1),
    entries=st.binary(),
    attempted=st.booleans(),
    replay=st.booleans(),
    version=st.sampled_from(["1.0", "2.0", ""]),
)


@given(QUEUED)
def test_queued_round_trip(record: QueueRecord) -> None:
    """A record of a queue reads back equal, and tells its sums without being unpacked."""
    payload = record.encode()
    assert QueueRecord.decode(payload) == record
    assert queued_size(payload) == (record.received_ms, record.samples)


@pytest.mark.fuzz
@given(
    st.one_of(st.binary(max_size=80), st.builds(lambda record, cut: record.encode()[:cut], QUEUED, st.integers(0, 80)))
)
@example(b"")
@example(b"\x01\x00" + bytes(32))
def test_any_payload_is_queued_or_our_error(payload: bytes) -> None:
    """Any bytes are a record of a queue, or raise our error."""
    try:
        record = QueueRecord.decode(payload)
    except RecordError:
        return
    assert QueueRecord.decode(record.encode()) == record
    assert queued_size(payload) == (record.received_ms, record.samples)


ONE = QueueRecord(1, ("c", "r"), 2, 3, 4, b"entries")
_HEAD = ONE.encode()[: -len(codec.encode(b"entries"))]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        ONE.encode()[:21],
        ONE.encode()[:24],
        b"\x02" + ONE.encode()[1:],
        b"\x01\x04" + ONE.encode()[2:],
        _HEAD,
        _HEAD + b"\x07",
        _HEAD + codec.encode(b"entries")[:-1],
        _HEAD + b"\xff\xff\xff\xff\x0f" + bytes(100),
        _HEAD + b"\x81\x80\x80\x20" + bytes(100),
        ONE.encode()[:22] + b"\xff" * 4 + ONE.encode()[26:],
    ],
    ids=[
        "empty",
        "short",
        "short text",
        "later version",
        "unknown flag",
        "no entries",
        "empty block",
        "short block",
        "bomb of 4 GiB",
        "one byte beyond 64 MiB",
        "long text",
    ],
)
def test_bad_queued_payloads(payload: bytes) -> None:
    """What this version does not write is refused with our error, before anything large is allocated."""
    with pytest.raises(RecordError):
        QueueRecord.decode(payload)


def test_entries_that_are_too_large() -> None:
    """Entries of 64 MiB are a record, a byte more is our error."""
    most = QueueRecord(0, ("", ""), 1, 0, 0, bytes(MAX_ENTRIES_BYTES))
    assert QueueRecord.decode(most.encode()) == most
    with pytest.raises(RecordError):
        QueueRecord(0, ("", ""), 1, 0, 0, bytes(MAX_ENTRIES_BYTES + 1)).encode()


@pytest.mark.parametrize(
    ("received_ms", "samples", "made", "exemplars"),
    [(2**63, 1, 0, 0), (0, 2**32, 0, 0), (0, -1, 0, 0), (0, 0, -1, 0), (0, 0, 0, 2**32)],
)
def test_queued_numbers_beyond_their_range(received_ms: int, samples: int, made: int, exemplars: int) -> None:
    """A number that does not fit is our error."""
    with pytest.raises(RecordError):
        QueueRecord(received_ms, ("", ""), samples, made, exemplars, b"").encode()


def test_records_in_several_threads() -> None:
    """Threads that write and read records at once, beside the event loop's own blocks, do not mix their bytes."""

    def written(number: int) -> bool:
        record = QueueRecord(0, ("", ""), 1, 0, 0, random.Random(number).randbytes(50_000) * 4)
        message = bytes([number]) * 300_000
        return all(
            QueueRecord.decode(record.encode()) == record
            and (number or codec.decode(codec.encode(message), 1 << 20) == message)
            for _ in range(50)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(written, range(4)))


def test_what_may_go_together() -> None:
    """One request is of one pair, one origin and one protocol version, and holds nothing that was attempted before."""
    first = QueueRecord(0, ("c", "r"), 1, 0, 0, b"")
    assert QueueRecord(9, ("c", "r"), 5, 4, 3, b"x").may_follow(first)
    assert not QueueRecord(0, ("c", "other"), 1, 0, 0, b"").may_follow(first)
    assert not QueueRecord(0, ("c", "r"), 1, 0, 0, b"", replay=True).may_follow(first)
    assert not QueueRecord(0, ("c", "r"), 1, 0, 0, b"", version="2.0").may_follow(first)
    assert not QueueRecord(0, ("c", "r"), 1, 0, 0, b"", attempted=True).may_follow(first)
    assert not first.may_follow(QueueRecord(0, ("c", "r"), 1, 0, 0, b"", attempted=True))
