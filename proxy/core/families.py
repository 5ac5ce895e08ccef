"""Which metric families each tenant has: learnt from the names of its series, as it gets them.

Metadata of remote write 1.0 bears the name of a family and no label, so this is all that tells whose it is (design 6).
A series belongs to the family of its own name, and to that without the suffix that its kind of metric puts on it.

Learnt where a decision is made and nowhere else: what `wire.scan` passes by itself was decided before. Outlives the
decisions, but not the process.
"""

from collections import deque
from collections.abc import Callable, Iterator, KeysView
from typing import Final

SUFFIXES: Final = frozenset({"bucket", "sum", "count", "total", "created", "info"})
"""What stands behind a family's name and an underscore (remote-write facts R12)."""

TENANT_FAMILIES: Final = 10_000
"""Of one tenant at most: all exporters of a large cluster together have some thousand."""

ALL_FAMILIES: Final = 200_000
"""Of all tenants: 1,000 of them with 200 each; some 40 MB, or 80 MB where each name is as long as may be."""

NAME_CHARACTERS: Final = 200
"""A longer name is not learnt, and its metadata goes nowhere: the longest of Kubernetes have about 100."""

SHRINK: Final = 8
"""Beyond a bound the oldest eighth goes at once, so that looking for it costs little for each name."""

NEWS: Final = 20_000
"""What has been learnt since somebody asked; beyond it the oldest news is lost, and its metadata comes next minute."""


class Families:
    """The families of every tenant; `count` is how many they are together.

    Beyond TENANT_FAMILIES a tenant loses its oldest, beyond ALL_FAMILIES the tenant that has most does. What is lost is
    learnt again with the next decision for a series of it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._known: dict[str, dict[str, bool]] = {}  # the oldest first; whether it is the name of a series itself
        self._news: deque[tuple[str, str]] = deque(maxlen=NEWS)

    def learn(self, tenant: str, name: str) -> None:
        """A tenant gets a series of this name."""
        known = self._known.get(tenant)
        if known is None:
            known = self._known[tenant] = {}
        if known.get(name) or len(name) > NAME_CHARACTERS:
            return
        before = len(known)
        if name not in known:
            self._news.append((tenant, name))
        known[name] = True
        family, _, suffix = name.rpartition("_")
        if family and suffix in SUFFIXES:
            if family not in known:
                self._news.append((tenant, family))
            known[family] = known.pop(family, False)  # behind what it is learnt from, so that it does not go first
        self.count += len(known) - before
        while len(known) > TENANT_FAMILIES:
            self._shrink(known)
        while self.count > ALL_FAMILIES:
            self._shrink(max(self._known.values(), key=len))

    def has(self, tenant: str, family: str) -> bool:
        """Whether a tenant has a family."""
        return family in self._known.get(tenant, ())

    def among(self, families: KeysView[str]) -> Iterator[tuple[str, set[str]]]:
        """Each tenant that has any of these families, and which."""
        for tenant, known in self._known.items():
            found = known.keys() & families
            if found:
                yield tenant, found

    def news(self) -> list[tuple[str, str]]:
        """What tenants have learnt since this was last called, as (tenant, family); some may be lost again."""
        news = list(self._news)
        self._news.clear()
        return news

    def keep(self, is_tenant: Callable[[str], bool]) -> None:
        """Forget everything of those who are tenants no more: whoever comes by that name is another."""
        for tenant in [tenant for tenant in self._known if not is_tenant(tenant)]:
            self.count -= len(self._known.pop(tenant))

    def _shrink(self, known: dict[str, bool]) -> None:
        oldest = list(known)[: len(known) // SHRINK + 1]
        for family in oldest:
            del known[family]
        self.count -= len(oldest)
