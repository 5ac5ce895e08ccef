"""Orders carried out on what a data folder holds, with a proxy around it or without."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from config.load import load
from config.settings import Settings
from ownership import Fleet, parse_document
from proxy.core.assemble import compile_tenancy
from proxy.core.orders import (
    DropQuarantined,
    DropQueued,
    InspectQueue,
    ListQuarantine,
    ListQueues,
    Order,
    OrderError,
    ReplayQuarantine,
)
from proxy.core.tenancy import Tenancy
from proxy.disk.data_dir import InUseError
from proxy.standalone import standalone
from tests.cli.stock import OWNED_MS, Folder, held, queued


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    """A data folder with queues of two tenants, one of which is configured no more, and samples in quarantine."""
    made = Folder(tmp_path)
    made.configure(proxy={"unowned": "drop"})
    made.own()
    await made.put(
        {"ml": [queued("a"), queued("b", series=3)], "gone": [queued("c")]},
        [held("m", OWNED_MS - 1), held("m", OWNED_MS + 1)],
    )
    return made


def world(folder: Folder) -> tuple[Settings, Tenancy, Fleet]:
    """What the configuration says, and the owners."""
    settings = load(folder.config).settings
    tenancy = compile_tenancy(settings)
    assert isinstance(tenancy, Tenancy)
    fleet = Fleet(settings.ownership.max_age, settings.ownership.history)
    fleet.replace(parse_document((folder.path / "node.json").read_bytes()), static=True)
    return settings, tenancy, fleet


async def told(folder: Folder, order: Order, circuits: Mapping[str, str] | None = None) -> Any:
    """The answer to an order, as from a proxy with these open circuits, or from none."""
    async with standalone(*world(folder)) as storeroom:
        around = storeroom if circuits is None else replace(storeroom, lanes=Lanes(circuits))
        return await around.carry_out(order)


@dataclass
class Lanes:
    """The lanes of a proxy that has nothing in hand."""

    circuits: Mapping[str, str]

    def waiting(self) -> Mapping[str, str]:
        return self.circuits

    def give_up(self, tenant_id: str) -> tuple[int, int]:
        return 0, 0


STATES = [
    pytest.param(None, [("gone", "not_configured", ""), ("ml", "stopped", "")], id="no-proxy"),
    pytest.param({}, [("gone", "not_configured", ""), ("ml", "delivering", "")], id="all-well"),
    pytest.param({"ml": "network"}, [("gone", "not_configured", ""), ("ml", "waiting", "network")], id="open-circuit"),
]


@pytest.mark.parametrize(("circuits", "states"), STATES)
async def test_why_a_queue_is_not_empty(
    folder: Folder, circuits: Mapping[str, str] | None, states: list[tuple[str, str, str]]
) -> None:
    """A queue is delivered, waits for its upstream, for a proxy, or for its tenant to be configured again."""
    found = (await told(folder, ListQueues(), circuits))["queues"]
    assert [(each["tenant"], each["state"], each["why"]) for each in found] == states


async def test_a_queue_of_a_tenant_that_is_made_from_data(folder: Folder) -> None:
    """Such a tenant is there when an owner of its namespace is seen; until then its queue waits for that."""
    folder.configure(dynamic_tenants={"endpoint": {"url": "http://127.0.0.1:1/push"}})
    found = (await told(folder, ListQueues(), {}))["queues"]
    assert [(each["tenant"], each["state"]) for each in found] == [("gone", "not_seen"), ("ml", "delivering")]


async def test_what_is_under_way_is_not_dropped(folder: Folder) -> None:
    """What is being sent just now stays, is told as left, and the books and the queue agree on what was dropped."""
    async with standalone(*world(folder)) as storeroom:
        queue = storeroom.kept.queues.all()["ml"]
        taken: list[Any] = []
        queue.take(1, 1 << 20, taken.append)
        dropped = await storeroom.carry_out(DropQueued("ml", None))
        assert len(taken[0]) == 1
        assert dropped == {"tenant": "ml", "records": 1, "samples": 3, "left_records": 1, "left_samples": 1}
        books = storeroom.kept.books.tenant("ml")
        assert (books.queued, books.dropped, books.imbalance()) == (1, {"dropped_by_hand": 3}, 0)


async def test_a_series_as_long_as_a_request(folder: Folder) -> None:
    """A series in an answer is cut, so that an answer has a bound."""
    await folder.put({"ml": [queued("x" * (1 << 20))]}, [held("y" * (1 << 20), OWNED_MS - 1)])
    found = await told(folder, InspectQueue("ml", 100))
    assert found["shown"][2]["series"] == ("x" * 4096 + "...",)
    found = await told(folder, ListQuarantine(None, "yyy", 10))
    assert [each["series"] for each in found["shown"]] == ["y" * 4096 + "..."]


async def test_books_of_the_quarantine(folder: Folder) -> None:
    """By hand or by a replay: what was in quarantine is released, dropped for a reason, or waits."""
    async with standalone(*world(folder)) as storeroom:
        quarantine = storeroom.kept.quarantine
        await storeroom.carry_out(ReplayQuarantine())
        assert (quarantine.released, quarantine.dropped, +quarantine.waiting) == (1, {"unowned": 1}, {})
        await quarantine.append([held("m", OWNED_MS + 1), held("m", OWNED_MS + 2)])
        await storeroom.carry_out(DropQuarantined(None, None))
        assert quarantine.dropped == {"unowned": 1, "dropped_by_hand": 2}


async def test_those_who_were_not_asked_may_know(folder: Folder) -> None:
    """Where labelers know owners too, what the files do not name waits for them, whatever `unowned` says."""
    settings, tenancy, fleet = world(folder)
    ownership = settings.ownership.model_copy(update={"labelers": ("http://gpu-node-b:9401",)})
    async with standalone(settings.model_copy(update={"ownership": ownership}), tenancy, fleet) as storeroom:
        found = await storeroom.carry_out(ReplayQuarantine())
    assert (found["released"], found["dropped"], found["waiting"]) == (1, {}, {"unknown_owner": 1})


@pytest.mark.parametrize("order", [InspectQueue("nobody", 1), DropQueued("nobody", None)], ids=["inspect", "drop"])
async def test_no_such_queue(folder: Folder, order: Order) -> None:
    """A tenant without a queue is an error, and none is made for it."""
    async with standalone(*world(folder)) as storeroom:
        with pytest.raises(OrderError, match="nothing is queued for 'nobody'"):
            await storeroom.carry_out(order)
        assert sorted(storeroom.kept.queues.all()) == ["gone", "ml"]


async def test_one_at_a_time(folder: Folder) -> None:
    """While one has the folder another one finds it taken."""
    async with standalone(*world(folder)):
        with pytest.raises(InUseError):
            async with standalone(*world(folder)):
                pass
