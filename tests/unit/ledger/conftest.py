"""Ledgers with a fixed clock in each database that a ledger may have, and heartbeats that a test writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from tests.live.postgres import PostgresServer, programs

# Two seconds before midnight, with microseconds, which a database may truncate.
START = datetime(2026, 11, 21, 23, 59, 58, 123456, tzinfo=UTC)
# A rule of the ledger holds in each of them. Tests that are to run on PostgreSQL without the marker "system", too,
# have the parameters EVERYWHERE.
ENGINES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.system))
EVERYWHERE = ("sqlite", "postgresql")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Heartbeats:
    """Schedule heartbeats that are written when a test calls :meth:`beat`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._beats: list[Callable[[], None]] = []

    def __call__(self, seconds: float, beat: Callable[[], None]) -> Callable[[], None]:
        self.seconds.append(seconds)
        self._beats.append(beat)
        return lambda: self._beats.remove(beat)

    def beat(self) -> None:
        for beat in list(self._beats):
            beat()

    def __len__(self) -> int:
        return len(self._beats)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests; each test has separate schemas."""
    if programs() is None:
        pytest.skip("no PostgreSQL")
    with PostgresServer() as server:
        # Nobody needs the data after a crash.
        server.run_sql("ALTER SYSTEM SET fsync = off")
        server.run_sql("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(params=ENGINES)
def database(request, tmp_path):
    """
    Return a function that connects to a database of this test, which is empty at first.

    Each call returns another engine, as each worker has one. Its argument is the name of the database.
    """
    if request.param == "sqlite":
        yield lambda name="ledger": sqlite_engine(tmp_path / f"{name}.db")
        return
    url = request.getfixturevalue("postgres").url
    engines = [sa.create_engine(url)]
    schemas = set()

    def connect(name="ledger", **arguments):
        if name not in schemas:
            schemas.add(name)
            with engines[0].begin() as connection:
                connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")
        options = f"-csearch_path={name} {arguments.pop('options', '')}"
        engines.append(sa.create_engine(url, connect_args={"options": options}, **arguments))
        return engines[-1]

    yield connect
    for engine in engines:
        engine.dispose()


@pytest.fixture
def ledger(database, clock):
    with Ledger(database(), now=clock) as opened:
        yield opened


@pytest.fixture
def no_waits(monkeypatch):
    """Repeat what the database refused without a pause."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
