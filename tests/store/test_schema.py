import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import StoreError, StoreUnavailableError
from store.reading import SampleReader
from store.samples import SampleStore
from store.schema import store_path
from tests.store.bodies import body, entry

Damage = Callable[[Path], None]

UP = {"__name__": "up"}
BODY = body(*(entry({"__name__": "up", "gpu": str(number)}, (number, 1.0), (7, 2.0)) for number in range(10, 310)))


@pytest.mark.parametrize("tenant_id", ["team-ml", "a!b-c_d.e*f'g(h)", "...", ".hidden", "x.db-wal", "-", "t" * 150])
def test_file_of_a_tenant(tmp_path: Path, tenant_id: str) -> None:
    """Each tenant id is a file of its own in one folder, and can be opened, written and read there."""
    path = store_path(tmp_path, tenant_id)
    assert path == tmp_path / "tenants" / f"{tenant_id}.db"
    with closing(SampleStore(path)) as store:
        store.append(BODY)
    assert SampleReader(path).count() == 600
    assert all(each.name.startswith(path.name) for each in path.parent.iterdir())


@pytest.mark.parametrize(
    "tenant_id",
    ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\0b", "a b", "a\n", "ä", "a|b", "a:b", "t" * 151, "%2e"],
)
def test_no_tenant_leads_elsewhere(tmp_path: Path, tenant_id: str) -> None:
    """What is no tenant id gives no path."""
    with pytest.raises(StoreError, match="is no tenant id"):
        store_path(tmp_path, tenant_id)


def _made(path: Path) -> Path:
    with closing(SampleStore(path)) as store:
        store.append(BODY)
    return path


def _not_a_database(path: Path) -> None:
    path.write_text("these are not the samples that you look for\n" * 100)


def _another_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE series (id INTEGER PRIMARY KEY)")


def _newer_version(path: Path) -> None:
    _made(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def _cut(path: Path) -> None:
    _made(path)
    with path.open("r+b") as file:
        file.truncate(4096)


def _folder(path: Path) -> None:
    path.mkdir()


def _no_labels(path: Path) -> None:
    _made(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE series SET labels = '[' || id")


@pytest.mark.parametrize("damage", [_not_a_database, _another_database, _newer_version, _cut, _folder, _no_labels])
def test_files_that_are_not_ours(tmp_path: Path, damage: Damage) -> None:
    """A file that is no database, another one's or damaged gives a sentence that names it, and is left alone."""
    path = tmp_path / "x.db"
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=r"x\.db") as refusal:
        list(SampleReader(path).select({}, 0, 1 << 62))
    assert "\n" not in str(refusal.value)
    if damage is not _no_labels:  # which a writer does not look at
        with pytest.raises(StoreError, match=r"x\.db"):
            SampleStore(path).append(BODY)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    """A reader makes no file: before the first append it is told to come again."""
    with pytest.raises(StoreUnavailableError, match=r"x\.db"):
        SampleReader(tmp_path / "x.db").count()
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file where the folder should be is said in a sentence."""
    (tmp_path / "tenants").write_text("")
    with pytest.raises(StoreUnavailableError, match="tenants"):
        SampleStore(store_path(tmp_path, "x"))


def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """An empty file, which a crash while it was made leaves, is made anew."""
    path = tmp_path / "x.db"
    path.touch()
    with pytest.raises(StoreError, match=r"x\.db"):
        SampleReader(path).count()
    assert SampleReader(_made(path)).count() == 600


@pytest.mark.fuzz
def test_flipped_bytes(tmp_path: Path) -> None:
    """A file with bytes exchanged anywhere gives samples or StoreError, to the reader and to the writer."""
    whole = _made(tmp_path / "whole.db")
    dice = random.Random(20260101)
    for number in range(100):
        path = tmp_path / f"{number}.db"
        shutil.copy(whole, path)
        raw = bytearray(path.read_bytes())
        for _ in range(dice.choice([1, 10, 200])):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        path.write_bytes(raw)
        _used_or_refused(path)


def _used_or_refused(path: Path) -> None:
    reader = SampleReader(path)
    for use in (
        lambda: list(reader.select({}, 0, 1 << 62)),
        lambda: list(reader.series(UP)),
        reader.count,
        lambda: _made(path),
    ):
        try:
            use()
        except StoreError as error:
            said = str(error)
        else:
            said = "used"
        assert "\n" not in said
