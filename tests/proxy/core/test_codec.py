import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.codec import SCRATCH_BYTES, declared_size, decode, encode
from proxy.core.errors import CorruptSnappyError, DeclaredSizeError, RequestError
from tests.proxy.core.scene import Series, util, varint

LIMIT = 32 << 20
PLAIN = Series(util(), (1, 1.0)).to_bytes() * 20


def _packed(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@pytest.mark.parametrize("data", [PLAIN, b"", b"x", b"\x00" * 100_000, bytes(range(256)) * 300])
def test_decoded(data: bytes) -> None:
    """A snappy block is what was packed, up to the limit itself."""
    packed = _packed(data)
    assert declared_size(packed) == len(data)
    assert decode(packed, len(data)) == data
    if data:
        with pytest.raises(DeclaredSizeError):
            decode(packed, len(data) - 1)


def test_empty_message() -> None:
    """One zero byte is an empty message; no byte at all is no snappy block."""
    assert decode(b"\x00", 0) == b""
    with pytest.raises(CorruptSnappyError):
        decode(b"", LIMIT)


@pytest.fixture
def no_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test in which the decoder, which allocates what is declared, is called."""

    def _called(body: bytes, buffer: bytearray) -> None:
        pytest.fail(f"asked to decode {body!r}")

    monkeypatch.setattr("proxy.core.codec.cramjam.snappy.decompress_raw_into", _called)


@pytest.mark.usefixtures("no_decoder")
def test_declared_size_is_looked_at_first() -> None:
    """A body of 47 bytes that declares 2.7 GB is refused by what it declares, before anything is allocated."""
    body = (varint(2_700_000_000) + b"\x00" * 47)[:47]
    with pytest.raises(DeclaredSizeError, match="2700000000"):
        decode(body, LIMIT)


@pytest.mark.usefixtures("no_decoder")
@pytest.mark.parametrize("size", [1 << 20, LIMIT])
def test_declared_size_that_cannot_be(size: int) -> None:
    """Snappy packs 64 bytes into 3 at best: a body that cannot hold what it declares is refused before that."""
    with pytest.raises(CorruptSnappyError):
        decode(varint(size) + b"\xfe\x01\x00" * 40, LIMIT)


def test_best_possible_packing() -> None:
    """What snappy packs best, one byte repeated, is taken."""
    data = b"\x00" * (4 << 20)
    packed = _packed(data)
    assert len(packed) < len(data) / 20
    assert decode(packed, LIMIT) == data
    tight = varint(64 + 1) + b"\x00x" + b"\xfe\x01\x00"
    assert decode(tight, LIMIT) == b"x" * 65


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(bytes(cramjam.snappy.compress(PLAIN)), id="framing format"),
        pytest.param(b"\xff\x06\x00\x00sNaPpY", id="framing magic alone"),
        pytest.param(b"\x28\xb5\x2f\xfd" + b"\x00" * 40, id="zstd"),
        pytest.param(b"\x1f\x8b\x08\x00" + b"\x00" * 40, id="gzip"),
        pytest.param(PLAIN, id="not packed"),
        pytest.param(_packed(PLAIN)[:-1], id="truncated"),
        pytest.param(_packed(PLAIN) + b"\x00", id="trailing"),
        pytest.param(b"0" + _packed(PLAIN)[1:], id="wrong length"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="a size of more than 32 bits"),
        pytest.param(b"\x80\x80\x80\x80\x80\x00", id="a size of six bytes"),
        pytest.param(b"\x80", id="a size that is cut"),
        pytest.param(b"\x05\x01\x01", id="a copy before anything"),
        pytest.param(b"\x01", id="nothing after the size"),
    ],
)
def test_no_snappy_block(body: bytes) -> None:
    """What is no single snappy block is 400, with the format to use."""
    with pytest.raises((CorruptSnappyError, DeclaredSizeError)) as caught:
        decode(body, LIMIT)
    assert caught.value.status == 400
    assert "\n" not in caught.value.sentence


def test_nothing_of_another_request() -> None:
    """A buffer is filled anew for each request: what is decoded, or refused, has nothing of the one before."""
    long, short = b"secret" * 1000, b"x" * 10
    for _ in range(2):
        assert decode(encode(long), LIMIT) == long
        with pytest.raises(CorruptSnappyError):
            decode(varint(6000) + encode(short)[1:] * 40, LIMIT)
        assert decode(encode(short), LIMIT) == short


@pytest.mark.parametrize("size", [0, 1, SCRATCH_BYTES - 1, SCRATCH_BYTES, SCRATCH_BYTES + 1])
def test_encoded(size: int) -> None:
    """A message is encoded as one block, also one that is longer than the buffer that is kept."""
    message = bytes(size)
    assert decode(encode(message), size) == message


@pytest.mark.fuzz
@given(st.binary(max_size=200), st.integers(0, 1 << 20))
def test_only_our_errors(body: bytes, limit: int) -> None:
    """Any bytes are decoded within the limit, or refused with an error of ours."""
    try:
        assert len(decode(body, limit)) <= limit
    except RequestError as error:
        assert error.status == 400


@pytest.mark.fuzz
@given(st.binary(max_size=2000), st.data())
def test_damaged(data: bytes, draw: st.DataObject) -> None:
    """A block with one byte changed is decoded to as much as it declares, or refused."""
    packed = bytearray(_packed(data))
    at = draw.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= draw.draw(st.integers(1, 255))
    try:
        assert len(decode(bytes(packed), LIMIT)) == declared_size(bytes(packed))
    except RequestError as error:
        assert error.status == 400
