import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownership.document import (
    COUNT_MAX,
    DETAIL_CHARS,
    DEVICES,
    DOCUMENT_BYTES,
    INT64_MAX,
    INTERVALS,
    LAST_MS,
    NAME_CHARS,
    OWNERS,
    Device,
    Interval,
    NodeDocument,
    Owner,
    Sharing,
    Unattributed,
    parse_document,
    to_json,
)
from ownership.errors import DocumentError
from tests.ownership.strategies import documents

Json = dict[str, Any]


def _owner(**fields: object) -> Json:
    return {"pod_uid": "3d0c", "namespace": "team-ml", "pod": "vllm-0", "container": "server"} | fields


def _interval(**fields: object) -> Json:
    return {"from": 100, "to": 200, "owners": [_owner()]} | fields


def _device(**fields: object) -> Json:
    device: Json = {"uuid": "GPU-1", "index": 0, "model": "H100", "memory_total_bytes": 80, "sharing": "exclusive"}
    return device | {"intervals": [_interval()]} | fields


def _document(**fields: object) -> Json:
    document: Json = {"version": 1, "revision": 17, "node": "gpu-node-a", "observed_from": 100, "observed_until": 300}
    return document | {"devices": [_device()]} | fields


def _with_interval(**fields: object) -> Json:
    return _document(devices=[_device(intervals=[_interval(**fields)])])


def _with_intervals(*spans: tuple[int, int | None]) -> Json:
    return _document(devices=[_device(intervals=[{"from": start, "to": end, "owners": []} for start, end in spans])])


def _without(name: str, thing: Json) -> Json:
    return {key: value for key, value in thing.items() if key != name}


def _bytes(document: object) -> bytes:
    return json.dumps(document).encode()


def test_example_of_the_contract() -> None:
    """The document of the contract is read field by field, and numbers of instances become text."""
    raw = b"""
    {"version": 1, "revision": 17, "node": "gpu-node-a", "observed_from": 1767225000000,
     "observed_until": 1767225600000, "devices": [
      {"uuid": "GPU-5b0c", "index": 2, "model": "NVIDIA H100 80GB HBM3", "memory_total_bytes": 85520809984,
       "gpu_instance_id": 9, "mig_uuid": "MIG-1", "mig_profile": "1g.10gb", "replicas": 4, "sharing": "time-slicing",
       "intervals": [
        {"from": 1767225000000, "to": null,
         "owners": [
          {"pod_uid": "3d0c", "namespace": "team-ml", "pod": "vllm-0", "container": "server",
           "controller_kind": "StatefulSet", "controller_name": "vllm", "slots": 2, "memory_bytes": null}],
         "overhead_bytes": 20971520, "unattributed_bytes": 7, "unattributed_reason": "host", "findings": []}]}]}"""
    owner = Owner(
        pod_uid="3d0c",
        namespace="team-ml",
        pod="vllm-0",
        container="server",
        controller_kind="StatefulSet",
        controller_name="vllm",
        slots=2,
        memory_bytes=None,
    )
    device = Device(
        uuid="GPU-5b0c",
        index=2,
        model="NVIDIA H100 80GB HBM3",
        memory_total_bytes=85520809984,
        gpu_instance_id="9",
        mig_uuid="MIG-1",
        mig_profile="1g.10gb",
        replicas=4,
        sharing=Sharing.TIME_SLICING,
        intervals=(Interval(1767225000000, None, (owner,), 20971520, 7, Unattributed.HOST, ()),),
    )
    assert parse_document(raw) == NodeDocument(1, 17, "gpu-node-a", 1767225000000, 1767225600000, (device,), None)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(_document(devices=[]), id="no device"),
        pytest.param(_document(since=17), id="partial"),
        pytest.param(_document(since=None), id="whole, said"),
        pytest.param(_document(observed_until=100), id="observed once"),
        pytest.param(_document(later={"a": [1.5, "\ud83d\ude00"]}), id="unknown key of the document"),
        pytest.param(_with_interval(later=1), id="unknown key of an interval"),
        pytest.param(_with_interval(owners=[_owner(later=1)]), id="unknown key of an owner"),
        pytest.param(_with_interval(owners=[{}]), id="an owner of whom nothing is known yet"),
        pytest.param(_with_interval(findings=[{"code": "a_new_one", "pod_uid": None, "detail": "x"}]), id="finding"),
        pytest.param(_with_interval(**{"from": 50, "to": 400}), id="interval beyond what was observed"),
        pytest.param(_with_intervals((0, 5), (5, 9), (12, None)), id="touching, gap, open"),
        pytest.param(
            _document(
                devices=[
                    _device(gpu_instance_id=9, mig_uuid="MIG-2", intervals=[_interval(**{"from": 200, "to": None})]),
                    _device(gpu_instance_id="9", mig_uuid="MIG-1"),
                ]
            ),
            id="instance re-created under its number",
        ),
    ],
)
def test_accepted(document: Json) -> None:
    """What the contract allows is read, and keys that it does not know are passed over."""
    assert parse_document(_bytes(document)).node == "gpu-node-a"


