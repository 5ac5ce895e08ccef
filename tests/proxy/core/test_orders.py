import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.orders import (
    INSPECTED,
    LINE_BYTES,
    DropQuarantined,
    DropQueued,
    InspectQueue,
    ListQuarantine,
    ListQueues,
    Order,
    OrderError,
    ReplayQuarantine,
    decode_answer,
    decode_order,
    encode_answer,
    encode_error,
    encode_order,
    name_of,
)

TEXT = st.text(min_size=1, max_size=1024)
REASON = st.text(min_size=1, max_size=200)
COUNT = st.integers(1, 2**63 - 1)
ORDERS: st.SearchStrategy[Order] = st.one_of(
    st.just(ListQueues()),
    st.builds(InspectQueue, TEXT, st.integers(1, INSPECTED)),
    st.builds(DropQueued, TEXT, st.none() | COUNT),
    st.builds(ListQuarantine, st.none() | REASON, st.none() | TEXT, st.integers(0, 1000)),
    st.just(ReplayQuarantine()),
    st.builds(DropQuarantined, st.none() | REASON, st.none() | COUNT),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(ORDERS)
def test_an_order_comes_over_as_it_is(order: Order) -> None:
    """What was encoded is decoded as the same order, from one line of a bounded length."""
    line = encode_order(order)
    assert decode_order(line) == order
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) <= LINE_BYTES


def test_the_longest_order_fits_into_a_line() -> None:
    """Texts as long as they may be, all of it in escapes, are no longer than a line may be."""
    order = ListQuarantine("\U0001f600" * 200, "\U0001f600" * 4096, 1000)
    assert len(encode_order(order)) <= LINE_BYTES
    assert decode_order(encode_order(order)) == order


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_hostile_bytes_are_a_sentence(line: bytes) -> None:
    """Whatever comes in, only our own error comes out, and it is one line."""
    with pytest.raises(OrderError) as raised:
        decode_order(line)
    assert str(raised.value).isprintable()


@given(st.sampled_from(["queue list", "queue drop", "quarantine list", "quarantine drop"]), JSON, JSON, JSON)
def test_hostile_values_are_a_sentence(name: str, first: Any, second: Any, third: Any) -> None:
    """A good order with any values in its fields is an order that can be encoded again, or our own error."""
    given_ = {"order": name, "tenant": first, "records": second, "reason": first, "match": second, "limit": third}
    fields = {
        "queue list": (),
        "queue drop": ("tenant", "records"),
        "quarantine list": ("reason", "match", "limit"),
        "quarantine drop": ("reason",),
    }[name]
    line = json.dumps({key: given_[key] for key in ("order", *fields)}).encode()
    try:
        order = decode_order(line)
    except OrderError as error:
        assert str(error).isprintable()
    else:
        assert decode_order(encode_order(order)) == order


MISTAKES = [
    pytest.param(b"", "an order is one line of JSON; this is none", id="empty"),
    pytest.param(b"[" * 100_000, "an order is one line of JSON; this is none", id="deep"),
    pytest.param(b"1" * 10_000, "an order is one line of JSON; this is none", id="long-number"),
    pytest.param(b'"\xff"', "an order is one line of JSON; this is none", id="not-utf8"),
    pytest.param(b"[]", "an order is a JSON object; this is another value", id="no-object"),
    pytest.param(
        b'{"order":"queue burn"}',
        "there is no order 'queue burn'; is the command of another version than the proxy?",
        id="unknown",
    ),
    pytest.param(
        b'{"order":["queue list"]}',
        "there is no order ['queue list']; is the command of another version than the proxy?",
        id="name-of-another-type",
    ),
    pytest.param(
        b'{"order":"queue list","tenant":"t"}',
        "the order 'queue list' has the fields [], which differ in 'tenant'",
        id="too-much",
    ),
    pytest.param(
        b'{"order":"queue drop","tenant":"t"}',
        "the order 'queue drop' has the fields ['tenant', 'records'], which differ in 'records'",
        id="too-little",
    ),
    pytest.param(
        b'{"order":"queue drop","tenant":"t","records":0}',
        "0 is not good for records of 'queue drop'; give a whole number from 1 on, or null",
        id="none-at-all",
    ),
    pytest.param(
        b'{"order":"queue drop","tenant":"t","records":true}',
        "True is not good for records of 'queue drop'; give a whole number from 1 on, or null",
        id="yes-is-no-number",
    ),
    pytest.param(
        b'{"order":"queue inspect","tenant":"t","limit":101}',
        "101 is not good for limit of 'queue inspect'; give a whole number from 1 to 100",
        id="too-many",
    ),
    pytest.param(
        b'{"order":"queue inspect","tenant":"","limit":1}',
        "'' is not good for tenant of 'queue inspect'; give a text of at most 1024 characters",
        id="no-tenant",
    ),
]


@pytest.mark.parametrize(("line", "sentence"), MISTAKES)
def test_what_is_wrong_with_an_order_is_told(line: bytes, sentence: str) -> None:
    """Each mistake has its sentence."""
    with pytest.raises(OrderError) as raised:
        decode_order(line)
    assert str(raised.value) == sentence


@given(st.dictionaries(st.text(), JSON.filter(lambda value: value == value), max_size=3))  # noqa: PLR0124 - without NaN
def test_an_answer_comes_over_as_it_is(answer: dict[str, Any]) -> None:
    """Plain values are the same on the other side, in one line."""
    line = encode_answer(answer)
    assert line.count(b"\n") == 1
    assert json.dumps(decode_answer(line)) == json.dumps(answer)


@given(st.text())
def test_a_refusal_comes_over_as_an_error(sentence: str) -> None:
    """Whoever gave an order that was not carried out gets the sentence."""
    line = encode_error(sentence)
    assert line.count(b"\n") == 1
    with pytest.raises(OrderError) as raised:
        decode_answer(line)
    assert str(raised.value) == sentence


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_hostile_answer_is_a_sentence(line: bytes) -> None:
    """Whatever listens at the socket, whoever asks gets an answer or our own error."""
    try:
        decode_answer(line)
    except OrderError as error:
        assert str(error)


@given(ORDERS)
def test_an_order_is_called_as_its_verb(order: Order) -> None:
    """Names are those of the command line."""
    assert name_of(order).split()[0] in {"queue", "quarantine"}
