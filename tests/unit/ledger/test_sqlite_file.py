"""A SQLite file as a ledger: settings, and files that are damaged or belong to others."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import (
    Filter,
    Ledger,
    LedgerLocation,
    RunRef,
    Scope,
    Site,
    hash_of,
    queries,
    sqlite_engine,
)
from tests.unit.ledger.attempts import created

RUN = RunRef("shop", "monday", "faq", -1)
SCOPE = Scope(Site("service", "help"), "qa")


@pytest.fixture
def file(tmp_path):
    """A ledger with an entry, in one file."""
    path = tmp_path / "ledger.db"
    with Ledger(sqlite_engine(path)) as ledger, ledger.of(SCOPE, "shop.faq", RUN) as attempts:
        for number in range(20):
            created(attempts, f"row {number}")
    return path


def use(path):
    """Open a ledger and read it as a load does, and return the number of its entries."""
    with Ledger(sqlite_engine(path)) as ledger:
        with ledger.of(SCOPE, "shop.faq", RUN) as attempts:
            attempts.known([hash_of("row 1"), hash_of("other")])
        ledger.read(queries.entries, ledger.clock, Filter(), limit=1000)
        return sum(row["entries"] for row in ledger.read(queries.states, Filter()))


@pytest.mark.parametrize("extra", ["", "?timeout=7"])
def test_a_connection_has_the_settings_of_the_default_file(tmp_path, monkeypatch, extra):
    monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"sqlite:///{tmp_path}/team.db{extra}")
    with Ledger.open(LedgerLocation("team")) as ledger, ledger.engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert found == ["wal", 2]
        if "__extra__" in ledger.engine.url.query:
            pytest.skip("this version of Airflow's provider for SQLite ignores the settings of a connection")
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == (7000 if extra else 60_000)


def _application(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE orders (id); CREATE TABLE customers (id)")


def _renamed(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("ALTER TABLE assistant_attempts RENAME COLUMN content_hash TO hash")


def _dropped(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TABLE assistant_attempts")


def _copied_without_log(path):
    """As a file copy of a new ledger that a load is writing to."""
    path.unlink()
    with closing(sqlite3.connect(path)) as live:
        live.execute("PRAGMA journal_mode=WAL")
        live.execute("CREATE TABLE assistant_attempts (key)")
        shutil.copyfile(path, path.with_name("copy"))
    path.unlink()
    path.with_name("copy").rename(path)


BROKEN = {
    "another application": (lambda path: path.unlink() or _application(path), "another application.*customers, orders"),
    "a renamed column": (_renamed, "content_hash.*changed by hand"),
    "a dropped table": (_dropped, "assistant_attempts.*changed by hand"),
    "a copy without its log": (_copied_without_log, "copied without its file -wal"),
    "text": (lambda path: path.write_text("key,question\n" * 500), "not a SQLite database"),
    "a truncated header": (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\1" * 200), "not a SQLite database"),
    "a truncated file": (lambda path: path.write_bytes(path.read_bytes()[:9000]), "damaged"),
    "a folder": (lambda path: path.unlink() or path.mkdir(), "path is a folder"),
    "no folder": (lambda path: path.unlink() or path.parent.rmdir(), "its folder does not exist"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_ledger_are_refused_with_what_to_do(name, file, monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.ledger.sqlite_file.CREATION_SECONDS", 0.2)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    change, words = BROKEN[name]
    change(file)
    content = file.read_bytes() if file.is_file() else None
    with pytest.raises(AssistantLedgerError, match=words) as caught:
        use(file)
    text = str(caught.value)
    assert str(file) in text
    assert "a retry cannot correct this" in text
    if name in {"another application", "a copy without its log", "text"}:
        assert file.read_bytes() == content


def test_an_empty_file_becomes_a_ledger(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "ledger.db").touch()
    assert use(tmp_path / "ledger.db") == 0
    assert "A new, empty ledger was created" in caplog.text


def test_damage_at_any_place_is_an_error_of_the_ledger_or_without_effect(file, monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.ledger.sqlite_file.CREATION_SECONDS", 0.0)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    whole = file.read_bytes()
    randomness = random.Random(17)
    outcomes = set()
    for number in range(30):
        damaged = bytearray(whole)
        # The header, the schema, and any page.
        end = (100, 4096, len(whole))[number % 3]
        for _ in range(randomness.choice((1, 3, 40))):
            damaged[randomness.randrange(end)] ^= randomness.randrange(1, 256)
        if number % 5 == 4:
            del damaged[randomness.randrange(1, len(whole)) :]
        path = file.with_name(f"{number}.db")
        path.write_bytes(damaged)
        try:
            outcomes.add(use(path) >= 0)
        except AssistantLedgerError as error:
            outcomes.add((error.retryable, str(path) in str(error)))
    assert {True, (False, True)} <= outcomes
    assert not outcomes & {(True, False), (False, False)}
