import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace as changed
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from proxy import replay, replay_round
from proxy.core import pauses
from proxy.core.replay import Replay
from proxy.core.wire import Part
from proxy.disk import durable
from tests.proxy.core.relabel_rows import Written
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import OTHER_CARD, card, interval, owner, rules
from tests.proxy.replaying import Site, running, samples, until

OWNED: Final = (card(interval(0, None, owner("ml"))), card(interval(0, None, owner("nlp")), uuid=OTHER_CARD))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are looked at soon, and pauses are short."""
    monkeypatch.setattr(replay, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(pauses, "FIRST_SECONDS", 0.05)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site at work with a tenant that sees all, without owners."""
    made = await Site.open(tmp_path, tenancy_of("joined"))
    async with running(made):
        yield made


async def test_a_tenant_that_cannot_take_its_parts(site: Site) -> None:
    """What it has to have waits on disk and is tried again, oldest first; the others have theirs, once."""
    site.tenants.refusing = {"ml"}
    await site.hold(*samples(1, 2, 3), *samples(1, 2, UUID=OTHER_CARD, first=11))
    site.own(*OWNED)
    await until(lambda: site.values("nlp").total() == 2)
    await until(lambda: len(site.tenants.lots) > 3)
    assert (site.quarantine.released, site.quarantine.waiting) == (2, {"unknown_owner": 3})
    assert site.values("joined") == Counter([1, 2, 3, 11, 12])
    site.tenants.refusing = set()
    await until(lambda: site.quarantine.released == 5)
    assert [got.value for got in site.tenants.got if got.tenant == "ml"] == [1, 2, 3]
    assert site.values("joined") == Counter([1, 2, 3, 11, 12])


async def test_a_paused_tenant_is_not_overtaken_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slice that it could not take, nothing newer goes to a tenant before that does."""
    monkeypatch.setattr(replay_round, "SLICE", 2)
    refusals = iter([{"ml"}, set(), {"ml"}, set[str]()])

    async def now_and_then() -> None:
        site.tenants.refusing = next(refusals, set())

    site.tenants.pace = now_and_then
    await site.hold(*samples(*range(20)))
    site.own(*OWNED)
    await until(lambda: site.quarantine.released == 20)
    assert [got.at for got in site.tenants.got if got.tenant == "ml"] == list(range(20))
    assert site.values("joined") == site.values("ml")


async def test_a_disk_that_takes_nothing(site: Site) -> None:
    """Where no part can be made durable nothing leaves the quarantine, and all of it does later, in order."""
    site.tenants.broken = True
    await site.hold(*samples(1, 2))
    site.own(*OWNED)
    await until(lambda: bool(site.replayer._owed))
    assert site.quarantine.released == 0
    site.tenants.broken = False
    await until(lambda: site.quarantine.released == 2)
    assert site.values("ml") == Counter([1, 2])


async def test_a_fault_of_ours(site: Site) -> None:
    """Whatever goes wrong in a round is told, and tried again: the task goes on."""
    faults = iter([ValueError("x"), ValueError("y")])

    async def fail() -> None:
        for fault in faults:
            raise fault

    site.tenants.pace = fail
    await site.hold(*samples(1))
    with capture_logs() as logs:
        site.own(*OWNED)
        await until(lambda: site.quarantine.released == 1)
    assert [log["event"] for log in logs] == ["replay failed"] * 2


async def test_pauses_grow(site: Site) -> None:
    """A tenant that goes on refusing is tried less and less often."""
    loop = asyncio.get_running_loop()
    tried: list[float] = []

    async def note() -> None:
        tried.append(loop.time())

    site.tenants.pace = note
    site.tenants.refusing = {"ml", "joined"}
    await site.hold(*samples(1))
    site.own(*OWNED)
    await until(lambda: len(tried) == 4)
    gaps = [after - before for before, after in pairwise(tried)]
    assert gaps[0] >= 0.05
    assert gaps[1] >= 0.1
    assert gaps[2] >= 0.2


async def test_a_pause_lets_only_what_it_concerns_be_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pause the round ends as soon as its tenants have failed again, however much waits for them."""
    monkeypatch.setattr(replay_round, "SLICE", 2)
    site.tenants.refusing = {"ml", "joined"}
    await site.hold(*samples(*range(50)))
    loaded: list[int] = []
    load = site.quarantine.load

    async def counted(places: Sequence[object]) -> object:
        loaded.append(len(places))
        return await load(places)  # type: ignore[arg-type]

    site.own(*OWNED)
    await until(lambda: len(site.tenants.lots) == 1 and not site.replayer._turn.locked())
    monkeypatch.setattr(site.quarantine, "load", counted)
    await until(lambda: len(site.tenants.lots) == 3)
    assert sum(loaded) <= 6


async def test_another_configuration_meanwhile(site: Site) -> None:
    """What was decided by tenants that are gone by the time it could be delivered is decided anew."""
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    site.tenants.pace = wait
    await site.hold(*samples(1, 2))
    site.own(*OWNED)
    await until(lambda: site.replayer._round is not None)
    site.configure(tenancy_of())
    gate.set()
    await until(lambda: site.quarantine.released == 2)
    assert site.values("ml") == Counter([1, 2])


