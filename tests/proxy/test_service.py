"""One running proxy: what it reads, what it takes anew, what it does when the disk does not."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import cramjam
import pytest

from proxy import service
from proxy.core.gathering import Taken
from proxy.disk import durable
from tests.e2e import fleet
from tests.peers.push import encode
from tests.proxy.receiver import Receiver, listening, until
from tests.proxy.running import Running, config_of, decoded, received, running, tenant
from tests.scrape import Scrape

CARD, OTHER = fleet.BARE
NODE = "node-a"


def held_by(namespace: str | None, card: str = CARD) -> fleet.Tree:
    """A card that a namespace's pod has had for an hour; None is idle."""
    owners = [] if namespace is None else [fleet.owner(namespace, f"{namespace}-0", "Job", namespace)]
    return fleet.device(card, fleet.interval(fleet.now_ms() - 3_600_000, None, *owners))


def of(card: str = CARD, name: str = "util", **labels: str) -> bytes:
    """A sample of a card, now."""
    return encode([({"__name__": name, "UUID": card, **labels}, [(fleet.now_ms(), 1.0)])])


@contextlib.asynccontextmanager
async def scene(folder: Path, **sections: Any) -> AsyncIterator[tuple[Running, dict[str, Receiver], dict[str, Any]]]:
    """A proxy with the tenants team-a and team-b, their stores, and its configuration."""
    async with listening(Receiver()) as a, listening(Receiver()) as b:
        stores = {"team-a": a, "team-b": b}
        tenants = [tenant(name, store, namespaces=[name]) for name, store in stores.items()]
        sections.setdefault("ownership", {"files": [str(folder / "node.json")]})
        config = config_of(folder, tenants, **sections)
        async with running(folder, config) as proxy:
            yield proxy, stores, config


async def eventually(proxy: Running, holds: Callable[[Scrape], bool]) -> Scrape:
    """The first scrape of which it holds, within ten seconds."""
    for _ in range(200):
        found = await proxy.scrape()
        if holds(found):
            return found
        await asyncio.sleep(0.05)
    pytest.fail("what was waited for did not come")


async def pushed_until(proxy: Running, store: Receiver) -> None:
    """Push samples of the card until one arrives in a store."""
    before = len(store.requests)
    for _ in range(200):
        assert (await proxy.push(of())).status == 204
        if len(store.requests) > before:
            return
        await asyncio.sleep(0.05)
    pytest.fail("nothing arrived")


async def test_owners_are_known_from_the_first_request(tmp_path: Path) -> None:
    """Files are read before the port is open, so that no sample comes too early to find its owner."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    async with scene(tmp_path) as (proxy, stores, _):
        assert (await proxy.push(of())).status == 204
        ((labels, _samples),) = received(stores["team-a"])
        assert (labels["namespace"], labels["node"], labels["pod_uid"]) == ("team-a", NODE, "uid-of-team-a-0")
        assert (await proxy.balanced()).total("samples_quarantined") == 0


async def test_an_ownership_file_is_read_when_it_changes(tmp_path: Path) -> None:
    """A changed file is in force a moment later; a broken or vanished one leaves what was known, and is told once."""
    file = fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    async with scene(tmp_path) as (proxy, stores, _):
        await pushed_until(proxy, stores["team-a"])
        fleet.write(file, NODE, [held_by("team-b")])
        await pushed_until(proxy, stores["team-b"])
        for content in (b"{", b"[]", b'{"version": 1}', b"\xff" * 100, None):
            if content is None:
                file.unlink()
            else:
                file.write_bytes(content)
            await proxy.proxy._files.read_changed()
            await pushed_until(proxy, stores["team-b"])
        fleet.write(file, NODE, [held_by("team-a")])
        await pushed_until(proxy, stores["team-a"])
        assert (await proxy.scrape()).total("ownership_age_seconds", node=NODE) < 0


async def test_a_file_that_is_named_no_more_tells_nothing(tmp_path: Path) -> None:
    """After a reload that names other files the owners of the old ones are unknown, the others' are as they were."""
    old = fleet.write(tmp_path / "old.json", "old", [held_by("team-a")])
    new = fleet.write(tmp_path / "new.json", "new", [held_by("team-b", OTHER)])
    async with scene(tmp_path, ownership={"files": [str(old), str(new)]}) as (proxy, stores, config):
        assert (await proxy.push(of(CARD))).status == (await proxy.push(of(OTHER))).status == 204
        assert (len(stores["team-a"].requests), len(stores["team-b"].requests)) == (1, 1)
        proxy.configure({**config, "ownership": {"files": [str(new)]}})
        assert (await proxy.ask("POST", "/-/reload")).status == 200
        assert (await proxy.push(of(CARD))).status == (await proxy.push(of(OTHER))).status == 204
        assert (len(stores["team-a"].requests), len(stores["team-b"].requests)) == (1, 2)
        assert (await proxy.balanced()).by("samples_quarantined", "reason") == {"unknown_owner": 1}


