"""Metadata through a running proxy: who gets it, in which requests, and what the counters say."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import cramjam

from proto.prompb.remote_pb2 import WriteRequest
from store.reading import SampleReader
from store.schema import store_path
from tests.proxy.core.messages import blob, block, number, request, sample
from tests.proxy.receiver import NO_CONTENT, Exchange, Receiver, listening, until
from tests.proxy.running import Running, config_of, running, snappy, tenant


def series(*names: str) -> bytes:
    """A sample of each name."""
    return request(*(block(("__name__", name), ("job", "x")) + sample() for name in names))


def metadata(*families: str) -> bytes:
    """An entry of each family."""
    return b"".join(blob(3, number(1, 1) + blob(2, family.encode()) + blob(4, b"Help.")) for family in families)


def message(request_body: bytes) -> WriteRequest:
    """What a store was sent."""
    return WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(request_body)))


def had(store: Receiver) -> list[tuple[list[str], list[str]]]:
    """Of each request that a store got, the names of its series, and the families of its metadata."""
    found = []
    for each in store.requests:
        sent = message(each.body)
        names = [label.value.decode() for one in sent.timeseries for label in one.labels if label.name == b"__name__"]
        found.append((names, [one.metric_family_name.decode() for one in sent.metadata]))
    return found


def keeping(regex: str) -> dict[str, Any]:
    """A tenant that sees everything and keeps these names."""
    return {"view": "raw", "write_relabel_configs": [{"source_labels": ["__name__"], "regex": regex, "action": "keep"}]}


@contextlib.asynccontextmanager
async def scene(folder: Path, a: Receiver, b: Receiver) -> AsyncIterator[tuple[Running, dict[str, Any]]]:
    """A proxy with two tenants: `a` has series that begin with a, `b` with b, and both have `up`."""
    async with listening(a), listening(b):
        tenants = [tenant("a", a, **keeping("a.*|up")), tenant("b", b, **keeping("b.*|up"))]
        config = config_of(folder, tenants)
        async with running(folder, config) as proxy:
            yield proxy, config


async def says(proxy: Running, name: str, label: str, expected: Mapping[str, float]) -> None:
    """Wait until a scrape says so."""
    found: dict[str, float] = {}
    for _ in range(500):
        found = (await proxy.scrape()).by(name, label)
        if found == expected:
            return
        await asyncio.sleep(0.01)
    assert found == expected


async def counted(proxy: Running, expected: Mapping[str, float]) -> None:
    """Wait until the counters of metadata are these."""
    await says(proxy, "metadata_total", "fate", expected)


async def test_each_tenant_gets_that_of_its_families(tmp_path: Path) -> None:
    """At once, or when it comes to have the family; in requests of its own, and a copy for each that has it."""
    a, b = Receiver(), Receiver()
    async with scene(tmp_path, a, b) as (proxy, _):
        assert (await proxy.push(snappy(series("a_total", "b", "up")))).status == 204
        assert (await proxy.push(snappy(metadata("a", "up", "b", "a_late", "c")))).status == 204
        await until(lambda: (len(a.requests), len(b.requests)) == (2, 2))
        assert (await proxy.push(snappy(series("a_late_bucket")))).status == 204
        await until(lambda: len(a.requests) == 4)
        assert had(a) == [(["a_total", "up"], []), ([], ["a", "up"]), (["a_late_bucket"], []), ([], ["a_late"])]
        assert had(b) == [(["b", "up"], []), ([], ["up", "b"])]
        await counted(proxy, {"delivered": 5})
        assert (await proxy.balanced()).by("samples_delivered_total", "tenant") == {"a": 3, "b": 2}


async def test_with_series_in_one_request(tmp_path: Path) -> None:
    """Metadata goes behind the series that it came with, in another request, and learns from them whose it is."""
    a, b = Receiver(), Receiver()
    async with scene(tmp_path, a, b) as (proxy, _):
        assert (await proxy.push(snappy(metadata("a") + series("a_sum") + metadata("b", "a_sum")))).status == 204
        await until(lambda: len(a.requests) == 2)
        assert (had(a), b.requests) == ([(["a_sum"], []), ([], ["a", "a_sum"])], [])


async def test_what_is_no_metadata(tmp_path: Path) -> None:
    """Bad entries are counted, however many, and their sender hears nothing; good ones arrive as 1.0 has them."""
    a, b = Receiver(), Receiver()
    async with scene(tmp_path, a, b) as (proxy, _):
        assert (await proxy.push(snappy(series("a")))).status == 204
        account = blob(3, blob(2, b"a") + number(11, 7) + number(12, 8))
        assert (await proxy.push(snappy(b"\x1a\x00" * 50_000 + account + b"\x1a\x02\x12\x05"))).status == 204
        await until(lambda: len(a.requests) == 2)
        assert message(a.requests[1].body).SerializeToString() == blob(3, blob(2, b"a"))
        await counted(proxy, {"rejected": 50_001, "delivered": 1})


async def test_no_sender_waits_for_it(tmp_path: Path) -> None:
    """A sender is answered before its metadata is, and a tenant that hangs on metadata keeps it from nobody else."""
    hung = asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        if message(exchange.request.body).metadata:
            await hung.wait()
        await exchange.write(NO_CONTENT)

    a, b = Receiver(hang), Receiver()
    async with scene(tmp_path, a, b) as (proxy, _):
        assert (await proxy.push(snappy(series("up")))).status == 204
        async with asyncio.timeout(5):
            assert (await proxy.push(snappy(metadata("up")))).status == 204
        await until(lambda: (len(a.requests), len(b.requests)) == (2, 2))
        await counted(proxy, {"delivered": 1})
        hung.set()
        await counted(proxy, {"delivered": 2})


async def test_in_trouble_it_is_dropped(tmp_path: Path) -> None:
    """A tenant whose store fails loses metadata, which is counted and never queued; its series are kept, and arrive."""
    fails = True

    async def answer(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 500 Said\r\nContent-Length: 0\r\n\r\n" if fails else NO_CONTENT)

    a, b = Receiver(answer), Receiver()
    async with scene(tmp_path, a, b) as (proxy, _):
        for _ in range(2):
            assert (await proxy.push(snappy(series("up")))).status == 204
            assert (await proxy.push(snappy(metadata("up")))).status == 204
        await counted(proxy, {"delivered": 2, "dropped": 2})
        assert (await proxy.scrape()).by("samples_queued", "tenant") == {"a": 2}
        fails = False
        await says(proxy, "samples_delivered_total", "tenant", {"a": 2, "b": 2})
        assert not any(families for _, families in had(a))
    assert sum(len(names) for names, _ in had(b)) == 2


async def test_a_tenant_that_is_gone(tmp_path: Path) -> None:
    """After a reload without it a tenant gets nothing, and if it comes again it has its families to learn anew."""
    a, b = Receiver(), Receiver()
    async with scene(tmp_path, a, b) as (proxy, config):
        assert (await proxy.push(snappy(series("up")))).status == 204
        for tenants in (config["tenants"][1:], config["tenants"]):
            proxy.configure({**config, "tenants": tenants})
            assert (await proxy.ask("POST", "/-/reload")).status == 200
            assert (await proxy.push(snappy(metadata("up")))).status == 204
        await counted(proxy, {"delivered": 2})
        assert had(a) == [(["up"], [])]
        assert (await proxy.push(snappy(series("up")))).status == 204
        await until(lambda: len(a.requests) == 3)
        assert had(a)[1:] == [(["up"], []), ([], ["up"])]


async def test_embedded_storage_takes_it(tmp_path: Path) -> None:
    """A tenant with embedded storage is sent metadata as any other; nothing of it is kept."""
    config = config_of(tmp_path, [{"id": "a", "view": "raw", "endpoint": {"embedded": True}}])
    async with running(tmp_path, config) as proxy:
        assert (await proxy.push(snappy(series("up")))).status == 204
        assert (await proxy.push(snappy(metadata("up", "down")))).status == 204
        await counted(proxy, {"delivered": 1})
        reader = SampleReader(store_path(tmp_path / "data", "a"))
        assert [labels["__name__"] for labels in reader.series()] == ["up"]
