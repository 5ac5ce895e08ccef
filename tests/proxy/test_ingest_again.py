"""Requests that are sent again, as senders do after a 503, and when they did not get the answer."""

import asyncio
import contextlib
import errno
import math
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from proxy import attempts
from proxy.disk import durable
from proxy.lanes import delivery
from tests.e2e import fleet
from tests.peers.push import HEADERS, encode
from tests.proxy.client import Answer, connected, request
from tests.proxy.core.scene import STALE
from tests.proxy.receiver import NO_CONTENT, Exchange, Receiver, listening, until
from tests.proxy.running import PUSH, Running, config_of, decoded, received, running, tenant

NOW_MS: Final = fleet.now_ms()
CARD, OTHER = fleet.BARE
BODY: Final = encode([({"__name__": f"m{number}"}, [(NOW_MS, 1.5)]) for number in range(3)])
FULL_QUEUE: Final = {"queue_bytes": 1, "queue_full": "refuse"}
BUSY: Final = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
BAD: Final = b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"

Tree = dict[str, Any]
Scene = tuple[Running, dict[str, "Store"]]


class Store(Receiver):
    """Answers as told, and not before `open` is set; `taken` are the requests that it said it has."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.says = NO_CONTENT
        self.open = asyncio.Event()
        self.open.set()
        self.taken = 0

    async def _say(self, exchange: Exchange) -> None:
        await self.open.wait()
        if self.says is NO_CONTENT:
            self.taken += 1
        else:
            self.requests.pop()
        await exchange.write(self.says)

    @property
    def samples(self) -> int:
        """Samples that it took."""
        return sum(len(samples) for _, samples in received(self))


@contextlib.asynccontextmanager
async def scene(folder: Path, *names: str, **sections: Any) -> AsyncIterator[Scene]:
    """A proxy with these tenants, which get everything unless there is ownership, and their stores."""
    async with contextlib.AsyncExitStack() as stack:
        stores = {name: Store() for name in names}
        for store in stores.values():
            await stack.enter_async_context(listening(store))
        view = "owned" if "ownership" in sections else "joined"
        config = tree(folder, [whose(name, store, view=view) for name, store in stores.items()], **sections)
        yield await stack.enter_async_context(running(folder, config)), stores


def tree(folder: Path, tenants: list[Tree], **sections: Any) -> Tree:
    """A configuration by which nothing is parked because a store is slow."""
    slow = {"park_after": "30s", "timeout": "60s", **sections.pop("delivery", {})}
    return config_of(folder, tenants, proxy={"delivery": slow, **sections.pop("proxy", {})}, **sections)


def whose(name: str, store: Store, **over: Any) -> Tree:
    """A tenant with the namespace of its name, whose store takes the rest of what it refuses some of."""
    return tenant(name, store, namespaces=[name], endpoint={"refusal": "partial"}, **{"view": "joined", **over})


async def reload(proxy: Running, config: Tree) -> None:
    """Let a proxy take another configuration."""
    proxy.configure(config)
    assert (await proxy.ask("POST", "/-/reload")).status == 200


async def acknowledged(proxy: Running, body: bytes, attempt: int = 1, **headers: str) -> Answer:
    """Send a request again, attempt after attempt, until it is answered otherwise than 503; that answer."""
    for number in range(attempt, attempt + 500):
        answer = await proxy.push(body, Retry_Attempt=str(number), **headers)
        if answer.status != 503:
            return answer
        await asyncio.sleep(0.02)
    pytest.fail("never acknowledged")


def no_space(*_: object) -> None:
    """What a full disk says."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("bounds", "full_disk"), [(FULL_QUEUE, False), ({}, True)], ids=["full queue", "full disk"])