async def test_a_bad_reload_changes_nothing(tmp_path: Path) -> None:
    """Every problem is told with its place, the gauge says 0, and what ran goes on; a good one sets it to 1 again."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    async with scene(tmp_path) as (proxy, stores, config):
        for bad, told in (
            ({**config, "tenant": []}, ["tenant"]),
            ({**config, "tenants": []} | {"proxy": {**config["proxy"], "idle_tenant": "nobody"}}, ["idle_tenant"]),
            ({**config, "proxy": {**config["proxy"], "listen": "127.0.0.1:1"}}, ["proxy.listen: cannot change"]),
            ({**config, "proxy": {**config["proxy"], "data_dir": "/other"}}, ["proxy.data_dir: cannot change"]),
            ({**config, "proxy": {**config["proxy"], "workers": 2}}, ["proxy.workers: must be 1"]),
            ({**config, "tenants": [{**config["tenants"][0], "endpoint": {"url": "ftp://x"}}]}, ["endpoint.url"]),
        ):
            proxy.configure(bad)
            answer = await proxy.ask("POST", "/-/reload")
            assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
            detail = answer.json()["detail"]
            assert detail.startswith("nothing was changed: ")
            assert not [part for part in told if part not in detail], detail
            found = await proxy.scrape()
            assert (found.total("config_generation"), found.total("config_last_reload_successful")) == (1, 0)
            assert (await proxy.push(of())).status == 204
        proxy.config_file.unlink()
        assert (await proxy.ask("POST", "/-/reload")).status == 400
        proxy.configure(config)
        assert (await proxy.ask("POST", "/-/reload")).json() == {"generation": 2}
        found = await proxy.balanced()
        assert (found.total("config_generation"), found.total("config_last_reload_successful")) == (2, 1)
        assert len(stores["team-a"].requests) == 6


async def test_reloads_come_one_after_the_other(tmp_path: Path) -> None:
    """Asked for many times at once, while samples come, each is taken, and no sample is lost on the way."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    async with scene(tmp_path) as (proxy, stores, _):
        async with asyncio.TaskGroup() as group:
            reloads = [group.create_task(proxy.ask("POST", "/-/reload")) for _ in range(8)]
            pushes = [group.create_task(proxy.push(of(name=f"m{number}"))) for number in range(40)]
        assert sorted(task.result().json()["generation"] for task in reloads) == list(range(2, 10))
        assert {task.result().status for task in pushes} == {204}
        assert len(received(stores["team-a"])) == 40
        assert (await proxy.balanced()).total("samples_delivered_total", tenant="team-a") == 40


async def test_a_reload_changes_limits(tmp_path: Path) -> None:
    """What a label or a body may have is as the new file says from then on."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    async with scene(tmp_path) as (proxy, stores, config):
        assert (await proxy.push(of(k="x" * 100))).status == 204
        limits = {"label_value_bytes": 50, "labels_per_series": 30, "compressed_bytes": 5000}
        proxy.configure({**config, "proxy": {**config["proxy"], "limits": limits}})
        assert (await proxy.ask("POST", "/-/reload")).status == 200
        answer = await proxy.push(of(k="x" * 100))
        assert (answer.status, answer.reason) == (400, "label_value_too_long")
        assert (await proxy.push(b"\x00" * 5001)).reason == "compressed_size"
        assert len(stores["team-a"].requests) == 1


async def test_max_age_is_taken_anew(tmp_path: Path) -> None:
    """A node that was last observed a minute ago tells owners for `max_age` more, which a reload changes."""
    past = fleet.now_ms() - 60_000
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")], until_ms=past)
    files = {"files": [str(tmp_path / "node.json")]}
    async with scene(tmp_path, ownership={**files, "max_age": "1h"}) as (proxy, stores, config):
        for max_age, count in (("1h", 1), ("30s", 1), ("2m", 2)):
            proxy.configure({**config, "ownership": {**files, "max_age": max_age}})
            assert (await proxy.ask("POST", "/-/reload")).status == 200
            assert (await proxy.push(of())).status == 204
            assert len(stores["team-a"].requests) == count, max_age
        assert (await proxy.balanced()).by("samples_quarantined", "reason") == {"unknown_owner": 1}


async def test_a_full_disk_makes_only_those_wait_who_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the quarantine cannot be written a request that needs it is 503, and its other parts are delivered."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    now_ms = fleet.now_ms()
    both = encode([({"__name__": "m", "UUID": card}, [(now_ms, 1.0)]) for card in (CARD, OTHER)])
    async with scene(tmp_path) as (proxy, stores, _):
        with monkeypatch.context() as full:
            full.setattr(durable, "append", no_space)
            answer = await proxy.push(both)
            assert (answer.status, answer.text.partition(": the ")[0]) == (503, "storage")
            assert (await proxy.push(of(CARD))).status == 204
            assert len(stores["team-a"].requests) == 2
            await proxy.balanced()
        assert (await proxy.push(both)).status == 204
        found = await proxy.balanced()
        assert found.by("samples_quarantined", "reason") == {"unknown_owner": 1}
        assert len(received(stores["team-a"])) == 3


def no_space(*_: object) -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_the_quarantine_forgets_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any further append samples leave the quarantine at their age, counted."""
    monkeypatch.setattr(service, "TRIM_SECONDS", 0.05)
    quarantine = {"bytes": "1MiB", "age": "200ms"}
    async with scene(tmp_path, proxy={"quarantine": quarantine}, ownership={"files": ["nothing"]}) as (proxy, _, _):
        assert (await proxy.push(of())).status == 204
        found = await eventually(proxy, lambda seen: seen.total("samples_quarantined") == 0)
        assert found.by("quarantine_dropped_total", "reason") == {"age": 1}
        await proxy.balanced()


