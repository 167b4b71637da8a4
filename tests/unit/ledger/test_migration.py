"""Tables are created once, and migrated by a later version without loss of entries."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerPermanentError
from airflow_provider_assistant.ledger import SCHEMA_VERSION, Ledger, sqlite_engine
from airflow_provider_assistant.ledger.migrate import migrate, version_of
from airflow_provider_assistant.ledger.schema import ratings
from tests.threads import at_once
from tests.unit.ledger.single import rate


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def version(path):
    with sqlite_engine(path).connect() as connection:
        return version_of(connection)


def columns(path):
    """Return the definitions of all columns by table."""
    with sqlite3.connect(path) as raw:
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: raw.execute(f"PRAGMA table_info({name})").fetchall() for name in tables}


def add_comment(connection):
    """Migrate to a version 2 that ratings have a comment in."""
    names = [column["name"] for column in sa.inspect(connection).get_columns(ratings.name)]
    if "comment" not in names:
        connection.exec_driver_sql(f"ALTER TABLE {ratings.name} ADD COLUMN comment TEXT")


def test_a_later_version_migrates_the_tables_once_and_keeps_the_entries(path):
    engine = sqlite_engine(path)
    assert migrate(engine) == (None, SCHEMA_VERSION)
    with Ledger(engine) as ledger:
        rate(ledger, "good")
    assert migrate(engine, [add_comment]) == (1, 2)
    assert migrate(engine, [add_comment]) == (2, 2)
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT rating, comment FROM assistant_ratings").fetchall() == [("good", None)]


def test_a_ledger_of_a_later_version_is_refused_and_not_changed(path):
    migrate(sqlite_engine(path), [add_comment])
    before = columns(path)
    with pytest.raises(AssistantLedgerPermanentError, match=r"schema version 2, .* up to 1.*Nothing was sent. Upgrade"):
        Ledger(sqlite_engine(path))
    assert (columns(path), version(path)) == (before, 2)


def test_many_workers_migrate_at_once(path):
    migrate(sqlite_engine(path))
    at_once(6, lambda: migrate(sqlite_engine(path), [add_comment]))
    assert version(path) == 2


def test_many_workers_create_the_tables_at_once(path, tmp_path):
    at_once(6, lambda: Ledger(sqlite_engine(path)).close())
    Ledger(sqlite_engine(tmp_path / "other.db")).close()
    assert columns(path) == columns(tmp_path / "other.db")


def test_tables_that_a_killed_process_left_incomplete_are_completed(path, tmp_path):
    engine = sqlite_engine(path)
    with engine.begin() as connection:
        ratings.create(connection)
    Ledger(engine).close()
    Ledger(sqlite_engine(tmp_path / "other.db")).close()
    assert columns(path).keys() == columns(tmp_path / "other.db").keys()
    assert version(path) == SCHEMA_VERSION
