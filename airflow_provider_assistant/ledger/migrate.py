"""Creation of the ledger's tables, and their migration to a later version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.ledger.schema import metadata, schema_versions
from airflow_provider_assistant.storage.databases import cause_of

Migration: TypeAlias = Callable[[sa.Connection], None]
# The first migration upgrades version 1 to version 2, and so on. Each must be repeatable, because SQLite
# does not roll back changes of tables.
MIGRATIONS: tuple[Migration, ...] = ()
SCHEMA_VERSION = 1 + len(MIGRATIONS)


@tenacity.retry(
    # Two workers that open a new ledger at the same time both create its tables; one of them gets an error.
    retry=tenacity.retry_if_exception(lambda error: isinstance(error, sa.exc.DBAPIError) and cause_of(error) is None),
    stop=tenacity.stop_after_attempt(6),
    wait=tenacity.wait_random(0.05, 0.5),
    reraise=True,
)
def migrate(engine: sa.Engine, migrations: Sequence[Migration] = MIGRATIONS) -> tuple[int | None, int]:
    """
    Create the tables of a ledger, or migrate those of an earlier version.

    A ledger of a later version is not changed.

    :param migrations: The migrations from version 1 on.
    :return: Schema version before the call, None for a new ledger, and schema version after it.
    """
    newest = 1 + len(migrations)
    with engine.begin() as connection:
        version_before = version_of(connection)
        if version_before is not None and version_before >= newest:
            return version_before, version_before
        if version_before is None:
            # A process that was killed may have left some of the tables.
            metadata.create_all(connection)
        else:
            # The first migration, which has the index 0, upgrades version 1.
            for migration in migrations[version_before - 1 :]:
                migration(connection)
        connection.execute(sa.insert(schema_versions).values(version=newest))
    return version_before, newest


def creation_statements() -> list[str]:
    """Return the statements that create the tables of a ledger in PostgreSQL, for an administrator."""
    statements: list[str] = []

    def add(statement: Any, *_: Any, **__: Any) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)).strip())

    engine = sa.create_mock_engine("postgresql+psycopg://", add)
    metadata.create_all(engine, checkfirst=False)
    statements.append(f"INSERT INTO {schema_versions.name} (version) VALUES ({SCHEMA_VERSION})")  # noqa: S608
    return statements


def version_of(connection: sa.Connection) -> int | None:
    """Return the schema version of a ledger, or None if its tables have not been created."""
    if not sa.inspect(connection).has_table(schema_versions.name):
        return None
    # Each migration has added a row.
    version: int | None = connection.scalar(sa.select(sa.func.max(schema_versions.c.version)))
    return version
