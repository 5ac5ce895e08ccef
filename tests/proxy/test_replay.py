from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy import replay
from proxy.core.tenancy import Tenant
from tests.proxy.core.routing import tenancy_of
from tests.proxy.core.scene import CARD, OTHER_CARD, card, interval, owner, tenants
from tests.proxy.replaying import Site, running, samples, until

OWNED = card(interval(0, None, owner("ml")))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are looked at soon."""
    monkeypatch.setattr(replay, "GATHER_SECONDS", 0.01)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site at work, without owners."""
    made = await Site.open(tmp_path)
    async with running(made):
        yield made


async def test_replayed_when_the_owner_is_known(site: Site, tmp_path: Path) -> None:
    """What waited for an owner goes to its tenant when the owner is told, and is gone from the disk."""
    await site.hold(*samples(1, 2, 3))
    site.own(OWNED)
    await until(lambda: site.values("ml").total() == 3 and not site.quarantine.waiting.total())
    assert [got.at for got in site.tenants.got] == [1, 2, 3]
    assert site.quarantine.released == 3
    await until(lambda: not list(tmp_path.glob("*.q")))


async def test_replayed_when_a_namespace_is_mapped(site: Site) -> None:
    """What waited for a mapping goes to the tenant that lists the namespace by now."""
    site.own(card(interval(0, None, owner("stray"))))
    await site.hold(*samples(1, 2))
    one: Tenant = tenants(("late", "owned"))[0]
    site.configure(tenancy_of())
    await site.replayer.replay_now()
    assert not site.tenants.got
    tenancy = tenancy_of()
    tenancy.namespaces["stray"] = one
    site.configure(tenancy)
    await until(lambda: site.values("late").total() == 2)


async def test_only_what_is_answered_leaves(site: Site) -> None:
    """What lies beyond the last observation, or is of another device, waits on, and is there after a restart."""
    await site.hold(*samples(1, 200, 201), *samples(2, UUID=OTHER_CARD, first=11))
    site.own(OWNED)
    await until(lambda: site.quarantine.released == 1)
    assert site.quarantine.waiting == {"unknown_owner": 3}
    site.own(OWNED, until=190)
    await until(lambda: site.quarantine.released == 3)
    assert [got.value for got in site.tenants.got] == [1, 2, 3]
    site.own(OWNED, card(interval(0, None, owner("nlp")), uuid=OTHER_CARD), until=190)
    await until(lambda: site.values("nlp").total() == 1)
    assert CARD != OTHER_CARD
