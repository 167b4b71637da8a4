"""Creation of the ledger's tables, and migration of those of older versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
import tenacity

from airflow_provider_assistant.ledger.schema import (
    SCHEMA_VERSION,
    AnyText,
    documents,
    metadata,
    questions,
    ratings,
    schema_versions,
    submissions,
)
from airflow_provider_assistant.ledger.scopes import BatchScope, parse_document_scope, parse_question_scope

_EFFECTS = (submissions, ratings, documents, questions)
# HTTP statuses that concern all rows of a load: authentication, permission, site, rate limit.
_OF_ALL_ROWS = (401, 403, 404, 429)
# Columns of versions before 6, and their current names.
_COLUMNS = {"intended_at": "claimed_at", "settled_at": "recorded_at"}


@tenacity.retry(
    # Two workers that open a new or older ledger at the same time both create its tables and columns. The second one
    # gets an error for each statement if the database has no transactional DDL.
    retry=tenacity.retry_if_exception_type(sa.exc.DBAPIError),
    stop=tenacity.stop_after_attempt(6),
    wait=tenacity.wait_random(0.05, 0.5),
    reraise=True,
)
def migrate(engine: sa.Engine) -> tuple[int | None, int]:
    """
    Create or migrate the tables of a ledger.

    Each step can be repeated, because not every database can roll back all of them. Versions before 6 only added to the
    tables. Version 6 renames columns, so a running task of an older package fails with an error at its next statement
    instead of writing outcomes that this package does not know. Version 7 adds the table of leases: claims of older
    packages have none. Version 8 adds the content of ambiguous documents, which earlier entries do not have, and
    indexes. Version 9 adds the groups of documents, which an entry gets when a load with ``group_columns`` sees its
    row. A ledger of a newer version is not changed.

    :param engine: Engine of the database.
    :return: Schema version before the call, None for a new ledger, and schema version after it.
    """
    with engine.begin() as connection:
        tables = sa.inspect(connection).get_table_names()
        newest = sa.select(sa.func.max(schema_versions.c.version))
        found = connection.scalar(newest) if schema_versions.name in tables else None
        if found is not None and found >= SCHEMA_VERSION:
            return found, found
        if metadata.tables.keys() & tables:
            _upgrade(connection)
        else:
            metadata.create_all(connection, checkfirst=False)
        connection.execute(sa.insert(schema_versions).values(version=SCHEMA_VERSION))
        return found, SCHEMA_VERSION


def _upgrade(connection: sa.Connection) -> None:
    """Bring the tables of an older version, or those that a process left behind when it died, up to date."""
    _rename_columns(connection)
    metadata.create_all(connection)
    _add_columns(connection)
    _lengthen_texts(connection)
    _rename_outcomes(connection)
    _split_scopes(connection)


def _rename_columns(connection: sa.Connection) -> None:
    """Give columns of versions before 6 their current names."""
    found, names = sa.inspect(connection), connection.dialect.identifier_preparer
    tables = set(found.get_table_names())
    for table in _EFFECTS:
        columns = {column["name"] for column in found.get_columns(table.name)} if table.name in tables else set()
        for old, new in _COLUMNS.items():
            if old in columns:
                connection.exec_driver_sql(f"ALTER TABLE {names.format_table(table)} RENAME COLUMN {old} TO {new}")


def _rename_outcomes(connection: sa.Connection) -> None:
    """Give outcomes of versions before 6 their current names."""
    for table in _EFFECTS:
        c = table.c
        refused: Any = sa.literal("failed")
        if "http_status" in c:
            concerns_row = c.http_status.between(400, 499) & c.http_status.not_in(_OF_ALL_ROWS)
            refused = sa.case((concerns_row, "rejected"), else_="failed")
        renamed = sa.case((c.outcome == "intended", "claimed"), (c.outcome == "done", "created"), else_=refused)
        older = c.outcome.in_(("intended", "done", "refused"))
        connection.execute(sa.update(table).where(older).values(outcome=renamed))


def _split_scopes(connection: sa.Connection) -> None:
    """Fill the columns with the parts of a scope, which versions before 6 do not have."""
    parsers: dict[sa.Table, Callable[[str], BatchScope | None]]
    parsers = {documents: parse_document_scope, questions: parse_question_scope}
    for table, parse in parsers.items():
        c = table.c
        for text in connection.scalars(sa.select(c.scope).where(c.site_url.is_(None)).distinct()).all():
            if scope := parse(text):
                is_same = (c.scope == text) & c.site_url.is_(None)
                connection.execute(sa.update(table).where(is_same).values(**scope.columns()))


def _add_columns(connection: sa.Connection) -> None:
    """Add the columns that the tables of an older version do not have."""
    found, names = sa.inspect(connection), connection.dialect.identifier_preparer
    for table in metadata.sorted_tables:
        there = {column["name"] for column in found.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                definition = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {names.format_table(table)} ADD COLUMN {definition}")


def _lengthen_texts(connection: sa.Connection) -> None:
    """Remove the length limits of text columns, and replace the indexes that depend on them."""
    found, dialect = sa.inspect(connection), connection.dialect
    for table in metadata.sorted_tables:
        there = {index["name"] for index in found.get_indexes(table.name)}
        for name in there & {f"ix_{table.name}_request_id"}:
            older = sa.Table(table.name, sa.MetaData(), sa.Column("request_id", sa.String(250)))
            sa.Index(name, older.c.request_id).drop(connection)
        limited = {
            column["name"] for column in found.get_columns(table.name) if getattr(column["type"], "length", None)
        }
        for column in table.columns:
            if dialect.name != "sqlite" and isinstance(column.type, AnyText) and column.name in limited:
                connection.exec_driver_sql(lengthened(column, dialect))
        for index in table.indexes:
            if index.name not in there:
                index.create(connection)


def lengthened(column: sa.Column[Any], dialect: sa.Dialect) -> str:
    """
    Return the statement that removes the length limit of a text column.

    :param column: The column.
    :param dialect: Dialect of a PostgreSQL or MySQL server.
    """
    names = dialect.identifier_preparer
    table, name = names.format_table(column.table), names.quote(column.name)
    if dialect.name == "postgresql":
        return f"ALTER TABLE {table} ALTER COLUMN {name} TYPE TEXT"
    return f"ALTER TABLE {table} MODIFY COLUMN {name} TEXT{'' if column.nullable else ' NOT NULL'}"
