import pytest

from proxy.core.books import DUPLICATE, FILTERED, QUARANTINED, REJECTED, ROUTED, Books, TenantBooks


def test_a_fate_is_one_line() -> None:
    """The same fate is one line of the books, whoever asks for it; another tenant or reason is another line."""
    books = Books()
    line = books.fate(FILTERED, "ml", "stale")
    line.samples += 3
    assert books.fate(FILTERED, "ml", "stale") is line
    assert books.fate(FILTERED, "", "stale") is not line
    assert books.fate(FILTERED, "ml", "idle") is not line
    assert [(fate.kind, fate.tenant, fate.detail, fate.samples) for fate in books.fates()] == [
        ("filtered", "ml", "stale", 3),
        ("filtered", "", "stale", 0),
        ("filtered", "ml", "idle", 0),
    ]


def test_totals_by_kind() -> None:
    """A kind's total is that of all its lines."""
    books = Books()
    books.fate(REJECTED, "", "a").samples += 1
    books.fate(REJECTED, "", "b").samples += 2
    books.fate(ROUTED).samples += 4
    assert [books.total(kind) for kind in (REJECTED, ROUTED, DUPLICATE)] == [3, 4, 0]


def test_a_tenant_begins_empty() -> None:
    """A tenant is known from its first mention on, with nothing counted."""
    books = Books()
    assert books.tenant("ml") is books.tenant("ml")
    assert books.tenant("ml") == TenantBooks()
    assert books.imbalances() == ()


def test_dropped_is_made_and_ended() -> None:
    """A part that is dropped was made: it is in both counts, and the books balance."""
    tenant = TenantBooks()
    tenant.drop("labels_per_series", 2)
    tenant.drop("collision", 1)
    assert (tenant.parts, dict(tenant.dropped), tenant.imbalance()) == (3, {"labels_per_series": 2, "collision": 1}, 0)


@pytest.mark.parametrize(
    ("tenant", "imbalance"),
    [
        (TenantBooks(parts=5, delivered=3, queued=2), 0),
        (TenantBooks(parts=5, recovered=4, delivered=9), 0),
        (TenantBooks(parts=5, delivered=3), 2),
        (TenantBooks(recovered=1), 1),
        (TenantBooks(parts=5, delivered=5, queued=1), -1),
        (TenantBooks(parts=5, made=5, delivered=5), 0),
    ],
)
def test_parts_end_in_one_place(tenant: TenantBooks, imbalance: int) -> None:
    """`parts + recovered = delivered + dropped + queued`; markers of ours are among the parts."""
    assert tenant.imbalance() == imbalance


def test_imbalances_are_told() -> None:
    """Each equation that does not hold is one sentence, with how much and where."""
    books = Books()
    books.received["prom", "1.0"] += 5
    books.fate(QUARANTINED, "", "unknown_owner").samples += 3
    books.tenant("b").parts = 1
    books.tenant("a").delivered = 2
    assert books.imbalances() == (
        "2 received samples have no fate or several",
        "-2 parts of tenant a ended nowhere or more than once",
        "1 parts of tenant b ended nowhere or more than once",
    )
