"""The stores that the other tests here believe: strict about samples, and away when they should be."""

import http.client
from collections.abc import Iterator, Sequence

import pytest

from tests.faults.behaviour import lift
from tests.faults.store import Key, Store
from tests.faults.upstream import PATH, Network, network
from tests.peers.push import HEADERS, Entry, encode

A, B = {"__name__": "a"}, {"__name__": "b"}


@pytest.fixture
def net() -> Iterator[Network]:
    """A network."""
    with network() as running:
        yield running


@pytest.mark.parametrize(
    ("then", "partial", "whole"),
    [
        ([(A, [(10, 0.0)])], "", ""),
        ([(A, [(11, 1.0)]), (B, [(1, 1.0)])], "ab", "ab"),
        ([(A, [(10, 2.0)]), (B, [(1, 1.0)])], "b", ""),
        ([(A, [(9, 1.0)]), (B, [(1, 1.0)])], "b", ""),
        ([(B, [(1, 1.0)]), (A, [(9, 1.0)])], "b", ""),
        ([(A, [(12, 1.0), (11, 1.0)])], "a", ""),
        ([(A, [(10, -0.0)])], "", ""),
    ],
    ids=["the newest again", "newer", "another value", "older", "good first", "older within", "other bits"],
)
def test_a_store_takes_what_is_new(then: Sequence[Entry], partial: str, whole: str) -> None:
    """After (10, 0.0) of series a: what is taken of a request, by what a refusal means."""
    for refusal, taken in (("partial", partial), ("whole", whole)):
        store = Store(refusal)  # type: ignore[arg-type]
        assert store.write(encode([(A, [(10, 0.0)])])) is None
        first = set(store.kept)
        store.write(encode(then))
        assert "".join(dict(key.series)["__name__"] for key in store.kept if key not in first) == taken
        assert store.faults == []


@pytest.mark.parametrize(
    "body",
    [
        encode([]),
        b"nonsense",
        encode([({**A, "cluster": "c"}, [(1, 1.0)]), ({**A, "cluster": "d"}, [(1, 1.0)])]),
        encode([({**A, "__replace__": "c"}, [])]),
    ],
    ids=["empty", "no request", "two pairs", "no sample"],
)
def test_a_store_notes_what_no_proxy_may_send(body: bytes) -> None:
    """Each broken rule is noted."""
    store = Store()
    store.write(body)
    assert store.faults != []


def ask(port: int, org_id: str) -> int:
    """The status for one sample of a tenant; 0 where nobody listens."""
    connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=5)
    try:
        connection.request("POST", PATH, encode([(A, [(1, 1.0)])]), {**HEADERS, "X-Scope-OrgID": org_id})
        return connection.getresponse().status
    except ConnectionRefusedError:
        return 0
    finally:
        connection.close()


def test_an_upstream_is_away_and_back_on_its_port(net: Network) -> None:
    """Shut, it refuses connections; lifted, it keeps what comes, and notes a request in another tenant's name."""
    upstream = net.upstream(Store(), "tenant")
    assert ask(upstream.port, "tenant") == 204
    upstream.shut()
    assert ask(upstream.port, "tenant") == 0
    lift(upstream)
    assert ask(upstream.port, "tenant") == 204
    assert list(upstream.store.kept) == [Key((("__name__", "a"),), 1)]
    assert upstream.store.faults == []
    ask(upstream.port, "other")
    assert len(upstream.store.faults) == 1
