from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from proxy import replay, replay_round
from proxy.core import waiting, walk
from proxy.core.record import QuarantineRecord
from proxy.core.retention import Keep
from proxy.core.tenancy import Tenancy
from proxy.disk.quarantine import Quarantine
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import OTHER_CARD, T0, Series, card, interval, owner, tenants, util
from tests.proxy.replaying import Site, running, samples, until

OWNED: Final = card(interval(0, None, owner("ml")))
OTHER_OWNED: Final = card(interval(0, None, owner("nlp")), uuid=OTHER_CARD)
STRAY: Final = card(interval(0, None, owner("stray")))


def _with_late() -> Tenancy:
    tenancy = tenancy_of()
    tenancy.namespaces["stray"] = tenants(("late", "owned"))[0]
    return tenancy


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are looked at soon."""
    monkeypatch.setattr(replay, "GATHER_SECONDS", 0.01)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site at work, without owners."""
    made = await Site.open(tmp_path)
    async with running(made):
        yield made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The segments that are read, in order."""
    found: list[int] = []
    places = Quarantine.places

    async def counted(self: Quarantine, seq: int, *args: object, **over: bool) -> list[walk.Place]:
        found.append(seq)
        return await places(self, seq, *args, **over)  # type: ignore[arg-type]

    monkeypatch.setattr(Quarantine, "places", counted)
    return found


async def test_when_the_owner_is_known(site: Site, tmp_path: Path) -> None:
    """What waited for an owner goes to its tenant when the owner is told, and is gone from the disk."""
    await site.hold(*samples(1, 2, 3))
    site.own(OWNED)
    await until(lambda: site.quarantine.released == 3)
    assert [(got.tenant, got.at, got.value) for got in site.tenants.got] == [("ml", 1, 1), ("ml", 2, 2), ("ml", 3, 3)]
    await until(lambda: not list(tmp_path.glob("*.q")))


async def test_when_a_namespace_is_mapped(site: Site) -> None:
    """What waited for a mapping goes to the tenant that lists the namespace by now."""
    site.own(STRAY)
    await site.hold(*samples(1, 2))
    site.configure(tenancy_of())
    assert (await site.replayer.replay_now()).released == 0
    site.configure(_with_late())
    await until(lambda: site.quarantine.released == 2)
    assert site.values("late") == {1: 1, 2: 1}


async def test_when_another_policy_is_set(site: Site) -> None:
    """`unowned` answers for all that waits as well: dropped and counted, or to the tenant that it names."""
    await site.hold(*samples(1, 2))
    site.configure(tenancy_of(unowned="drop"))
    await until(lambda: site.quarantine.dropped == {"unowned": 2})
    site.configure(tenancy_of())
    await site.hold(*samples(3))
    site.configure(tenancy_of(unowned="nlp"))
    await until(lambda: site.values("nlp") == {1: 1})


async def test_only_what_is_answered_leaves(site: Site) -> None:
    """What lies beyond the last observation, or is of another device, waits until that is answered too."""
    await site.hold(*samples(1, 200, 201), *samples(2, UUID=OTHER_CARD, first=11))
    site.own(OWNED)
    await until(lambda: site.quarantine.released == 1)
    site.own(OWNED, until=190)
    await until(lambda: site.quarantine.released == 3)
    assert site.quarantine.waiting == {"unknown_owner": 1}
    site.own(OWNED, OTHER_OWNED, until=190)
    await until(lambda: site.quarantine.released == 4)
    assert (site.values("ml"), site.values("nlp")) == ({1: 1, 2: 1, 3: 1}, {11: 1})


async def test_after_a_start(tmp_path: Path) -> None:
    """What was answered while the proxy was away is replayed when it starts; what had gone is not there again."""
    first = await Site.open(tmp_path)
    async with running(first):
        await first.hold(*samples(1, 2), *samples(3, UUID=OTHER_CARD, first=11))
        first.own(OTHER_OWNED)
        await until(lambda: first.quarantine.released == 1)
    second = await Site.open(tmp_path)
    second.own(OWNED, OTHER_OWNED)
    async with running(second):
        await until(lambda: second.quarantine.released == 2)
        assert (second.quarantine.recovered, second.values("nlp")) == ({"unknown_owner": 2}, {})


async def test_written_while_its_answer_came_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that was decided before a change and written after it is found at the next sweep."""
    site.own(OWNED)
    await until(lambda: not site.replayer._changed)
    await site.hold(*samples(1))
    site.replayer._sweep_at = 0
    site.replayer._wake.set()
    await until(lambda: site.quarantine.released == 1)


