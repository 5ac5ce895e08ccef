"""Stores that change while the proxy runs, tenants made from data, and storage of our own."""

import asyncio
import json
from pathlib import Path
from typing import Any

from store.reading import SampleReader
from store.schema import store_path
from tests.e2e import fleet
from tests.peers.push import encode
from tests.proxy.core.messages import NOW_MS
from tests.proxy.receiver import Exchange, Receiver, listening, no_content, until
from tests.proxy.running import Running, config_of, running, tenant

GOOD = encode([({"__name__": "good"}, [(NOW_MS, 1.5)])])


async def reload(proxy: Running, config: dict[str, Any]) -> None:
    """Take another configuration."""
    proxy.configure(config)
    assert (await proxy.ask("POST", "/-/reload")).status == 200


async def test_a_connection_survives_a_reload(tmp_path: Path) -> None:
    """A tenant whose endpoint stays as it is keeps its connection; all requests go over one."""
    async with listening(Receiver()) as store:
        config = config_of(tmp_path, [tenant("t", store)])
        async with running(tmp_path, config) as proxy:
            for _ in range(3):
                assert (await proxy.push(GOOD)).status == 204
                await reload(proxy, {**config, "dynamic_tenants": None})
            assert (len(store.requests), store.connections) == (3, 1)


async def test_a_changed_endpoint_is_used_behind_what_is_in_flight(tmp_path: Path) -> None:
    """After a reload the tenant's parts go to the new store; one under way at the old one is settled by that."""
    gate = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await gate.wait()
        await no_content(exchange)

    async with listening(Receiver(slow)) as old, listening(Receiver()) as new:
        async with running(tmp_path, config_of(tmp_path, [tenant("t", old)])) as proxy, asyncio.TaskGroup() as group:
            first = group.create_task(proxy.push(GOOD))
            await until(lambda: len(old.requests) == 1)
            await reload(proxy, config_of(tmp_path, [tenant("t", new)]))
            second = group.create_task(proxy.push(GOOD))
            await asyncio.sleep(0.05)
            assert new.requests == []
            gate.set()
        assert (first.result().status, second.result().status) == (204, 204)
        assert (len(old.requests), len(new.requests)) == (1, 1)


async def test_a_tenant_that_is_gone_gets_no_more(tmp_path: Path) -> None:
    """A removed tenant's series go on to the others, its counters stay, and a request under way is not lost."""
    async with listening(Receiver()) as kept, listening(Receiver()) as gone:
        config = config_of(tmp_path, [tenant("kept", kept), tenant("gone", gone)])
        async with running(tmp_path, config) as proxy:
            assert (await proxy.push(GOOD)).status == 204
            await reload(proxy, config_of(tmp_path, [tenant("kept", kept)]))
            assert (await proxy.push(GOOD)).status == 204
            assert (len(kept.requests), len(gone.requests)) == (2, 1)
            assert (await proxy.balanced()).by("samples_delivered_total", "tenant") == {"kept": 2, "gone": 1}


async def test_a_new_secret_is_used_after_a_reload(tmp_path: Path) -> None:
    """A token in a file is read at start and at each reload, for declared tenants and for those made from data."""
    token = tmp_path / "token"
    token.write_text("one")
    async with listening(Receiver()) as declared, listening(Receiver()) as made:
        with_token = {"bearer_token_file": str(token)}
        config = dynamic(tmp_path, made, with_token) | {"tenants": [tenant("all", declared, endpoint=with_token)]}
        async with running(tmp_path, config) as proxy:
            assert (await proxy.push(of_card())).status == 204
            token.write_text("two")
            assert (await proxy.push(of_card(1))).status == 204
            await reload(proxy, config)
            assert (await proxy.push(of_card(2))).status == 204
            for store in (declared, made):
                used = [each.headers["authorization"] for each in store.requests]
                assert used == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_tenant_made_from_data_needs_no_file_any_more(tmp_path: Path) -> None:
    """What tenants made from data share was read at start: a file that vanished refuses a reload, never a sample."""
    token = tmp_path / "token"
    token.write_text("one")
    async with listening(Receiver()) as store:
        config = dynamic(tmp_path, store, {"bearer_token_file": str(token)})
        async with running(tmp_path, config) as proxy:
            token.unlink()
            assert (await proxy.push(of_card())).status == 204
            (got,) = store.requests
            assert (got.headers["x-scope-orgid"], got.headers["authorization"]) == ("team-a", "Bearer one")
            assert (await proxy.ask("POST", "/-/reload")).status == 400
            assert (await proxy.push(of_card(1))).status == 204


