"""What the tests of carrying share: entries and items by name, budgets, and a store to carry them to."""

from collections.abc import Callable

from proxy.core.carrying import Carrying, Item, Settled
from proxy.core.outcome import DELIVERED, Outcome, Refused, Retryable
from tests.proxy.core.messages import blob, block, exemplar, sample

BAD = Refused("upstream_400", 400)
PARTIAL = Refused("upstream_400_partial", 400)
REST = Refused("upstream_400_rest", 400)
LARGE = Refused("upstream_413", 413)
TOO_OLD = Refused("too_old", 400)
SLOW = Retryable("upstream_429")
FAULT = Retryable("upstream_503")


def entry_of(name: str, samples: int = 1, exemplars: int = 0) -> bytes:
    """One framed entry."""
    points = [sample(1.0, at) for at in range(samples)] + [exemplar(1.0, at) for at in range(exemplars)]
    return blob(1, block(("__name__", name)) + b"".join(points))


def item_of(*names: str, made: int = 0) -> Item:
    """An item of entries with one sample each."""
    return Item(b"".join(entry_of(name) for name in names), len(names), made, 0)


def joined(*names: str) -> bytes:
    """The bytes of such an item."""
    return item_of(*names).entries


def budget_of(requests: int) -> Callable[[], bool]:
    """So many requests, then none."""
    grants = iter([True] * requests)
    return lambda: next(grants, False)


def endless() -> bool:
    """A budget that has always one more."""
    return True


def untouched() -> bool:
    """A budget that nobody may ask."""
    raise AssertionError("the splitting budget is touched")


def carry(carrying: Carrying, store: Callable[[bytes], Outcome]) -> tuple[list[bytes], list[Settled]]:
    """Carry on until all is settled; the requests and what they settled."""
    requests = []
    settled = []
    while carrying.request is not None:
        requests.append(carrying.request)
        settled += carrying.replied(store(carrying.request))
    return requests, settled


def refusing(*bad: bytes) -> Callable[[bytes], Outcome]:
    """A store that refuses a request whole for any of these entries."""
    return lambda body: BAD if any(entry in body for entry in bad) else DELIVERED


def scripted(*outcomes: Outcome) -> Callable[[bytes], Outcome]:
    """A store that replies so, one after the other, and takes all that comes then."""
    script = iter(outcomes)
    return lambda _: next(script, DELIVERED)