async def test_nothing_is_read_in_vain(site: Site, reads: list[int]) -> None:
    """News of other devices, of other times, and the same once more, let no segment be read."""
    await site.hold(*samples(200), *samples(5, UUID="GPU-x"))
    for revision in range(4):
        site.own(OWNED, OTHER_OWNED, until=100 + revision)
        await until(lambda: not site.replayer._changed)
    site.configure(tenancy_of("idle", idle="idle"))
    await until(lambda: not site.replayer._everything)
    assert reads == []
    site.own(OWNED, OTHER_OWNED, until=200)
    await until(lambda: site.quarantine.released == 1)
    assert reads == [1]


async def test_what_lies_on_both_sides_of_an_answer(site: Site, reads: list[int]) -> None:
    """A device that is answered between the times that wait is looked at once, not at each of its news."""
    await site.hold(*samples(5, 200))
    for _ in range(5):
        site.own(card(interval(10, 20, owner("ml")), interval(40, None, owner("nlp"))))
        await until(lambda: not site.replayer._changed)
    assert reads == [1]


async def test_other_rules_of_a_view(site: Site) -> None:
    """What a view's rules drop is looked at anew with other rules, though no owner has changed."""
    site.own(STRAY)
    site.configure(tenancy_of("joined", drop="joined"))
    await until(lambda: not site.replayer._everything)
    await site.hold(*samples(1))
    await site.replayer._replay_due()
    site.replayer._everything = True
    await site.replayer._replay_due()
    assert site.replayer._tried
    site.configure(tenancy_of("joined"))
    await until(lambda: site.quarantine.released == 1)


async def test_what_no_rule_keeps_is_tried_twice(site: Site, reads: list[int]) -> None:
    """Where a view could take what waits and its rules do not, the segment is not read at every news of its device."""
    await site.hold(*samples(5), Series(util(), (30, 1), (50, 2)))
    site.configure(tenancy_of("joined", drop="joined"))
    for end in range(10, 60, 5):
        site.own(card(interval(0, end, owner("stray"))), until=100)
        await until(lambda: not site.replayer._changed)
    await until(lambda: not site.replayer._turn.locked())
    assert 1 <= len(reads) <= replay.FRUITLESS
    site.configure(tenancy_of("joined"))
    await until(lambda: site.quarantine.released == 3)


async def test_only_segments_concerned_are_read(tmp_path: Path, reads: list[int]) -> None:
    """Of several segments those are read that hold something of the device at a time that is answered."""
    site = await Site.open(tmp_path, keep=Keep(bytes=8000, age_ms=1 << 40))
    async with running(site):
        for number in range(8):
            uuid = OTHER_CARD if number in (2, 5) else f"GPU-{number}"
            await site.hold(*samples(*range(4), UUID=uuid, filling="x" * 50))
        there = await site.quarantine.waits(None)
        concerned = [
            seq for seq, span in there if span is not None and span.key is not None and span.key.uuid == OTHER_CARD
        ]
        assert len(await site.quarantine.segments()) > len(concerned)
        site.own(OTHER_OWNED)
        await until(lambda: site.quarantine.released == 8)
        assert reads == concerned


async def test_more_devices_than_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment with more devices than are noted is read at the start and at sweeps, whatever the news are."""
    monkeypatch.setattr(waiting, "KEYS", 2)
    site = await Site.open(tmp_path)
    async with running(site):
        await site.hold(*[each for number in range(5) for each in samples(1, UUID=f"GPU-{number}", first=number)])
        site.own(card(interval(0, None, owner("ml")), uuid="GPU-4"))
        site.replayer._sweep_at = 0
        site.replayer._wake.set()
        await until(lambda: site.quarantine.released == 1)
        assert site.values("ml") == {4: 1}


async def test_oldest_first_over_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each series is in order of time over segments and slices, in whatever order its samples came."""
    monkeypatch.setattr(replay_round, "SLICE", 7)
    site = await Site.open(tmp_path, keep=Keep(bytes=80_000, age_ms=1 << 40))
    times = [37 * number % 200 for number in range(200)]
    for number, at in enumerate(times):
        await site.hold(Series(util(), (at, number)))
    assert len(await site.quarantine.segments()) > 4
    site.own(OWNED, until=300)
    async with running(site):
        await until(lambda: site.quarantine.released == 200)
    assert [got.at for got in site.tenants.got] == sorted(times)
    assert max(len(lot) for lot in site.tenants.lots) == 7


