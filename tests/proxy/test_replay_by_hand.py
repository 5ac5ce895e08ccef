import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from proxy import replay, replay_round
from proxy.clock import now_ms
from proxy.core.record import QuarantineRecord
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import CARD, OTHER_CARD, Series, card, interval, owner, util
from tests.proxy.replaying import Site, running, samples, until

OWNED: Final = card(interval(0, None, owner("ml")))
STRAY: Final = card(interval(0, None, owner("stray")), uuid=OTHER_CARD)


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A site whose replayer is not at work, as where no proxy runs."""
    monkeypatch.setattr(replay, "GATHER_SECONDS", 0.01)
    made = await Site.open(tmp_path)
    yield made
    await made.quarantine.close()
    made.balance()


async def test_what_waits(site: Site) -> None:
    """Everything that waits is shown in order of arrival, shared samples too, each with why it waits by now."""
    await site.hold(*samples(5, 3), *samples(4, UUID=OTHER_CARD))
    record = QuarantineRecord(0, "s", "", "shared_not_split", 0, 1, Series(util(), (9, 1)).to_bytes())
    await site.quarantine.append([record])
    site.quarantined += 1
    site.own(STRAY)
    shown = await site.replayer.records(10)
    assert [(each.sample_ms % 60_000, each.reason) for each in shown] == [
        (25_000, "unknown_owner"),
        (23_000, "unknown_owner"),
        (24_000, "unknown_owner"),
        (0, "shared_not_split"),
    ]
    assert [each.namespace for each in shown] == ["", "", "stray", ""]
    assert "no node lists" in shown[0].why
    assert "belongs to no tenant" in shown[2].why


@pytest.mark.parametrize(
    ("limit", "reason", "text", "found"),
    [
        (10, "", "", 4),
        (2, "", "", 2),
        (10, "unknown_owner", "", 3),
        (10, "other", "", 0),
        (10, "", OTHER_CARD, 1),
        (10, "", CARD, 3),
        (10, "", "stray", 1),
        (10, "unknown_owner", "FB_USED", 1),
    ],
)
async def test_what_is_asked_for(site: Site, limit: int, reason: str, text: str, found: int) -> None:
    """Records are found by their reason, by a text in their series, or in the namespace of their owner."""
    await site.hold(*samples(1), *samples(2, __name__="DCGM_FI_DEV_FB_USED"), *samples(3, UUID=OTHER_CARD))
    record = QuarantineRecord(0, "s", "", "shared_not_split", 0, 1, Series(util(), (9, 1)).to_bytes())
    await site.quarantine.append([record])
    site.quarantined += 1
    site.own(STRAY)
    assert len(await site.replayer.records(limit, reason, text)) == found


async def test_replayed_by_hand(site: Site) -> None:
    """What is answered goes at once, and what that came to is told; without a task that replays, too."""
    await site.hold(*samples(1, 2, 300))
    site.own(OWNED)
    totals = await site.replayer.replay_now()
    assert (totals.released, totals.dropped, totals.unsettled) == (2, {}, set())
    site.tenancy = tenancy_of(unowned="drop")
    assert (await site.replayer.replay_now()).dropped == {"unowned": 1}
    assert (await site.replayer.replay_now()).released == 0


async def test_tenants_that_could_not_take_theirs(site: Site) -> None:
    """A person is told who could not take its parts; asked again, it is tried again at once."""
    site.tenants.refusing = {"ml"}
    await site.hold(*samples(1))
    site.own(OWNED)
    for _ in range(2):
        totals = await site.replayer.replay_now()
        assert (totals.released, totals.unsettled) == (0, {"ml"})
    site.tenants.refusing = set()
    assert (await site.replayer.replay_now()).released == 1


async def test_dropped_by_hand(site: Site) -> None:
    """What waits for a reason, or for so long, or all, is dropped and counted; the rest is there after a restart."""
    old, young = now_ms() - 60_000, now_ms()
    entries = [Series(util(), (at, 1)).to_bytes() for at in range(4)]
    rows = [(old, "unknown_owner"), (young, "unknown_owner"), (old, "shared_not_split"), (young, "invalid_tenant")]
    records = [
        QuarantineRecord(received, "s", "", reason, 0, 1, entry)
        for (received, reason), entry in zip(rows, entries, strict=True)
    ]
    await site.quarantine.append(records)
    site.quarantined += 4
    assert await site.replayer.drop("unknown_owner", 30_000) == (1, 1)
    assert await site.replayer.drop(None, 30_000) == (1, 1)
    assert await site.replayer.drop("invalid_tenant") == (1, 1)
    await site.quarantine.close()
    again = await Site.open(site.folder)
    assert again.quarantine.recovered == {"unknown_owner": 1}
    assert await again.replayer.drop() == (1, 1)
    assert (again.quarantine.dropped, again.quarantine.waiting.total()) == ({"dropped_by_hand": 1}, 0)
    assert await again.replayer.drop() == (0, 0)
    await again.quarantine.close()


async def test_who_asks_by_hand_need_not_wait_for_a_round(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that is under way ends after the slice in flight; what is left of it is done afterwards."""
    monkeypatch.setattr(replay_round, "SLICE", 2)
    first, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        first.set()
        await go_on.wait()

    site.tenants.pace = wait
    await site.hold(*samples(*range(20)))
    site.own(OWNED)
    async with running(site):
        await until(first.is_set)
        dropping = asyncio.create_task(site.replayer.drop())
        await asyncio.sleep(0)
        go_on.set()
        assert await dropping == (18, 18)
        await site.hold(*samples(30))
        site.own(OWNED, until=101)
        await until(lambda: site.quarantine.released == 3)