REFUSED: list[tuple[str, object, str]] = [
    ("not an object", [], "the document: must be an object"),
    ("version 2", _document(version=2), "version: must be at most 1"),
    ("version as text", _document(version="1"), "version: must be an integer"),
    ("no node", _without("node", _document()), "node: is missing"),
    ("empty node", _document(node=""), "node: must not be empty"),
    ("fraction", _document(revision=17.0), "revision: must be an integer"),
    ("truth as a number", _document(revision=True), "revision: must be an integer"),
    ("negative revision", _document(revision=-1), "revision: must be at least 0"),
    ("huge revision", _document(revision=10**30), f"revision: must be at most {INT64_MAX}"),
    ("since above revision", _document(since=18), "since: must not be above revision"),
    ("observed backwards", _document(observed_until=99), "observed_until: must not be before observed_from"),
    ("time too late", _document(observed_until=LAST_MS + 1), f"observed_until: must be at most {LAST_MS}"),
    ("no list of devices", _document(devices={"0": _device()}), "devices: must be a list"),
    ("device as text", _document(devices=["GPU-1"]), "devices[0]: must be an object"),
    ("no uuid", _document(devices=[_without("uuid", _device())]), "devices[0].uuid: is missing"),
    (
        "uuid of an instance",
        _document(devices=[_device(uuid="MIG-1")]),
        "devices[0].uuid: must be the UUID of a card, which starts with GPU-",
    ),
    (
        "unknown sharing",
        _document(devices=[_device(), _device(uuid="GPU-2", sharing="borrowed")]),
        "devices[1].sharing: must be 'exclusive', 'mig', 'time-slicing', 'mps' or 'dra-shared'",
    ),
    ("sharing as a number", _document(devices=[_device(sharing=1)]), "devices[0].sharing: must be"),
    ("no replicas", _document(devices=[_device(replicas=0)]), "devices[0].replicas: must be at least 1"),
    (
        "instance as a truth",
        _document(devices=[_device(gpu_instance_id=True)]),
        "devices[0].gpu_instance_id: must be a string",
    ),
    (
        "instance below zero",
        _document(devices=[_device(gpu_instance_id=-1)]),
        "devices[0].gpu_instance_id: must be a string",
    ),
    (
        "instance of no name",
        _document(devices=[_device(gpu_instance_id="")]),
        "devices[0].gpu_instance_id: must not be empty",
    ),
    ("the same card twice", _document(devices=[_device(), _device()]), "devices[1]: is the same device as devices[0]"),
    (
        "the same instance twice, as number and text",
        _document(devices=[_device(gpu_instance_id=9), _device(), _device(gpu_instance_id="9")]),
        "devices[2]: is the same device as devices[0]",
    ),
    (
        "two instances of one number at one time",
        _document(
            devices=[
                _device(gpu_instance_id=9, mig_uuid="MIG-1", intervals=[_interval(to=None)]),
                _device(gpu_instance_id=9, mig_uuid="MIG-2", intervals=[_interval(**{"from": 500, "to": 600})]),
            ]
        ),
        "devices[1].intervals: overlap those of another instance with this gpu_instance_id",
    ),
    ("interval as null", _document(devices=[_device(intervals=[None])]), "devices[0].intervals[0]: must be an object"),
    (
        "end not said",
        _document(devices=[_device(intervals=[_without("to", _interval())])]),
        "devices[0].intervals[0].to: is missing",
    ),
    ("from not known", _with_interval(**{"from": None}), "devices[0].intervals[0].from: must be an integer"),
    ("negative time", _with_interval(**{"from": -1}), "devices[0].intervals[0].from: must be at least 0"),
    ("empty interval", _with_interval(to=100), "devices[0].intervals[0].to: must be after from"),
    ("backwards", _with_interval(to=99), "devices[0].intervals[0].to: must be after from"),
    (
        "overlap",
        _with_intervals((0, 9), (8, 12)),
        "devices[0].intervals[1].from: must not be before the end of the interval before it",
    ),
    (
        "not in order",
        _with_intervals((10, 12), (0, 9)),
        "devices[0].intervals[1].from: must not be before the end of the interval before it",
    ),
    (
        "two open",
        _with_intervals((0, 9), (9, None), (20, None)),
        "devices[0].intervals[2]: follows an open interval, and only the last one may be open",
    ),
    (
        "nobody's bytes without a reason",
        _with_interval(unattributed_bytes=1),
        "devices[0].intervals[0].unattributed_reason: is missing, with unattributed_bytes above 0",
    ),
    (
        "unknown reason",
        _with_interval(unattributed_reason="idle"),
        "devices[0].intervals[0].unattributed_reason: must be 'host', 'foreign_container', 'unknown_pod' or",
    ),
    (
        "namespace as a number",
        _with_interval(owners=[_owner(), _owner(namespace=5)]),
        "devices[0].intervals[0].owners[1].namespace: must be a string",
    ),
    ("no namespace, as text", _with_interval(owners=[_owner(namespace="")]), "devices[0].intervals[0].owners[0]."),
    (
        "negative memory",
        _with_interval(owners=[_owner(memory_bytes=-1)]),
        "devices[0].intervals[0].owners[0].memory_bytes: must be at least 0",
    ),
    (
        "finding without a code",
        _with_interval(findings=[{"detail": "x"}]),
        "devices[0].intervals[0].findings[0].code: is missing",
    ),
]


