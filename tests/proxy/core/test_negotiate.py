import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import (
    ContentEncodingError,
    ContentTypeError,
    MethodError,
    RequestError,
    UnsupportedVersionError,
)
from proxy.core.negotiate import HEADER_CHARACTERS, check_request

PLAIN = "application/x-protobuf"

GOOD_TYPES = [
    None,
    PLAIN,
    f"{PLAIN};proto=prometheus.WriteRequest",
    f"{PLAIN}; proto=prometheus.WriteRequest",
    f"{PLAIN} ;\tproto=prometheus.WriteRequest",
    f'{PLAIN};proto="prometheus.WriteRequest"',
    f'{PLAIN};proto="prometheus\\.WriteRequest"',
    f"{PLAIN};PROTO=prometheus.WriteRequest",
    "Application/X-Protobuf;proto=prometheus.WriteRequest",
    f"{PLAIN};charset=utf-8",
    f"{PLAIN};charset=utf-8;proto=prometheus.WriteRequest;q=1",
    f'{PLAIN};note="a;b=\\"c";proto=prometheus.WriteRequest',
    f"{PLAIN};",
    f"{PLAIN};;proto=prometheus.WriteRequest;",
    f" {PLAIN} ",
    f"{PLAIN};proto=prometheus.WriteRequest ",
]
BAD_TYPES = [
    "",
    "application/json",
    "image/png",
    "text/plain",
    "bpplication/x-protobuf",
    "application/x-protobuf2",
    "application/vnd.google.protobuf",
    "application",
    "x-protobuf",
    f"{PLAIN},{PLAIN}",
    f"{PLAIN} proto=prometheus.WriteRequest",
    f"{PLAIN};proto",
    f"{PLAIN};proto=",
    f"{PLAIN};proto = prometheus.WriteRequest",
    f'{PLAIN};proto="prometheus.WriteRequest',
    f"{PLAIN};proto=prometheus.WriteRequest junk",
    f"{PLAIN};proto=a/b",
    f"{PLAIN};proto=io.prometheus.write.v3.Request",
    f"{PLAIN};proto=prometheus.writerequest",
    f'{PLAIN};proto=""',
    f"{PLAIN};proto=prometheus.WriteRequest;proto=prometheus.WriteRequest",
    f"{PLAIN};proto=prometheus.WriteRequest;proto=io.prometheus.write.v2.Request",
    f"{PLAIN};x={'y' * HEADER_CHARACTERS}",
    f"{PLAIN};prot\u00f6=x",
    "\u00e4/\u00f6",
]
TYPES_OF_2 = [
    f"{PLAIN};proto=io.prometheus.write.v2.Request",
    f'{PLAIN} ; Proto="io.prometheus.write.v2.Request"',
    f"{PLAIN};a=b;proto=io.prometheus.write.v2.Request;c=d",
]


@pytest.mark.parametrize("content_type", GOOD_TYPES)
def test_taken(content_type: str | None) -> None:
    """Remote write 1.0 is taken however RFC 9110 lets its type be written; no type means 1.0."""
    check_request("POST", content_type, "snappy")


@pytest.mark.parametrize("content_type", BAD_TYPES)
def test_other_types(content_type: str) -> None:
    """Any other type, parameter or message is 415, and never taken for 1.0."""
    with pytest.raises(ContentTypeError) as caught:
        check_request("POST", content_type, "snappy")
    assert caught.value.status == 415
    assert len(caught.value.sentence) < 300


@pytest.mark.parametrize("content_type", TYPES_OF_2)
def test_version_2(content_type: str) -> None:
    """Remote write 2.0 is 415 with the setting to change, and never parsed as 1.0."""
    with pytest.raises(UnsupportedVersionError, match=r"protobuf_message: prometheus\.WriteRequest") as caught:
        check_request("POST", content_type, "snappy")
    assert caught.value.status == 415


@pytest.mark.parametrize("encoding", [None, "snappy", "Snappy", " SNAPPY "])
def test_snappy(encoding: str | None) -> None:
    """Snappy is taken, in any case, and is what no encoding means."""
    check_request("POST", PLAIN, encoding)


@pytest.mark.parametrize(
    "encoding", ["", "gzip", "deflate", "zstd", "identity", "snappy, gzip", "snappy;q=1", "x" * 999]
)
def test_other_encodings(encoding: str) -> None:
    """Any other encoding is 415, with which new vmagents go over to snappy."""
    with pytest.raises(ContentEncodingError) as caught:
        check_request("POST", PLAIN, encoding)
    assert caught.value.status == 415
    assert len(caught.value.sentence) < 200


@pytest.mark.parametrize("method", ["GET", "PUT", "post", "HEAD", "", "X" * 5000])
def test_methods(method: str) -> None:
    """Anything but POST is 405, whatever else is wrong."""
    with pytest.raises(MethodError) as caught:
        check_request(method, "image/png", "gzip")
    assert caught.value.status == 405
    assert len(caught.value.sentence) < 200


def test_type_goes_before_encoding() -> None:
    """Where both are wrong the type is named."""
    with pytest.raises(ContentTypeError):
        check_request("POST", "image/png", "gzip")


HEADERS = st.none() | st.text(max_size=60) | st.text('a/;=" \\\t,', max_size=40).map(lambda text: PLAIN + text)


@pytest.mark.fuzz
@given(content_type=HEADERS, encoding=HEADERS)
def test_only_our_errors(content_type: str | None, encoding: str | None) -> None:
    """Whatever text the headers hold, the request is taken or refused with an error of ours, in one short line."""
    try:
        check_request("POST", content_type, encoding)
    except RequestError as error:
        assert error.status == 415
        assert len(error.sentence) < 400
