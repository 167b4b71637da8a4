"""Ledgers with a fixed clock in each database that a ledger may have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.ledger import Ledger, RunRef, Scope, Site, sqlite_engine
from airflow_provider_assistant.ledger.clock import Clock as LedgerClock
from tests.live.postgres import PostgresServer, programs

# Two seconds before midnight, with microseconds, which a database may truncate.
START = datetime(2026, 11, 21, 23, 59, 58, 123456, tzinfo=UTC)
LEASE = timedelta(seconds=60)
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
    with Ledger(database(), ledger_clock=LedgerClock(LEASE, clock)) as opened:
        yield opened


@pytest.fixture
def scoped(ledger):
    """Return a function that opens the ledger of a scope for one try; the ledgers are closed at the end."""
    with contextlib.ExitStack() as stack:

        def opened(source="shop.faq", run="monday", *, kind="qa", site="help", namespace=None, service="service"):
            scope = Scope(Site(service, site, url=f"http://{service}/m2m/sites/{site}"), kind, namespace)
            reference = RunRef("shop", run, "faq", -1)
            return stack.enter_context(ledger.of(scope, source, reference))

        yield opened


@pytest.fixture
def no_waits(monkeypatch):
    """Repeat what the database refused without a pause."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
