"""The two warehouses, each with a lake beside it."""

from __future__ import annotations

import duckdb
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.lake import duckdb as of_duckdb
from airflow_provider_assistant.lake import postgres, warehouse
from tests.live.postgres import PostgresServer


@pytest.fixture(scope="session")
def server():
    with PostgresServer() as running:
        yield running


@pytest.fixture
def engine(server):
    """An engine of a server without a warehouse."""
    engine = sa.create_engine(server.url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA IF EXISTS assistant CASCADE")
    yield engine
    engine.dispose()


class DuckDB:
    """A warehouse in a DuckDB file."""

    def __init__(self, folder):
        self.root = folder / "lake"
        self.file = folder / "warehouse.duckdb"

    def load(self, names=None):
        return of_duckdb.load(
            str(self.file), "assistant", str(self.root), warehouse.days_to_load(str(self.root), names)
        )

    def query(self, sql):
        with duckdb.connect(self.file, read_only=True) as connection:
            return connection.sql(sql).to_arrow_table().to_pylist()

    def rows(self, name):
        return self.query(f"SELECT * FROM assistant.{name}")


class Postgres(DuckDB):
    """A warehouse in PostgreSQL."""

    def __init__(self, folder, engine):
        super().__init__(folder)
        self.engine = engine

    def load(self, names=None, engine=None, **options):
        days = warehouse.days_to_load(str(self.root), names)
        return postgres.load(engine or self.engine, "assistant", str(self.root), days, **options)

    def query(self, sql):
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.exec_driver_sql(sql).mappings()]

    def run(self, *statements):
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


@pytest.fixture
def on_duckdb(tmp_path):
    return DuckDB(tmp_path)


@pytest.fixture
def on_postgres(tmp_path, engine):
    return Postgres(tmp_path, engine)


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.system)])
def base(request):
    """Either warehouse."""
    return request.getfixturevalue(f"on_{request.param}")
