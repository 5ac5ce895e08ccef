import pytest

from ownership.document import INT64_MAX, LAST_MS, parse_document
from ownership.errors import DocumentError
from tests.ownership.trees import (
    as_bytes,
    device,
    document,
    interval,
    owner,
    with_interval,
    with_intervals,
    without,
)

REFUSED: list[tuple[str, object, str]] = [
    ("not an object", [], "the document: must be an object"),
    ("version 2", document(version=2), "version: must be at most 1"),
    ("version as text", document(version="1"), "version: must be an integer"),
    ("no node", without("node", document()), "node: is missing"),
    ("empty node", document(node=""), "node: must not be empty"),
    ("fraction", document(revision=17.0), "revision: must be an integer"),
    ("truth as a number", document(revision=True), "revision: must be an integer"),
    ("negative revision", document(revision=-1), "revision: must be at least 0"),
    ("huge revision", document(revision=10**30), f"revision: must be at most {INT64_MAX}"),
    ("since above revision", document(since=18), "since: must not be above revision"),
    ("observed backwards", document(observed_until=99), "observed_until: must not be before observed_from"),
    ("time too late", document(observed_until=LAST_MS + 1), f"observed_until: must be at most {LAST_MS}"),
    ("no list of devices", document(devices={"0": device()}), "devices: must be a list"),
    ("device as text", document(devices=["GPU-1"]), "devices[0]: must be an object"),
    ("no uuid", document(devices=[without("uuid", device())]), "devices[0].uuid: is missing"),
    (
        "uuid of an instance",
        document(devices=[device(uuid="MIG-1")]),
        "devices[0].uuid: must be the UUID of a card, which starts with GPU-",
    ),
    (
        "unknown sharing",
        document(devices=[device(), device(uuid="GPU-2", sharing="borrowed")]),
        "devices[1].sharing: must be 'exclusive', 'mig', 'time-slicing', 'mps' or 'dra-shared'",
    ),
    ("sharing as a number", document(devices=[device(sharing=1)]), "devices[0].sharing: must be"),
    ("no replicas", document(devices=[device(replicas=0)]), "devices[0].replicas: must be at least 1"),
    (
        "instance as a truth",
        document(devices=[device(gpu_instance_id=True)]),
        "devices[0].gpu_instance_id: must be a string",
    ),
    (
        "instance below zero",
        document(devices=[device(gpu_instance_id=-1)]),
        "devices[0].gpu_instance_id: must be a string",
    ),
    (
        "instance of no name",
        document(devices=[device(gpu_instance_id="")]),
        "devices[0].gpu_instance_id: must not be empty",
    ),
    ("the same card twice", document(devices=[device(), device()]), "devices[1]: is the same device as devices[0]"),
    (
        "the same instance twice, as number and text",
        document(devices=[device(gpu_instance_id=9), device(), device(gpu_instance_id="9")]),
        "devices[2]: is the same device as devices[0]",
    ),
    (
        "two instances of one number at one time",
        document(
            devices=[
                device(gpu_instance_id=9, mig_uuid="MIG-1", intervals=[interval(to=None)]),
                device(gpu_instance_id=9, mig_uuid="MIG-2", intervals=[interval(**{"from": 500, "to": 600})]),
            ]
        ),
        "devices[1].intervals: overlap those of another instance with this gpu_instance_id",
    ),
    ("interval as null", document(devices=[device(intervals=[None])]), "devices[0].intervals[0]: must be an object"),
    (
        "end not said",
        document(devices=[device(intervals=[without("to", interval())])]),
        "devices[0].intervals[0].to: is missing",
    ),
    ("from not known", with_interval(**{"from": None}), "devices[0].intervals[0].from: must be an integer"),
    ("negative time", with_interval(**{"from": -1}), "devices[0].intervals[0].from: must be at least 0"),
    ("empty interval", with_interval(to=100), "devices[0].intervals[0].to: must be after from"),
    ("backwards", with_interval(to=99), "devices[0].intervals[0].to: must be after from"),
    (
        "overlap",
        with_intervals((0, 9), (8, 12)),
        "devices[0].intervals[1].from: must not be before the end of the interval before it",
    ),
    (
        "not in order",
        with_intervals((10, 12), (0, 9)),
        "devices[0].intervals[1].from: must not be before the end of the interval before it",
    ),
    (
        "two open",
        with_intervals((0, 9), (9, None), (20, None)),
        "devices[0].intervals[2]: follows an open interval, and only the last one may be open",
    ),
    (
        "nobody's bytes without a reason",
        with_interval(unattributed_bytes=1),
        "devices[0].intervals[0].unattributed_reason: is missing, with unattributed_bytes above 0",
    ),
    (
        "unknown reason",
        with_interval(unattributed_reason="idle"),
        "devices[0].intervals[0].unattributed_reason: must be 'host', 'foreign_container', 'unknown_pod' or",
    ),
    (
        "namespace as a number",
        with_interval(owners=[owner(), owner(namespace=5)]),
        "devices[0].intervals[0].owners[1].namespace: must be a string",
    ),
    ("no namespace, as text", with_interval(owners=[owner(namespace="")]), "devices[0].intervals[0].owners[0]."),
    (
        "negative memory",
        with_interval(owners=[owner(memory_bytes=-1)]),
        "devices[0].intervals[0].owners[0].memory_bytes: must be at least 0",
    ),
    (
        "finding without a code",
        with_interval(findings=[{"detail": "x"}]),
        "devices[0].intervals[0].findings[0].code: is missing",
    ),
]