async def test_no_part_for_a_tenant_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between decision and delivery a configuration may come: parts for tenants that it lacks are not sent."""
    site = await Site.open(tmp_path, tenancy_of("joined"))
    take = Replay.take
    taken: list[int] = []

    def reconfigure_first(self: Replay, records: Sequence[object]) -> object:
        taken.append(len(records))
        if len(taken) == 1:
            site.configure(tenancy_of())
        return take(self, records)  # type: ignore[arg-type]

    monkeypatch.setattr(Replay, "take", reconfigure_first)
    await site.hold(*samples(1))
    site.own(*OWNED)
    async with running(site):
        await until(lambda: site.quarantine.released == 1)
    assert (site.values("ml"), site.values("joined")) == ({1: 1}, {})


async def test_stopped_while_delivering(tmp_path: Path) -> None:
    """Who is stopped in the middle has everything at the next start that was not settled, and nothing of the rest."""
    site = await Site.open(tmp_path, tenancy_of("joined"))
    reached = asyncio.Event()

    async def hang() -> None:
        if site.tenants.lots:
            reached.set()
            await asyncio.Event().wait()

    site.tenants.pace = hang
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_round, "SLICE", 3)
        await site.hold(*samples(*range(5)))
        site.own(*OWNED)
        async with running(site):
            await until(reached.is_set)
    again = await Site.open(tmp_path, tenancy_of("joined"))
    assert again.quarantine.recovered == {"unknown_owner": 2}
    again.own(*OWNED)
    async with running(again):
        await until(lambda: again.quarantine.released == 2)
    assert site.values("ml") + again.values("ml") == Counter([1, 2, 3, 4, 5])


async def test_counted_though_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stopped while what was delivered is taken out has it in the counts all the same."""
    site = await Site.open(tmp_path)
    settle = site.quarantine.settle

    async def stop_and_settle(settled: Sequence[object]) -> object:
        stopping[0].cancel()
        return await settle(settled)  # type: ignore[arg-type]

    monkeypatch.setattr(site.quarantine, "settle", stop_and_settle)
    await site.hold(*samples(1, 2))
    site.own(*OWNED)
    stopping: list[asyncio.Task[None]] = []
    async with running(site) as task:
        stopping.append(task)
        await asyncio.wait([task])
    assert (site.quarantine.released, site.quarantine.waiting) == (2, Counter())


async def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a segment cannot be rewritten, what has gone is not replayed again, and leaves the disk when it can."""
    site = await Site.open(tmp_path)
    async with running(site):
        await site.hold(*samples(1, 2, 300), *samples(4, UUID=OTHER_CARD))
        with monkeypatch.context() as patch:
            patch.setattr(durable, "replace", _no_space)
            site.own(OWNED[0])
            await until(lambda: site.quarantine.released == 2)
            site.own(*OWNED)
            await until(lambda: site.quarantine.released == 3)
            await until(lambda: not site.replayer._turn.locked())
        assert await _on_disk(site) == 4
        site.own(*OWNED, until=290)
        await until(lambda: site.quarantine.released == 4)
    assert sorted(float(got.value) for got in site.tenants.got) == [1, 1, 2, 3]
    assert not site.quarantine._files._contents


def _no_space(path: Path, data: bytes) -> None:
    raise OSError(errno.ENOSPC, "no space")


async def _on_disk(site: Site) -> int:
    files = site.quarantine._files
    return sum(len(files._segments.read(seq)) for seq in files._contents)


async def test_books_of_what_is_no_part(site: Site) -> None:
    """A sample with too many labels for its tenant is counted as dropped there, once, when its record has left."""
    tenancy = tenancy_of("joined", labels_per_series=8)
    shortened = rules(Written(regex="controller_.*|pod_uid|container|node", action="labeldrop"))
    few = tuple(changed(each, rules=shortened if each.id == "joined" else ()) for each in tenancy.tenants)
    site.tenants.refusing = {"joined"}
    await site.hold(*samples(1))
    site.tenancy = changed(tenancy, tenants=few)
    site.own(*OWNED)
    await until(lambda: len(site.tenants.lots) > 2)
    assert site.books.tenant("ml").dropped == {}
    site.tenants.refusing = set()
    await until(lambda: site.quarantine.released == 1)
    assert site.values("joined") == {1: 1}
    assert site.books.tenant("ml").dropped == {"labels_per_series": 1}


async def test_deliver_may_answer_with_any_collection(tmp_path: Path) -> None:
    """Tenants that are named as unsettled but had no parts disturb nobody."""
    site = await Site.open(tmp_path)

    async def deliver(parts: Sequence[Part]) -> Collection[str]:
        return ["somebody"]

    site.replayer._deliver = deliver
    await site.hold(*samples(1))
    site.own(*OWNED)
    async with running(site):
        await until(lambda: site.quarantine.released == 1)
