"""What the demo shows: the live table, the plain line, the books with their verdict."""

from random import Random

from rich.console import Console, RenderableType

from cli.demo import table
from cli.demo.books import Books, QuarantineBooks, TenantBooks
from cli.demo.hardware import CARDS, TENANTS, WORKLOADS
from cli.demo.simulation import HandOver, start_pod
from tests.cli.command import stripped

CHANCE = Random(1)
NLP, VISION = (start_pod(WORKLOADS[number], 1, CHANCE) for number in (2, 4))
BOOKS = Books(
    received=12_345,
    fates={"rejected": 0, "quarantined": 345, "filtered": 1_000, "duplicate": 0, "routed": 11_000},
    details={"filtered": {"platform write_relabel_configs[0]": 1_000}, "quarantined": {"unknown_owner": 345}},
    tenants={tenant: TenantBooks(parts=3_000, delivered=2_990, dropped={"too_old": 10}) for tenant in TENANTS},
    quarantine=QuarantineBooks(waiting=345),
)


def shown(what: RenderableType, width: int = 80) -> str:
    """What a terminal of that width shows, without colours."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(what)
    return stripped(capture.get())


def status() -> table.Status:
    """A demo after a while."""
    found = table.Status(turn=12, seconds=12.3, until=20, idle=4, books=BOOKS, stored=dict.fromkeys(TENANTS, 128))
    found.note(HandOver(1_767_225_000_000, CARDS[3], NLP, VISION))
    found.note(HandOver(1_767_225_005_000, CARDS[9], VISION, None))
    return found


def test_the_live_table_fits_and_has_each_tenant() -> None:
    """At 80 columns each tenant has its parts, what was delivered and dropped, its series, and its last hand-over."""
    text = shown(table.live(status()))
    assert text.splitlines()[0] == "12 of 20 s, 12,345 samples received, 345 in quarantine, 4 GPUs idle"
    rows = {line.split()[0]: line.split() for line in text.splitlines()[2:] if line[2:].startswith(TENANTS)}
    assert set(rows) == set(TENANTS)
    assert rows["team-nlp"] == ["team-nlp", "3,000", "2,990", "10", "128", "23:50:00", "gpu-node-a/3"]
    assert rows["team-vision"][-2:] == ["23:50:05", "gpu-node-b/1"]
    assert rows["platform"][-2:] == ["23:50:05", "gpu-node-b/1"]
    assert rows["team-ml"][-1] == "-"
    assert "team-nlp -> team-vision" in text
    assert "team-vision -> idle" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_plain_line_has_the_same() -> None:
    """Where no table can change in place, one line tells each tenant's samples and the last hand-over."""
    assert table.plain(status()) == (
        " 12 s  12,345 samples received, team-ml 2,990 delivered, team-nlp 2,990 delivered, "
        "team-vision 2,990 delivered, "
        f"platform 2,990 delivered; last hand-over gpu-node-b/1 team-vision/{VISION.name} -> idle at 23:50:05"
    )


def test_good_books_are_ticked() -> None:
    """Books that balance have a tick at each equation, and say so."""
    text = shown(table.final_books(BOOKS, (), dict.fromkeys(TENANTS, 128)))
    assert text.count("\N{CHECK MARK}") == 2 + len(TENANTS)
    rows = [line.split() for line in text.splitlines()]
    assert ["=", "rejected", "0"] in rows
    assert ["platform", "write_relabel_configs[0]", "1,000"] in rows
    assert text.endswith("The books balance, and every tenant got its samples.\n")
    assert max(map(len, text.splitlines())) <= 80


def test_bad_books_show_the_difference() -> None:
    """Books that do not balance show by how much, and each sentence of the verdict."""
    books = Books(received=5, fates={"routed": 3}, tenants={"team-ml": TenantBooks(parts=7, delivered=9)})
    text = shown(table.final_books(books, ("something", "something else"), {}))
    assert "difference" in text
    assert "+2" in text
    assert "-2" in text
    assert "\N{CHECK MARK} The" not in text
    assert text.endswith("whosegpu: something\nwhosegpu: something else\n")


def test_the_heading_says_where_to_look() -> None:
    """The addresses of page, metrics and push stand first, each whole on its line."""
    lines = shown(table.heading("http://127.0.0.1:41234", "/tmp/x")).splitlines()
    assert "  page      http://127.0.0.1:41234/" in lines
    assert "  metrics   http://127.0.0.1:41234/metrics" in lines
    assert "  push URL  http://127.0.0.1:41234/api/v1/push" in lines
    ask = next(number for number, line in enumerate(lines) if "whosegpu explain" in line)
    assert lines[ask : ask + 2] == [
        "  ask       whosegpu explain --url http://127.0.0.1:41234 \\",
        f"    'DCGM_FI_DEV_GPU_UTIL{{UUID=\"{CARDS[0].uuid}\"}}'",
    ]
    assert max(map(len, lines)) <= 80