async def test_a_tenant_made_from_data_gets_what_was_queued_before_a_restart(tmp_path: Path) -> None:
    """What is queued for a tenant that no owner has made yet goes out all the same: it was acknowledged."""
    down = Receiver(port=1)
    async with running(tmp_path, dynamic(tmp_path, down, {})) as proxy:
        assert (await proxy.push(of_card())).status == 204
        assert (await proxy.balanced()).by("samples_queued", "tenant") == {"team-a": 1}
    async with listening(Receiver()) as store:
        config = dynamic(tmp_path, store, {}) | {"ownership": {}}
        async with running(tmp_path, config) as proxy:
            found = await proxy.reaches(lambda seen: seen.total("samples_queued") == 0)
            assert found.by("samples_delivered_total", "tenant") == {"team-a": 1}
            assert store.requests[0].headers["x-scope-orgid"] == "team-a"


async def test_what_is_queued_for_a_declared_tenant_waits_for_it(tmp_path: Path) -> None:
    """A tenant that is declared no more keeps its queue, over a restart too, though tenants are made from data now."""
    down = Receiver(port=1)
    async with listening(Receiver()) as store:
        made = dynamic(tmp_path, store, {})
        async with running(tmp_path, {**made, "tenants": [tenant("team-b", down)]}) as proxy:
            assert (await proxy.push(GOOD)).status == 204
            await reload(proxy, made)
            assert (await proxy.balanced()).by("samples_queued", "tenant") == {"team-b": 1}
        async with running(tmp_path, made) as proxy:
            assert (await proxy.push(of_card())).status == 204
            found = await proxy.reaches(lambda seen: seen.total("samples_delivered_total") == 1)
            assert found.by("samples_queued", "tenant") == {"team-b": 1}
            assert [each.headers["x-scope-orgid"] for each in store.requests] == ["team-a"]


async def test_embedded_storage_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """A 204 means that another reader finds the sample in the tenant's file."""
    config = config_of(tmp_path, [{"id": "t", "endpoint": {"embedded": True}}])
    async with running(tmp_path, config) as proxy:
        for number in range(3):
            body = encode([({"__name__": "good"}, [(NOW_MS + number, float(number))])])
            assert (await proxy.push(body)).status == 204
            reader = SampleReader(store_path(Path(config["proxy"]["data_dir"]), "t"))
            ((labels, samples),) = reader.select({}, 0, 1 << 62)
            assert labels == {"__name__": "good"}
            assert samples == [(NOW_MS + each, float(each)) for each in range(number + 1)]
        assert (await proxy.balanced()).by("samples_delivered_total", "tenant") == {"t": 3}


async def test_an_embedded_tenant_that_goes_and_comes_back(tmp_path: Path) -> None:
    """A tenant whose storage is a file of ours goes on in it after it was out of the configuration for a while."""
    other = {"id": "other", "endpoint": {"embedded": True}}
    config = config_of(tmp_path, [{"id": "t", "endpoint": {"embedded": True}}, other])
    async with running(tmp_path, config) as proxy:
        for number, tenants in enumerate((config["tenants"], [other], config["tenants"])):
            await reload(proxy, {**config, "tenants": tenants})
            body = encode([({"__name__": "good"}, [(NOW_MS + number, float(number))])])
            assert (await proxy.push(body)).status == 204
        await proxy.reaches(lambda seen: seen.by("samples_delivered_total", "tenant") == {"t": 2, "other": 3})
        ((_, samples),) = SampleReader(store_path(Path(config["proxy"]["data_dir"]), "t")).select({}, 0, 1 << 62)
        assert samples == [(NOW_MS, 0.0), (NOW_MS + 2, 2.0)]


def dynamic(folder: Path, store: Receiver, more: dict[str, Any]) -> dict[str, Any]:
    """Tenants made from data in one store, and a card whose owner is in the namespace team-a."""
    held = fleet.interval(NOW_MS - 1000, None, fleet.owner("team-a", "a-0", "Job", "a"))
    document = {
        "version": 1,
        "revision": 1,
        "node": "node",
        "observed_from": NOW_MS - 1000,
        "observed_until": NOW_MS + 1000,
        "devices": [fleet.device(fleet.BARE[0], held)],
    }
    (folder / "node.json").write_text(json.dumps(document))
    endpoint = {"url": f"http://127.0.0.1:{store.port}/api/v1/push", **more}
    files = {"files": [str(folder / "node.json")]}
    return config_of(folder, [], ownership=files, dynamic_tenants={"id_from": "namespace", "endpoint": endpoint})


def of_card(after_ms: int = 0) -> bytes:
    """A sample of that card."""
    return encode([({"__name__": "util", "UUID": fleet.BARE[0]}, [(NOW_MS + after_ms, 1.0)])])