@pytest.mark.parametrize(("document", "sentence"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_refused(document: object, sentence: str) -> None:
    """A document that breaks a rule is refused with one sentence that begins with the path of what is wrong."""
    with pytest.raises(DocumentError) as refusal:
        parse_document(_bytes(document))
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param(b"", "the document: is not JSON", id="nothing"),
        pytest.param(b"\xef\xbb\xbf" + _bytes(_document()), "the document: is not JSON", id="byte order mark"),
        pytest.param(_bytes(_document()) + b"{}", "the document: is not JSON", id="two documents"),
        pytest.param(_bytes(_document())[:-1], "the document: is not JSON", id="cut"),
        pytest.param(_bytes(_document()).decode().encode("utf-16"), "the document: is not JSON", id="UTF-16"),
        pytest.param(
            _bytes(_document(later=0)).replace(b": 0}", b": " + b"[" * 100_000), "the document: is not JSON", id="deep"
        ),
        pytest.param(
            _bytes(_document(later=0)).replace(b": 0}", b': {"a"' * 100_000),
            "the document: is not JSON",
            id="deep keys",
        ),
        pytest.param(
            _bytes(_document()).replace(b"17", b"9" * 100_000), "the document: is not JSON", id="endless number"
        ),
        pytest.param(_bytes(_document()).replace(b"17", b"NaN"), "revision: must be an integer", id="NaN"),
        pytest.param(_bytes(_document()).replace(b"17", b"-Infinity"), "revision: must be an integer", id="infinity"),
        pytest.param(_bytes(_document()).replace(b"17", b"1e400"), "revision: must be an integer", id="overflow"),
        pytest.param(
            _bytes(_document(node="\ud800")), "the document: is not JSON", id="half a surrogate pair as an escape"
        ),
        pytest.param(
            _bytes(_document()).replace(b"gpu-node-a", b"\xed\xa0\x80"), "the document: is not JSON", id="and as bytes"
        ),
        pytest.param(_bytes(_document()).replace(b"gpu-node-a", b"\xff"), "the document: is not JSON", id="not UTF-8"),
    ],
)
def test_no_json(raw: bytes, sentence: str) -> None:
    """Bytes that are not JSON, or more than JSON, are refused as such."""
    with pytest.raises(DocumentError) as refusal:
        parse_document(raw)
    assert str(refusal.value).startswith(sentence)


