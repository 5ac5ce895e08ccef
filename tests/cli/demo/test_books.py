"""The verdict has a sentence for each way in which books can be wrong."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest

from cli.demo.books import Books, QuarantineBooks, TenantBooks, read_books, verdict
from proxy.core.books import Books as ProxyBooks
from proxy.metrics import Gauges, ProxyMetrics, QueueTotals

GOOD = Books(
    received=100,
    fates={"rejected": 1, "quarantined": 20, "filtered": 9, "duplicate": 10, "routed": 60},
    tenants={
        "a": TenantBooks(parts=50, made=2, recovered=5, delivered=40, queued=5, dropped={"too_old": 7, "x": 3}),
        "b": TenantBooks(parts=20, delivered=20),
    },
    quarantine=QuarantineBooks(recovered=5, released=3, dropped=2, waiting=20),
)


def tenant(**changes: Any) -> Books:
    """Good books but for tenant a."""
    return replace(GOOD, tenants={**GOOD.tenants, "a": replace(GOOD.tenants["a"], **changes)})


def quarantine(**changes: Any) -> Books:
    """Good books but for the quarantine."""
    return replace(GOOD, quarantine=replace(GOOD.quarantine, **changes))


NO_FATE = "{} samples have no fate, or several"
NOWHERE = "{} parts of a ended nowhere, or more than once"
UNTRACED = "{} samples left the quarantine without a trace, or twice"

ROWS = [
    pytest.param(replace(GOOD, received=101), NO_FATE.format("+1"), id="received-without-a-fate"),
    pytest.param(replace(GOOD, received=0), NO_FATE.format("-100"), id="fates-of-nothing"),
    *(
        pytest.param(
            replace(GOOD, fates={**GOOD.fates, fate: GOOD.fates[fate] + 1}), NO_FATE.format("-1"), id=f"{fate}-twice"
        )
        for fate in ("rejected", "filtered", "duplicate", "routed")
    ),
    pytest.param(tenant(parts=51), NOWHERE.format("+1"), id="part-that-ended-nowhere"),
    pytest.param(tenant(recovered=1_005), NOWHERE.format("+1,000"), id="recovered-that-ended-nowhere"),
    pytest.param(tenant(delivered=41), NOWHERE.format("-1"), id="delivered-twice"),
    pytest.param(tenant(queued=6), NOWHERE.format("-1"), id="queued-and-delivered"),
    pytest.param(tenant(dropped={"too_old": 7}), NOWHERE.format("+3"), id="drop-without-a-count"),
    pytest.param(quarantine(waiting=19), UNTRACED.format("+1"), id="lost-in-quarantine"),
    pytest.param(quarantine(recovered=4), UNTRACED.format("-1"), id="recovered-out-of-nothing"),
    pytest.param(quarantine(released=4), UNTRACED.format("-1"), id="released-twice"),
    pytest.param(quarantine(dropped=1), UNTRACED.format("+1"), id="dropped-without-a-count"),
    pytest.param(
        replace(GOOD, tenants={"a": GOOD.tenants["a"]}),
        "b got no samples",
        id="tenant-without-books",
    ),
    pytest.param(
        replace(GOOD, tenants={**GOOD.tenants, "b": TenantBooks(parts=3, queued=3)}),
        "b got no samples",
        id="tenant-that-only-waits",
    ),
]


@pytest.mark.parametrize(("books", "sentence"), ROWS)
def test_each_imbalance_is_a_sentence(books: Books, sentence: str) -> None:
    """One thing that is wrong makes one sentence, and never passes as balanced."""
    assert verdict(books, ["a", "b"]) == (sentence,)
    assert books.balanced == sentence.endswith("got no samples")


def test_good_books_have_no_sentence() -> None:
    """Books in which every equation holds and each tenant got samples are good."""
    assert verdict(GOOD, ["a", "b"]) == ()
    assert GOOD.balanced


def test_everything_wrong_is_told_at_once() -> None:
    """Each thing that is wrong has its sentence, in one verdict."""
    books = replace(tenant(parts=0), received=99, quarantine=QuarantineBooks())
    assert len(verdict(books, ["a", "b", "c"])) == 4


class FullQuarantine:
    """A quarantine with something of everything."""

    waiting = {"unknown_owner": 4, "invalid_tenant": 2}  # noqa: RUF012 - what the Protocol asks for
    recovered = {"unknown_owner": 1}  # noqa: RUF012 - as above
    dropped = {"age": 3}  # noqa: RUF012 - as above
    released = 0


class NoQueues:
    """No tenant has ever had a queue."""

    @staticmethod
    def all() -> dict[str, QueueTotals]:
        """None."""
        return {}


def test_books_are_read_from_the_proxys_own_metrics() -> None:
    """What the real metrics of the proxy tell is read back to the last part."""
    kept = ProxyBooks()
    kept.received["prom-a", "1.0"] = 20
    kept.received["prom-b", "1.0"] = 10
    for kind, of, detail, count in (
        ("routed", "", "", 11),
        ("duplicate", "", "", 2),
        ("filtered", "a", "write_relabel_configs[0]", 3),
        ("filtered", "", "stale", 5),
        ("rejected", "", "duplicate_label", 1),
        ("quarantined", "", "unknown_owner", 8),
    ):
        kept.fate(kind, of, detail).samples = count
    books = kept.tenant("a")
    books.parts, books.made, books.recovered, books.delivered, books.queued = 12, 1, 2, 9, 3
    books.dropped.update({"too_old": 2})
    kept.tenant("b")
    gauges = Gauges(
        {}, 1, config_last_reload_successful=True, wire_compiled=True, cached_series=0, circuits={}, now_ms=0
    )
    metrics = ProxyMetrics(kept, FullQuarantine(), NoQueues(), lambda: gauges)
    assert read_books(generate_latest(metrics.registry).decode()) == Books(
        received=30,
        fates={"routed": 11, "duplicate": 2, "filtered": 8, "rejected": 1, "quarantined": 8},
        details={
            "filtered": {"stale": 5, "a write_relabel_configs[0]": 3},
            "rejected": {"duplicate_label": 1},
            "quarantined": {"unknown_owner": 8},
        },
        tenants={
            "a": TenantBooks(parts=12, made=1, recovered=2, delivered=9, queued=3, dropped={"too_old": 2}),
            "b": TenantBooks(),
        },
        quarantine=QuarantineBooks(recovered=1, dropped=3, waiting=6),
    )


def test_a_text_that_is_no_exposition() -> None:
    """Another answer than metrics is a ValueError, or empty books, in which no tenant got samples."""
    with pytest.raises(ValueError, match="x"):
        read_books("<html>{x y}")
    assert verdict(read_books(""), ["a"]) == ("a got no samples",)
