"""A PostgreSQL server for the tests of a warehouse."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.live.postgres import PostgresServer


@pytest.fixture(scope="session")
def server():
    with PostgresServer() as running:
        yield running


@pytest.fixture
def postgres_warehouse(server):
    """An engine of a server without a warehouse."""
    engine = sa.create_engine(server.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA IF EXISTS assistant CASCADE")
    yield engine
    engine.dispose()
