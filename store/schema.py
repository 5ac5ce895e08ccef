"""The file of one tenant: where it lies, what is in it, how it is opened, and what its errors mean.

`series.labels` is the label set as JSON, names sorted; `label_pairs` has the same once more, for finding series.

`samples.value` has two types, which SQLite keeps apart. An INTEGER is a float sample: its 64 bits read as a signed
number, because SQLite cannot store a NaN, and stale markers are NaNs. A BLOB is a native histogram: the protobuf
message. A series has one value at a time, the first that came.

Samples lie in the order of time, not of series: a scrape's samples then share a few pages. By series each would have a
page of its own, and a commit would write a hundred times as much. A read goes through all samples of its range.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from store.errors import StoreError, StoreUnavailableError

TABLES: Final = """
CREATE TABLE series (id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE);
CREATE TABLE label_pairs (
    name TEXT NOT NULL, value TEXT NOT NULL, series INTEGER NOT NULL REFERENCES series,
    PRIMARY KEY (name, value, series)
) WITHOUT ROWID;
CREATE TABLE samples (
    at_ms INTEGER NOT NULL, series INTEGER NOT NULL REFERENCES series, value NOT NULL,
    PRIMARY KEY (at_ms, series)
) WITHOUT ROWID;
"""
APPLICATION_ID: Final = 0x77686F73  # "whos", in the file's header: this is no database of something else
VERSION: Final = 1

BUSY_SECONDS: Final = 5.0  # a checkpoint takes less; a second writer is a mistake and is told so after it
WAL_BYTES: Final = 64 << 20  # to which the log is cut after a reader held it open for long; a usual one has 4 MiB

_TENANT_ID: Final = re.compile(r"[A-Za-z0-9!\-_.*'()]{1,150}")  # Mimir's and Cortex' rule; no separator of paths

_RETRYABLE: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def store_path(data_dir: Path, tenant_id: str) -> Path:
    """The file of a tenant; raises StoreError for an id that is no tenant id, so that none leads out of the folder."""
    if _TENANT_ID.fullmatch(tenant_id) is None or tenant_id in {".", ".."}:
        raise StoreError(f"{tenant_id[:200]!r} is no tenant id: 1 to 150 of A-Z a-z 0-9 ! - _ . * ' ( ), not . or ..")
    return data_dir / "tenants" / f"{tenant_id}.db"


@contextmanager
def told(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, with the file's name."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the extended part
        if code in _RETRYABLE:
            raise StoreUnavailableError(f"{path} cannot be used now: {error}") from error
        said = " ".join(str(error).split())  # one line, whatever a damaged schema has in it
        raise StoreError(f"{path} is damaged or not a database of whosegpu: {said}") from error
    except UnicodeDecodeError as error:  # the name of a damaged table, in SQLite's own message about it
        raise StoreError(f"{path} is damaged: {error}") from error


def open_writer(path: Path) -> sqlite3.Connection:
    """The file for writing, made with its folder where it is not there; raises StoreError."""
    try:
        _make_folder(path.parent)
    except OSError as error:
        raise StoreUnavailableError(f"{path.parent} cannot be made: {error.strerror}") from error
    with told(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _begin(connection, path)
            _sync_folder(path.parent)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def open_reader(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as it is at this moment, for reading; raises StoreError, also when it is not there (yet)."""
    with told(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN")
            _check(connection, path)
            yield connection
        finally:
            connection.close()


def _begin(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        _check(connection, path)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{path} needs a local volume: it cannot have a write-ahead log there")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not one of whosegpu")
    if version != VERSION:
        raise StoreError(f"{path} has version {version} of the schema, this whosegpu knows version {VERSION}")


def _make_folder(folder: Path) -> None:
    """Makes a folder that is still there after a loss of power."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
