import json
from collections.abc import Callable

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
from tests.ownership.trees import (
    Json,
    as_bytes,
    device,
    document,
    interval,
    owner,
    with_interval,
    with_intervals,
)


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
        pytest.param(document(devices=[]), id="no device"),
        pytest.param(document(since=17), id="partial"),
        pytest.param(document(since=None), id="whole, said"),
        pytest.param(document(observed_until=100), id="observed once"),
        pytest.param(document(later={"a": [1.5, "\ud83d\ude00"]}), id="unknown key of the document"),
        pytest.param(with_interval(later=1), id="unknown key of an interval"),
        pytest.param(with_interval(owners=[owner(later=1)]), id="unknown key of an owner"),
        pytest.param(with_interval(owners=[{}]), id="an owner of whom nothing is known yet"),
        pytest.param(with_interval(findings=[{"code": "a_new_one", "pod_uid": None, "detail": "x"}]), id="finding"),
        pytest.param(with_interval(**{"from": 50, "to": 400}), id="interval beyond what was observed"),
        pytest.param(with_intervals((0, 5), (5, 9), (12, None)), id="touching, gap, open"),
        pytest.param(
            document(
                devices=[
                    device(gpu_instance_id=9, mig_uuid="MIG-2", intervals=[interval(**{"from": 200, "to": None})]),
                    device(gpu_instance_id="9", mig_uuid="MIG-1"),
                ]
            ),
            id="instance re-created under its number",
        ),
    ],
)
def test_accepted(document: Json) -> None:
    """What the contract allows is read, and keys that it does not know are passed over."""
    assert parse_document(as_bytes(document)).node == "gpu-node-a"


def _text(length: int) -> str:
    return "n" * length


LIMITS: list[tuple[str, int, Callable[[int], Json]]] = [
    ("devices", DEVICES, lambda n: document(devices=[device(uuid=f"GPU-{i}", intervals=[]) for i in range(n)])),
    ("intervals", INTERVALS, lambda n: with_intervals(*((i, i + 1) for i in range(n)))),
    ("owners", OWNERS, lambda n: with_interval(owners=[{}] * n)),
    ("findings", OWNERS, lambda n: with_interval(findings=[{"code": "x"}] * n)),
    ("characters of a name", NAME_CHARS, lambda n: document(devices=[device(model=_text(n))])),
    ("characters of a detail", DETAIL_CHARS, lambda n: with_interval(findings=[{"code": "x", "detail": _text(n)}])),
    ("index", COUNT_MAX, lambda n: document(devices=[device(index=n)])),
    ("bytes", INT64_MAX, lambda n: document(devices=[device(memory_total_bytes=n)])),
    ("time", LAST_MS, lambda n: with_interval(to=n)),
]


@pytest.mark.parametrize(("limit", "made"), [pytest.param(*row[1:], id=row[0]) for row in LIMITS])
def test_limits(limit: int, made: Callable[[int], Json]) -> None:
    """Each limit lets as much through as it says, and nothing more."""
    parse_document(as_bytes(made(limit)))
    with pytest.raises(DocumentError, match=f"must (be|have) at most {limit}"):
        parse_document(as_bytes(made(limit + 1)))


def test_limit_of_bytes() -> None:
    """A document may be as long as its limit, and one byte more is refused before it is parsed."""
    raw = as_bytes(document())
    assert parse_document(raw.ljust(DOCUMENT_BYTES)) == parse_document(raw)
    with pytest.raises(DocumentError, match=f"the document: must have at most {DOCUMENT_BYTES} bytes"):
        parse_document(raw.ljust(DOCUMENT_BYTES + 1))


@given(documents())
def test_round_trip(document: NodeDocument) -> None:
    """What is written as JSON is read as the same document."""
    assert parse_document(to_json(document)) == document


def test_whole_documents_do_not_say_since() -> None:
    """A whole document is told by the absence of `since`, so it is not written at all."""
    whole = parse_document(as_bytes(document()))
    assert "since" not in json.loads(to_json(whole))
    assert json.loads(to_json(parse_document(as_bytes(document(since=3)))))["since"] == 3


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
    _parses_or_is_refused(as_bytes(tree))


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