@pytest.mark.parametrize(
    ("unowned", "status", "counted"),
    [
        ("quarantine", 204, {"samples_quarantined_total": 1}),
        ("drop", 204, {"samples_filtered_total": 1}),
        ("reject", 400, {"samples_rejected_total": 1}),
        ("tenant:team-b", 204, {"samples_routed_total": 1}),
    ],
)
async def test_what_becomes_of_samples_without_an_owner(
    tmp_path: Path, unowned: str, status: int, counted: dict[str, int]
) -> None:
    """`unowned` decides on the sender's answer and the fate; a sample of a known owner goes its way beside it."""
    fleet.write(tmp_path / "node.json", NODE, [held_by("team-a")])
    body = encode([({"__name__": "m", "UUID": card}, [(fleet.now_ms(), 1.0)]) for card in (CARD, OTHER)])
    async with scene(tmp_path, proxy={"unowned": unowned}) as (proxy, stores, _):
        answer = await proxy.push(body)
        assert (answer.status, answer.reason) == (status, "unknown_owner" if status == 400 else "")
        found = await proxy.balanced()
        own = {**counted, "samples_routed_total": 1 + counted.get("samples_routed_total", 0)}
        assert {name: found.total(name) for name in own} == own
        assert len(received(stores["team-a"])) == 1
        assert len(received(stores["team-b"])) == (unowned == "tenant:team-b")


async def test_a_request_is_worked_on_by_one_configuration(tmp_path: Path) -> None:
    """A reload waits for a request that is in the middle: what was made for a tenant that goes is delivered or kept."""
    now_ms = fleet.now_ms()
    many = [({"__name__": f"m{number}"}, [(now_ms, 1.0)]) for number in range(25_000)]
    async with listening(Receiver()) as kept, listening(Receiver()) as gone:
        config = config_of(tmp_path, [tenant("kept", kept), tenant("gone", gone)])
        async with running(tmp_path, config) as proxy:
            body = bytes(cramjam.snappy.decompress_raw(encode(many)))
            taking = proxy.proxy.take(body, proxy.proxy.senders.anonymous)
            taking.send(None)  # its first slice, after which it gives way
            proxy.configure(config_of(tmp_path, [tenant("kept", kept)]))
            reloading = asyncio.create_task(proxy.proxy.reload())
            await until(lambda: reloading.done() or not proxy.proxy._gate._open.is_set())
            taken = finished(taking)
            carried = await proxy.proxy.carry_out(taken, proxy.proxy.senders.anonymous, 0)
            assert await reloading == 2
            assert carried.outcomes == []
            found = await proxy.reaches(lambda seen: seen.total("samples_queued", tenant="kept") == 0)
            had = entries(gone)
            assert (entries(kept), had + found.total("samples_queued", tenant="gone")) == (25_000, 25_000)
            assert (await proxy.push(encode(many[:1]))).status == 204
            assert (entries(kept), entries(gone)) == (25_001, had)


def entries(store: Receiver) -> int:
    """How many series entries a store got."""
    return sum(len(decoded(each)) for each in store.requests)


def finished(work: Coroutine[Any, Any, Taken]) -> Taken:
    """What a coroutine returns that only ever gives way."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return cast("Taken", end.value)
