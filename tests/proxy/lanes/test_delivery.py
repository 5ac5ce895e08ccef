"""What a tenant's store answers, what its sender is told, and what the books say of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.peers.push import encode
from tests.proxy.core.messages import NOW_MS, blob, block, exemplar, sample
from tests.proxy.receiver import Exchange, Receiver, listening, no_content
from tests.proxy.running import Running, answering, check_form, config_of, received, running, snappy, tenant

GOOD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)])])
BAD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)]), ({"job": "a"}, [(NOW_MS, 1.5)])])
DELIVERY = {"timeout": "9s", "park_after": "5s"}
IMPATIENT = {"timeout": "500ms", "park_after": "200ms"}
NO_QUEUE = {**DELIVERY, "queue_full": "refuse", "queue_bytes": "1"}
SECRET = "of-another-tenant 10.1.2.3:9095"


@contextlib.asynccontextmanager
async def scene(
    folder: Path, stores: Sequence[Receiver], delivery: Mapping[str, str] = DELIVERY, **endpoint: Any
) -> AsyncIterator[Running]:
    """A proxy whose tenants t0, t1, ... get everything, each in a store of its own."""
    async with contextlib.AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(listening(store)) for store in stores]
        tenants = [tenant(f"t{number}", store, endpoint=endpoint) for number, store in enumerate(listeners)]
        config = config_of(folder, tenants, proxy={"delivery": dict(delivery)})
        yield await stack.enter_async_context(running(folder, config))


STATUSES = """
 store | refusal | sender | reason
 200   | partial | 204    |
 202   | partial | 204    |
 204   | whole   | 204    |
 301   | partial | 204    | upstream_301
 302   | partial | 204    | upstream_302
 307   | whole   | 204    | upstream_307
 400   | partial | 400    | upstream_400_partial
 400   | whole   | 400    | upstream_400
 401   | partial | 204    | upstream_401
 403   | partial | 204    | upstream_403
 404   | partial | 400    | upstream_404
 408   | partial | 204    | upstream_408
 413   | partial | 400    | upstream_413
 415   | whole   | 400    | upstream_415
 422   | partial | 400    | upstream_422
 429   | partial | 204    | upstream_429
 500   | partial | 204    | upstream_500
 502   | whole   | 204    | upstream_502
 503   | partial | 204    | upstream_503
 599   | partial | 204    | upstream_599
"""


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()[1:]]


@pytest.mark.parametrize(("store", "refusal", "sender", "reason"), rows(STATUSES))
async def test_each_status_of_a_store_means_something(
    tmp_path: Path, store: str, refusal: str, sender: str, reason: str
) -> None:
    """The sender's status, its text and the books follow from the table, and the store's text stays here.

    What the store may take later is queued: the sender is answered as if it had been delivered.
    """
    asked = answering(
        int(store), f"Location: http://127.0.0.1:1/x\r\nX-Said: {SECRET}\r\n", "" if store == "204" else SECRET
    )
    async with scene(tmp_path, [asked], refusal=refusal) as proxy:
        answer = await proxy.push(GOOD)
        assert answer.status == int(sender)
        check_form(answer)
        assert SECRET not in answer.text
        assert answer.text == (f"{reason}: tenant t0\n" if sender == "400" else "")
        found = await proxy.balanced()
        assert found.by("upstream_requests_total", "code", tenant="t0").keys() == {store}
        queued = sender == "204" and bool(reason)
        assert found.total("samples_queued", tenant="t0") == queued
        assert found.by("circuit_open", "reason", tenant="t0") == ({reason: 1} if queued else {})
        assert found.total("samples_delivered_total", tenant="t0") == (sender == "204" and not queued)
        assert found.by("samples_dropped_total", "reason") == ({reason: 1} if sender == "400" else {})
        assert found.total("samples_routed_total") == 1


PRECEDENCE = """
 stores      | series | queued | handed back
 204 204 204 | good   | 204    | 204
 204 400 204 | good   | 400    | 400
 404 400 413 | good   | 400    | 400
 204 503 204 | good   | 204    | 503
 400 503 204 | good   | 400    | 503
 429 400 400 | good   | 400    | 503
 204 204 204 | bad    | 400    | 400
 204 503 204 | bad    | 400    | 503
 400 204 204 | bad    | 400    | 400