async def test_by_hand_while_it_replays_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both together replay each record once, also when the configuration changes meanwhile."""
    monkeypatch.setattr(replay_round, "SLICE", 2)
    await site.hold(*samples(*range(40)))
    site.own(OWNED)
    async with running(site):
        site.configure(tenancy_of())
        await asyncio.gather(*(site.replayer.replay_now() for _ in range(3)))
        site.configure(tenancy_of())
        await site.replayer.replay_now()
    assert site.quarantine.released == 40
    assert [got.at for got in site.tenants.got] == list(range(40))


async def test_what_a_round_left_is_done_afterwards(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """After somebody came between, the round goes on at once, without any news; what it had done has left the disk."""
    monkeypatch.setattr(replay_round, "SLICE", 2)
    first, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        first.set()
        await go_on.wait()

    site.tenants.pace = wait
    await site.hold(*samples(*range(20)))
    site.own(OWNED)
    async with running(site):
        await until(first.is_set)
        dropping = asyncio.create_task(site.replayer.drop("another reason"))
        await asyncio.sleep(0)
        go_on.set()
        await dropping
        assert not site.quarantine._files._gone
        await until(lambda: site.quarantine.released == 20)
    assert [got.at for got in site.tenants.got] == list(range(20))


async def test_a_round_that_would_begin_while_somebody_waits(site: Site) -> None:
    """It ends before it has begun, and everything is still due."""
    await site.hold(*samples(1))
    site.own(OWNED)
    site.replayer._by_hand = 1
    await site.replayer._replay_due()
    assert (site.quarantine.released, list(site.replayer._owed), site.replayer._again) == (0, [1], True)
    site.replayer._by_hand = 0
    await site.replayer._replay_due()
    assert site.quarantine.released == 1


async def test_another_configuration_while_it_replays_by_hand(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone through anew by the tenants that there are by then, and all of it is told."""
    monkeypatch.setattr(replay_round, "SLICE", 2)

    async def configure() -> None:
        site.tenants.pace = None
        site.configure(tenancy_of("joined"))

    site.tenants.pace = configure
    await site.hold(*samples(*range(20)))
    site.own(OWNED)
    assert (await site.replayer.replay_now()).released == 20
    assert (site.values("ml").total(), site.values("joined").total()) == (20, 18)