async def test_only_who_lacks_it_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: Mapping[str, Any], *, full_disk: bool
) -> None:
    """Where one store does not take its part and it cannot be queued, each further attempt is for that store only."""
    async with scene(tmp_path, "a", "b", delivery=bounds) as (proxy, stores):
        stores["b"].says = BUSY
        with monkeypatch.context() as disk:
            if full_disk:
                disk.setattr(durable, "append", no_space)
            answer = await proxy.push(BODY)
            assert (answer.status, answer.reason) == (503, "retry")
            assert (await proxy.push(BODY, Retry_Attempt="1")).status == 503
        stores["b"].says = NO_CONTENT
        assert (await acknowledged(proxy, BODY, 2)).status == 204
        await proxy.reaches(lambda seen: seen.by("samples_delivered_total", "tenant") == {"a": 3, "b": 3})
        assert (stores["a"].samples, stores["b"].samples) == (3, 3)
        found = await proxy.balanced()
        assert found.total("samples_duplicate_total") == 0
        assert found.total("samples_routed_total") == found.total("samples_received_total") >= 9


async def test_some_samples_are_duplicates(tmp_path: Path) -> None:
    """Of a request that is sent again samples that all their tenants have are duplicates, and the rest is routed."""
    keep = [{"source_labels": ["__name__"], "regex": "m0", "action": "keep"}]
    async with scene(tmp_path, "a", "b", delivery=FULL_QUEUE) as (proxy, stores):
        tenants = [whose("a", stores["a"]), whose("b", stores["b"], write_relabel_configs=keep)]
        await reload(proxy, tree(tmp_path, tenants, delivery=FULL_QUEUE))
        stores["b"].says = BUSY
        assert (await proxy.push(BODY)).status == 503
        before = await proxy.balanced()
        assert (await proxy.push(BODY, Retry_Attempt="1")).status == 503
        after = await proxy.balanced()
        assert after.total("samples_routed_total") - before.total("samples_routed_total") == 1
        assert after.total("samples_duplicate_total") == 2


@pytest.mark.parametrize("said", [NO_CONTENT, BAD], ids=["taken", "refused"])
async def test_a_lost_answer_is_given_again(tmp_path: Path, said: bytes) -> None:
    """A sender that did not get the answer gets the same one, and nothing is delivered."""
    async with scene(tmp_path, "a", "b") as (proxy, stores):
        stores["a"].says = said
        async with connected(proxy.address) as client:
            await client.send(request("POST", PUSH, HEADERS, BODY))
            await until(lambda: stores["b"].taken == 1)
        first = await proxy.push(BODY, Retry_Attempt="1")
        again = await proxy.push(BODY, Retry_Attempt="2")
        assert first.status == (204 if said is NO_CONTENT else 400)
        assert (again.status, again.text) == (first.status, first.text)
        assert stores["b"].taken == 1
        found = await proxy.balanced()
        assert found.total("samples_received_total") == 9
        assert found.total("samples_routed_total") == 3
        assert found.total("samples_duplicate_total") == 6


async def test_what_was_refused_is_told_in_the_end(tmp_path: Path) -> None:
    """A refusal in an earlier attempt is no success in the last one, and is not tried again."""
    async with scene(tmp_path, "a", "b", delivery=FULL_QUEUE) as (proxy, stores):
        stores["a"].says, stores["b"].says = BAD, BUSY
        assert (await proxy.push(BODY)).status == 503
        stores["a"].says = stores["b"].says = NO_CONTENT
        answer = await acknowledged(proxy, BODY)
        assert (answer.status, answer.reason) == (400, "upstream_400_partial")
        assert (stores["a"].samples, stores["b"].samples) == (0, 3)
        assert (await proxy.balanced()).by("samples_dropped_total", "tenant") == {"a": 3}


async def test_a_sender_that_gave_up_early(tmp_path: Path) -> None:
    """An attempt that comes while an earlier one is worked on waits for that, as does the next: all arrives once."""
    async with scene(tmp_path, "a") as (proxy, stores):
        store = stores["a"]
        store.open.clear()
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(proxy.push(BODY))]
            await until(lambda: len(store.requests) == 1)
            sent += [group.create_task(proxy.push(BODY, Retry_Attempt=str(number))) for number in (1, 2)]
            await asyncio.sleep(0.05)  # long enough for them to be there, and to be delivered if they did not wait
            assert len(store.requests) == 1
            store.open.set()
        assert [each.result().status for each in sent] == [204, 204, 204]
        assert store.samples == 3
        assert (await proxy.balanced()).total("samples_duplicate_total") == 6