@pytest.mark.parametrize(("document", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_refused(document: object, sentence: str) -> None:
    """A document that breaks a rule is refused with one sentence that begins with the path of what is wrong."""
    with pytest.raises(DocumentError) as refusal:
        parse_document(as_bytes(document))
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param(b"", "the document: is not JSON", id="nothing"),
        pytest.param(b"\xef\xbb\xbf" + as_bytes(document()), "the document: is not JSON", id="byte order mark"),
        pytest.param(as_bytes(document()) + b"{}", "the document: is not JSON", id="two documents"),
        pytest.param(as_bytes(document())[:-1], "the document: is not JSON", id="cut"),
        pytest.param(as_bytes(document()).decode().encode("utf-16"), "the document: is not JSON", id="UTF-16"),
        pytest.param(
            as_bytes(document(later=0)).replace(b": 0}", b": " + b"[" * 100_000), "the document: is not JSON", id="deep"
        ),
        pytest.param(
            as_bytes(document(later=0)).replace(b": 0}", b': {"a"' * 100_000),
            "the document: is not JSON",
            id="deep keys",
        ),
        pytest.param(
            as_bytes(document()).replace(b"17", b"9" * 100_000), "the document: is not JSON", id="endless number"
        ),
        pytest.param(as_bytes(document()).replace(b"17", b"NaN"), "revision: must be an integer", id="NaN"),
        pytest.param(as_bytes(document()).replace(b"17", b"-Infinity"), "revision: must be an integer", id="infinity"),
        pytest.param(as_bytes(document()).replace(b"17", b"1e400"), "revision: must be an integer", id="overflow"),
        pytest.param(
            as_bytes(document(node="\ud800")), "the document: is not JSON", id="half a surrogate pair as an escape"
        ),
        pytest.param(
            as_bytes(document()).replace(b"gpu-node-a", b"\xed\xa0\x80"), "the document: is not JSON", id="and as bytes"
        ),
        pytest.param(as_bytes(document()).replace(b"gpu-node-a", b"\xff"), "the document: is not JSON", id="not UTF-8"),
    ],
)
def test_no_json(raw: bytes, sentence: str) -> None:
    """Bytes that are not JSON, or more than JSON, are refused as such."""
    with pytest.raises(DocumentError) as refusal:
        parse_document(raw)
    assert str(refusal.value).startswith(sentence)