"""


@pytest.mark.parametrize("delivery", [DELIVERY, NO_QUEUE], ids=["queued", "handed back"])
@pytest.mark.parametrize("row", rows(PRECEDENCE))
async def test_retryable_goes_before_permanent_before_success(
    tmp_path: Path, row: list[str], delivery: dict[str, str]
) -> None:
    """A part that cannot be queued makes the sender send again; else one refusal tells it; queued is as delivered."""
    stores, series, queued, handed_back = row
    asked = [answering(int(status)) for status in stores.split()]
    async with scene(tmp_path, asked, delivery) as proxy:
        answer = await proxy.push(BAD if series == "bad" else GOOD)
        assert answer.status == int(queued if delivery is DELIVERY else handed_back)
        check_form(answer)
        if answer.status == 503:
            told = [f"t{number} (queue_full)" for number, status in enumerate(stores.split()) if status in "429 503"]
            assert answer.text == f"retry: not delivered yet: {', '.join(told)}\n"
        found = await proxy.balanced()
        for number, status in enumerate(stores.split()):
            delivered = found.total("samples_delivered_total", tenant=f"t{number}")
            assert delivered == (status == "204")
            assert asked[number].requests


async def test_the_text_names_each_tenant_once_and_bad_series_first(tmp_path: Path) -> None:
    """A 400 with several causes tells them all on one line, our own before those of tenants."""
    asked = [answering(400), answering(204), answering(413)]
    async with scene(tmp_path, asked) as proxy:
        answer = await proxy.push(BAD)
        own, first, second = answer.text.strip().split("; ")
        assert own.startswith("missing_name: ")
        assert (first, second) == ("upstream_400_partial: tenant t0", "upstream_413: tenant t2")


async def test_a_store_hears_from_us_and_not_from_the_sender(tmp_path: Path) -> None:
    """The tenant's name, our own headers and the number of the attempt go out; the sender's credentials do not."""
    store = Receiver()
    async with scene(tmp_path, [store], headers={"X-More": "yes"}) as proxy:
        headers = {
            "X-Scope-OrgID": "another",
            "Authorization": "Bearer s3cret",
            "X-Mimir-SkipLabelNameValidation": "true",
            "Cookie": "a=b",
            "X-Forwarded-For": "10.0.0.1",
            "Retry-Attempt": "3",
            "User-Agent": "Prometheus/3.16",
        }
        assert (
            await proxy.push(GOOD, **{name.replace("-", "_"): value for name, value in headers.items()})
        ).status == 204
        got = store.requests[0]
        assert got.line == "POST /api/v1/push HTTP/1.1"
        agent = got.headers.pop("user-agent")
        assert agent.startswith("whosegpu/")
        assert got.headers == {
            "host": f"127.0.0.1:{store.port}",
            "content-type": "application/x-protobuf",
            "content-encoding": "snappy",
            "x-prometheus-remote-write-version": "0.1.0",
            "x-scope-orgid": "t0",
            "x-more": "yes",
            "retry-attempt": "3",
            "content-length": str(len(got.body)),
        }


@pytest.mark.parametrize(("trouble", "word"), [("refused", "refused"), ("closed", "closed"), ("silent", "timeout")])
async def test_a_store_that_does_not_answer_holds_nobody(tmp_path: Path, trouble: str, word: str) -> None:
    """A port that is closed, a connection that ends, a store that says nothing: queued, acknowledged, and counted."""

    async def answer(exchange: Exchange) -> None:
        if trouble == "closed":
            exchange.close()
        else:
            await asyncio.sleep(60)

    async with contextlib.AsyncExitStack() as stack:
        store = await stack.enter_async_context(listening(Receiver(answer)))
        other = await stack.enter_async_context(listening(Receiver()))
        written = tenant("t0", store if trouble != "refused" else Receiver(port=1))
        config = config_of(tmp_path, [written, tenant("t1", other)], proxy={"delivery": IMPATIENT})
        proxy = await stack.enter_async_context(running(tmp_path, config))
        assert (await proxy.push(GOOD)).status == 204
        assert len(received(other)) == 1
        found = await proxy.balanced()
        assert (found.total("samples_queued", tenant="t0"), found.total("samples_queued", tenant="t1")) == (1, 0)
        await proxy.reaches(lambda seen: word in seen.by("upstream_requests_total", "code", tenant="t0"))


async def test_a_slow_store_is_waited_for_no_longer_than_it_may(tmp_path: Path) -> None:
    """After `park_after` the sender has its 204 while the store still thinks; its late answer ends the part, once."""
    gate = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await gate.wait()
        await no_content(exchange)

    slow = Receiver(answer)
    async with scene(tmp_path, [slow, Receiver()], {**IMPATIENT, "timeout": "5s"}) as proxy:
        assert (await proxy.push(GOOD)).status == 204
        found = await proxy.balanced()
        assert found.by("samples_queued", "tenant") == {"t0": 1}
        gate.set()
        found = await proxy.reaches(lambda seen: seen.total("samples_queued") == 0)
        assert found.by("samples_delivered_total", "tenant") == {"t0": 1, "t1": 1}
        assert len(received(slow)) == 1


async def test_what_was_queued_arrives_in_order_when_the_store_is_back(tmp_path: Path) -> None:
    """A store that fails for a while gets everything, in the order in which it came, and before what is new."""
    answers = [503]

    async def answer(exchange: Exchange) -> None:
        await exchange.write(f"HTTP/1.1 {answers[0]} Said\r\nContent-Length: 0\r\n\r\n".encode())

    store = Receiver(answer)
    async with scene(tmp_path, [store]) as proxy:
        for number in range(5):
            body = encode([({"__name__": "m"}, [(NOW_MS + number, float(number))])])
            assert (await proxy.push(body)).status == 204
        failed = len(store.requests)
        answers[0] = 204
        found = await proxy.reaches(lambda seen: seen.total("samples_queued") == 0)
        assert found.total("samples_delivered_total") == 5
        arrived = [points for _, points in received(Receiver(requests=store.requests[failed:]))]
        assert [point for points in arrived for point in points][-5:] == [(NOW_MS + n, float(n)) for n in range(5)]


async def test_one_request_never_mixes_replicas(tmp_path: Path) -> None:
    """Series of two replicas in one inbound request go out in two, in the order in which they came."""
    store = Receiver()
    pairs = [("a", "r1"), ("a", "r2"), ("b", "r1"), ("a", "r1")]
    entries = [
        ({"__name__": f"m{number}", "cluster": cluster, "__replica__": replica}, [(NOW_MS, 1.0)])
        for number, (cluster, replica) in enumerate(pairs)
    ]
    async with scene(tmp_path, [store]) as proxy:
        assert (await proxy.push(encode(entries))).status == 204
        got = [
            {(labels["cluster"], labels["__replica__"]) for labels, _ in received(Receiver(requests=[each]))}
            for each in store.requests
        ]
        assert got == [{("a", "r1")}, {("a", "r2")}, {("b", "r1")}]
        assert len(received(store)) == 4


async def test_nothing_is_sent_where_nothing_is_left(tmp_path: Path) -> None:
    """A tenant whose rules drop the whole request is not asked at all, and the sender has its 204."""
    async with listening(Receiver()) as keeps, listening(Receiver()) as drops:
        rule = {"action": "drop", "source_labels": ["__name__"], "regex": "good"}
        tenants = [tenant("drops", drops, write_relabel_configs=[rule]), tenant("keeps", keeps)]
        async with running(tmp_path, config_of(tmp_path, tenants)) as proxy:
            assert (await proxy.push(GOOD)).status == 204
            assert (len(drops.requests), len(keeps.requests)) == (0, 1)
            assert (await proxy.balanced()).total("samples_routed_total") == 1
    async with listening(Receiver()) as drops:
        (tmp_path / "alone").mkdir()
        config = config_of(tmp_path / "alone", [tenant("drops", drops, write_relabel_configs=[rule])])
        async with running(tmp_path / "alone", config) as proxy:
            assert (await proxy.push(GOOD)).status == 204
            found = await proxy.balanced()
            assert found.by("samples_filtered_total", "rule", tenant="drops") == {"write_relabel_configs[0]": 1}
            assert drops.requests == []


async def test_too_many_labels_cost_one_tenant_its_part(tmp_path: Path) -> None:
    """The limit holds for what would be sent: the tenant whose rules take labels off gets the series, the other not."""
    labels = {"__name__": "wide", **{f"l{number:02}": "x" for number in range(30)}}
    async with listening(Receiver()) as narrow, listening(Receiver()) as wide:
        rule = {"action": "labeldrop", "regex": "l0."}
        tenants = [tenant("narrow", narrow, write_relabel_configs=[rule]), tenant("wide", wide)]
        async with running(tmp_path, config_of(tmp_path, tenants)) as proxy:
            answer = await proxy.push(encode([(labels, [(NOW_MS, 1.0)]), ({"__name__": "good"}, [(NOW_MS, 1.0)])]))
            assert (answer.status, answer.reason) == (400, "labels_per_series")
            assert [labels["__name__"] for labels, _ in received(narrow)] == ["wide", "good"]
            assert [labels["__name__"] for labels, _ in received(wide)] == ["good"]
            found = await proxy.balanced()
            assert found.by("samples_dropped_total", "reason", tenant="wide") == {"labels_per_series": 1}


async def test_exemplars_are_counted_where_they_end(tmp_path: Path) -> None:
    """Of exemplars the books say how many stores took and how many will never be taken."""
    body = snappy(blob(1, block(("__name__", "m")) + sample() + exemplar() + exemplar(0.75)))
    async with scene(tmp_path, [answering(204), answering(400), answering(503)]) as proxy:
        assert (await proxy.push(body)).status == 400
        assert (await proxy.balanced()).by("exemplars_total", "fate") == {"delivered": 2, "dropped": 2}