async def test_patience_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt does not wait for ever: it is answered 503, nothing of it is received, and a later one goes on."""
    monkeypatch.setattr(attempts, "PATIENCE_SECONDS", 0.05)
    async with scene(tmp_path, "a") as (proxy, stores):
        stores["a"].open.clear()
        sent = asyncio.create_task(proxy.push(BODY))
        await until(lambda: len(stores["a"].requests) == 1)
        answer = await proxy.push(BODY, Retry_Attempt="1")
        assert (answer.status, answer.reason) == (503, "underway")
        stores["a"].open.set()
        assert (await sent).status == 204
        assert (await proxy.push(BODY, Retry_Attempt="2")).status == 204
        assert stores["a"].samples == 3
        found = await proxy.balanced()
        assert found.by("requests_rejected_total", "reason") == {"underway": 1}
        assert found.total("samples_received_total") == 6


@pytest.mark.parametrize("said", [NO_CONTENT, BAD], ids=["taken", "refused"])
async def test_parts_that_end_after_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """A request that was answered 503 because nothing was known yet is answered by what became of it meanwhile."""
    monkeypatch.setattr(delivery, "ANSWER_SECONDS", 0.1)
    async with scene(tmp_path, "a", "b") as (proxy, stores):
        stores["a"].says = said
        stores["a"].open.clear()
        assert (await proxy.push(BODY)).status == 503
        sent = asyncio.create_task(proxy.push(BODY, Retry_Attempt="1"))
        await asyncio.sleep(0.05)  # long enough for it to be delivered if it did not wait
        stores["a"].open.set()
        assert (await sent).status == (204 if said is NO_CONTENT else 400)
        assert stores["b"].taken == 1
        await proxy.balanced()


@pytest.mark.parametrize("headers", [{}, {"Retry_Attempt": "0"}, {"Retry_Attempt": "one"}], ids=str)
async def test_the_same_bytes_without_a_number_are_another_request(tmp_path: Path, headers: dict[str, str]) -> None:
    """Only what says that it is sent again is."""
    async with scene(tmp_path, "a") as (proxy, stores):
        for count in (1, 2):
            assert (await proxy.push(BODY, **headers)).status == 204
            assert stores["a"].taken == count
        assert (await proxy.balanced()).total("samples_duplicate_total") == 0


async def test_the_same_bytes_of_another_sender_are_another_request(tmp_path: Path) -> None:
    """What one sender sent tells nothing of what another one did."""
    senders = []
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        senders.append({"name": name, "bearer_token_file": str(tmp_path / name)})
    async with scene(tmp_path, "a", proxy={"senders": senders}) as (proxy, stores):
        assert (await proxy.push(BODY, Authorization="Bearer one")).status == 204
        assert (await proxy.push(BODY, Retry_Attempt="1", Authorization="Bearer two")).status == 204
        assert stores["a"].taken == 2
        assert (await proxy.push(BODY, Retry_Attempt="1", Authorization="Bearer one")).status == 204
        assert stores["a"].taken == 2


async def test_a_request_that_was_refused_is_decided_again(tmp_path: Path) -> None:
    """A body that is no request is refused each time, and counted as often."""
    async with scene(tmp_path, "a") as (proxy, _):
        for number in range(3):
            assert (await proxy.push(b"hello", Retry_Attempt=str(number))).status == 400
        assert (await proxy.balanced()).by("requests_rejected_total", "reason") == {"corrupt_snappy": 3}


async def test_quarantined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk did not take is quarantined by the next attempt, which delivers nothing twice, and not again."""
    fleet.write(tmp_path / "node.json", "node-a", [_card(CARD, ("a", -3_600_000, None))])
    ownership = {"files": [str(tmp_path / "node.json")]}
    both = encode([({"__name__": "m", "UUID": card}, [(NOW_MS, 1.0)]) for card in (CARD, OTHER)])
    async with scene(tmp_path, "a", ownership=ownership) as (proxy, stores):
        with monkeypatch.context() as full:
            full.setattr(durable, "append", no_space)
            for number in range(2):
                answer = await proxy.push(both, Retry_Attempt=str(number))
                assert (answer.status, answer.reason) == (503, "storage")
        assert (await acknowledged(proxy, both, 2)).status == 204
        assert (await acknowledged(proxy, both, 3)).status == 204
        assert stores["a"].taken == 1
        found = await proxy.balanced()
        assert found.by("samples_quarantined", "reason") == {"unknown_owner": 1}
        assert found.total("samples_duplicate_total") == 2 + 2