def _text(length: int) -> str:
    return "n" * length


LIMITS: list[tuple[str, int, Callable[[int], Json]]] = [
    ("devices", DEVICES, lambda n: _document(devices=[_device(uuid=f"GPU-{i}", intervals=[]) for i in range(n)])),
    ("intervals", INTERVALS, lambda n: _with_intervals(*((i, i + 1) for i in range(n)))),
    ("owners", OWNERS, lambda n: _with_interval(owners=[{}] * n)),
    ("findings", OWNERS, lambda n: _with_interval(findings=[{"code": "x"}] * n)),
    ("characters of a name", NAME_CHARS, lambda n: _document(devices=[_device(model=_text(n))])),
    ("characters of a detail", DETAIL_CHARS, lambda n: _with_interval(findings=[{"code": "x", "detail": _text(n)}])),
    ("index", COUNT_MAX, lambda n: _document(devices=[_device(index=n)])),
    ("bytes", INT64_MAX, lambda n: _document(devices=[_device(memory_total_bytes=n)])),
    ("time", LAST_MS, lambda n: _with_interval(to=n)),
]


@pytest.mark.parametrize(("limit", "made"), [pytest.param(*row[1:], id=row[0]) for row in LIMITS])
def test_limits(limit: int, made: Callable[[int], Json]) -> None:
    """Each limit lets as much through as it says, and nothing more."""
    parse_document(_bytes(made(limit)))
    with pytest.raises(DocumentError, match=f"must (be|have) at most {limit}"):
        parse_document(_bytes(made(limit + 1)))


def test_limit_of_bytes() -> None:
    """A document may be as long as its limit, and one byte more is refused before it is parsed."""
    raw = _bytes(_document())
    assert parse_document(raw.ljust(DOCUMENT_BYTES)) == parse_document(raw)
    with pytest.raises(DocumentError, match=f"the document: must have at most {DOCUMENT_BYTES} bytes"):
        parse_document(raw.ljust(DOCUMENT_BYTES + 1))


@given(documents())
def test_round_trip(document: NodeDocument) -> None:
    """What is written as JSON is read as the same document."""
    assert parse_document(to_json(document)) == document


def test_whole_documents_do_not_say_since() -> None:
    """A whole document is told by the absence of `since`, so it is not written at all."""
    whole = parse_document(_bytes(_document()))
    assert "since" not in json.loads(to_json(whole))
    assert json.loads(to_json(parse_document(_bytes(_document(since=3)))))["since"] == 3


def test_text_that_is_no_text_is_not_written() -> None:
    """A document with half a surrogate pair in a name, which JSON cannot bear, is refused with our own error."""
    with pytest.raises(DocumentError):
        to_json(NodeDocument(1, 1, "\ud800", 0, 1, ()))


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    """Any bytes give a document or DocumentError."""
    _parses_or_is_refused(raw)


@pytest.mark.fuzz
@given(st.data())
def test_damaged_documents(data: st.DataObject) -> None:
    """A valid document with bytes exchanged, taken away or put in gives a document or DocumentError."""
    raw = bytearray(to_json(data.draw(documents())))
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(raw)))
        raw[start : start + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"[", b'"', b"\\ud800", b"-", b"1e999", b"null", b"{}"])
        )
    _parses_or_is_refused(bytes(raw))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.fuzz
@given(st.data())
def test_wrong_types(data: st.DataObject) -> None:
    """A valid document in which any value is replaced by any other gives a document or DocumentError."""
    tree = json.loads(to_json(data.draw(documents())))
    spot = tree
    while True:
        steps = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        step = data.draw(st.sampled_from(steps))
        if not (isinstance(spot[step], dict | list) and spot[step]) or data.draw(st.booleans()):
            spot[step] = data.draw(json_values)
            break
        spot = spot[step]
    _parses_or_is_refused(_bytes(tree))


def _parses_or_is_refused(raw: bytes) -> None:
    try:
        document = parse_document(raw)
    except DocumentError as error:
        said = str(error)
    else:
        said = "taken"
        assert parse_document(to_json(document)) == document
    assert said
    assert "\n" not in said