async def test_more_than_a_walk_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out of a round because it is too much at once comes with the next."""
    monkeypatch.setattr("proxy.replay_round.Walk.__init__.__defaults__", (10,))
    site = await Site.open(tmp_path, keep=Keep(bytes=80_000, age_ms=1 << 40))
    for number in range(200):
        await site.hold(Series(util(), (37 * number % 200, number)))
    site.own(OWNED, until=300)
    async with running(site):
        await until(lambda: site.quarantine.released == 200)


async def test_appended_meanwhile(site: Site, tmp_path: Path) -> None:
    """Appends go on while the newest segment is replayed, and what they bring is kept."""

    async def hold_more() -> None:
        site.tenants.pace = None
        await site.hold(*samples(300, first=50))

    await site.hold(*samples(1, 2))
    site.tenants.pace = hold_more
    site.own(OWNED)
    await until(lambda: site.quarantine.released == 2)
    await until(lambda: site.quarantine.waiting.total() == 1)
    await until(lambda: not site.replayer._turn.locked())
    (record,) = [record for _, record in await _all(site.quarantine)]
    assert record.sample_ms == T0 + 300_000


async def _all(quarantine: Quarantine) -> list[tuple[walk.Place, QuarantineRecord]]:
    found: list[tuple[walk.Place, QuarantineRecord]] = []
    for seq in await quarantine.segments():
        found += await quarantine.load(await quarantine.places(seq, shared=True))
    return found


async def test_dropped_for_its_size_meanwhile(tmp_path: Path) -> None:
    """A segment that has to go while its records are in flight is counted once, as dropped for that."""
    site = await Site.open(tmp_path, keep=Keep(bytes=4000, age_ms=1 << 40))

    async def fill() -> None:
        site.tenants.pace = None
        await site.hold(*[Series(util(filling="x" * 400, UUID=f"GPU-{number}"), (1, 1)) for number in range(6)])

    await site.hold(*samples(1, 2, 3))
    site.tenants.pace = fill
    site.own(OWNED)
    async with running(site):
        await until(lambda: bool(site.tenants.got))
        await until(lambda: not site.replayer._turn.locked())
        assert (site.quarantine.released, site.quarantine.dropped) == (0, {"full": 3})


async def test_owed_where_it_lies_by_now(tmp_path: Path) -> None:
    """What is to be read again is not lost sight of when its segment becomes part of another one."""
    for _ in range(3):
        site = await Site.open(tmp_path)
        await site.hold(*samples(1))
        await site.quarantine.close()
    site = await Site.open(tmp_path)
    site.replayer._owed = {3: {None}}
    site.replayer._tidy = True
    await site.replayer._merge_segments()
    assert site.replayer._owed == {1: {None}}
    await site.quarantine.close()


async def test_taken_from_the_disk_as_the_walk_goes_on(tmp_path: Path) -> None:
    """A segment leaves the disk when the walk is through with it, not only when all is replayed."""
    site = await Site.open(tmp_path, keep=Keep(bytes=80_000, age_ms=1 << 40))
    there: list[int] = []

    async def look() -> None:
        there.append(len(await site.quarantine.segments()))

    site.tenants.pace = look
    for number in range(200):
        await site.hold(Series(util(), (number, number)))
    site.own(OWNED, until=300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_round, "SLICE", 20)
        async with running(site):
            await until(lambda: site.quarantine.released == 200)
    assert there[-1] == 1
    assert there[0] > 4


async def test_many_small_segments_become_one(tmp_path: Path) -> None:
    """What rounds leave of newest segments is put together at a sweep, and is replayed from there all the same."""
    site = await Site.open(tmp_path, keep=Keep(bytes=1 << 20, age_ms=1 << 40))
    async with running(site):
        for number in range(8):
            await site.hold(*samples(number, number + 300, first=10 * number + 1))
            site.own(OWNED, until=100 + number)
            await until(lambda number=number: site.quarantine.released == number + 1)  # type: ignore[misc]
            await until(lambda: not site.replayer._turn.locked())
        assert len(site.quarantine._files._contents) == 8
        site.replayer._sweep_at = 0
        site.replayer._wake.set()
        await until(lambda: len(list(tmp_path.glob("*.q"))) == 1)
        site.own(OWNED, until=400)
        await until(lambda: site.quarantine.released == 16)
    late = [got.value for got in site.tenants.got if got.at >= 300]
    assert late == [10 * number + 2 for number in range(8)]