async def test_markers(tmp_path: Path) -> None:
    """A stale marker, and one of our own making at a hand-over, come again to who lacks them, and to nobody else."""
    cards = [_card(CARD, ("a", -60_000, -20_000), ("b", -20_000, None)), _card(OTHER, ("b", -60_000, None))]
    fleet.write(tmp_path / "node.json", "node-a", cards)
    ownership = {"files": [str(tmp_path / "node.json")]}
    at_30, at_10 = NOW_MS - 30_000, NOW_MS - 10_000
    mine, his = {"__name__": "m", "UUID": CARD}, {"__name__": "m", "UUID": OTHER}
    later = encode([(mine, [(at_10, 2.0)]), (his, [(at_10, STALE)])])
    async with scene(tmp_path, "a", "b", ownership=ownership, delivery=FULL_QUEUE) as (proxy, stores):
        assert (await proxy.push(encode([(mine, [(at_30, 1.0)]), (his, [(at_30, 1.0)])]))).status == 204
        stores["a"].says = BUSY
        assert (await proxy.push(later)).status == 503
        stores["a"].says = NO_CONTENT
        assert (await acknowledged(proxy, later)).status == 204
        assert _stale(stores["a"]) == [NOW_MS - 20_000]
        assert _stale(stores["b"]) == [at_10]
        assert (stores["a"].samples, stores["b"].samples) == (2, 3)
        found = await proxy.balanced()
        assert found.total("parts_made_total") == 1
        assert found.total("samples_duplicate_total") >= 2


def _card(uuid: str, *owned: tuple[str, int, int | None]) -> fleet.Tree:
    """A card, with who owned it from when to when, in milliseconds from now."""
    spans = [(fleet.owner(name, f"{name}-0", "Job", name), begin, end) for name, begin, end in owned]
    return fleet.device(
        uuid, *[fleet.interval(NOW_MS + begin, None if end is None else NOW_MS + end, own) for own, begin, end in spans]
    )


def _stale(store: Store) -> list[int]:
    return [
        sample.timestamp
        for each in store.requests
        for entry in decoded(each)
        for sample in entry.samples
        if math.isnan(sample.value)
    ]


async def test_a_reload_between_two_attempts(tmp_path: Path) -> None:
    """A tenant that is new gets its part, one that is gone gets none, and who had his does not get it again."""
    async with scene(tmp_path, "a", "b", "c", delivery=FULL_QUEUE) as (proxy, stores):
        trees = {name: whose(name, store) for name, store in stores.items()}
        await reload(proxy, tree(tmp_path, [trees["a"], trees["b"]], delivery=FULL_QUEUE))
        stores["b"].says = BUSY
        assert (await proxy.push(BODY)).status == 503
        await reload(proxy, tree(tmp_path, [trees["a"], trees["c"]], delivery=FULL_QUEUE))
        assert (await proxy.push(BODY, Retry_Attempt="1")).status == 204
        assert {name: store.samples for name, store in stores.items()} == {"a": 3, "b": 0, "c": 3}
        await proxy.balanced()
