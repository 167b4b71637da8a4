"""Erase a person from the ledger and from the warehouse."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.erasure.person import Person
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import DATASETS
from airflow_provider_assistant.lake.warehouse import WarehouseTransaction, duckdb_transaction, postgres_transaction
from airflow_provider_assistant.lake.warehouse.names import literal, quoted
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.attempts import chunks
from airflow_provider_assistant.ledger.database import ledger_errors, transaction
from airflow_provider_assistant.ledger.schema import DOCUMENT_KINDS, attempts, tries
from airflow_provider_assistant.storage.private import private_umask

# Rows in memory at a time.
ROWS = 50_000
# What replaces a text about the person in an entry that has to stay.
ERASED = "(erased)"
_c = attempts.c
_KEY = (_c.scope, _c.key, _c.number)
_IS_ENTRY = sa.and_(*(column == sa.bindparam(f"of_{column.name}") for column in _KEY))
# Columns of documents that may name a person.
_TEXTS = ("label", "group_name", "error")
DUCKDB_TYPES = ("VARCHAR", "JSON", "UUID", "VARCHAR[]")
POSTGRES_TYPES = ("text", "character varying", "character", "json", "jsonb", "uuid", "ARRAY")


def is_ledger(engine: sa.Engine) -> bool:
    """Return whether a database has a ledger."""
    return bool(sa.inspect(engine).has_table(attempts.name))


def erase_from_ledger(ledger: Ledger, person: Person, *, dry_run: bool) -> Counter[str]:
    """
    Delete the chat requests and ratings of a person, and the texts about the person in other entries.

    :param person: Learns from the ledger.
    :return: Number of deleted ``entries``, and of ``texts`` that were replaced in entries that stay: their documents
        are still at the service.
    :raises AssistantInputError: A task is sending one of these requests right now.
    """

    def change(connection: sa.Connection) -> Counter[str]:
        entries = _entries_of(connection, ledger, person)
        texts = {name: _named(connection, name, person) for name in _TEXTS}
        failed = sa.select(tries.c.token, tries.c.error).where(tries.c.error.is_not(None))
        tokens = [token for token, error in connection.execute(failed) if person.is_in(error)]
        if not dry_run:
            for chunk in chunks(entries):
                connection.execute(sa.delete(attempts).where(_IS_ENTRY), chunk)
            for name, named in texts.items():
                for chunk in chunks(named):
                    connection.execute(sa.update(attempts).where(_IS_ENTRY).values({name: ERASED}), chunk)
            for chunk in chunks(tokens):
                connection.execute(sa.update(tries).where(tries.c.token.in_(chunk)).values(error=ERASED))
        return +Counter({"entries": len(entries), "texts": sum(map(len, texts.values())) + len(tokens)})

    counts = transaction(ledger.engine, change, writes=not dry_run)
    if ledger.engine.dialect.name == "sqlite" and not dry_run:
        _rewrite_sqlite(ledger)
    return counts


def _entries_of(connection: sa.Connection, ledger: Ledger, person: Person) -> list[dict[str, Any]]:
    """Return the keys of the person's chat requests and ratings."""
    is_alive = sa.func.coalesce(ledger.clock.is_alive(ledger.clock.read(connection)), sa.false()).label("is_alive")
    query = sa.select(*_KEY, _c.label, _c.error, _c.session_id, _c.remote_id, is_alive).where(
        _c.kind.not_in(DOCUMENT_KINDS)
    )
    found = []
    for row in connection.execute(query, execution_options={"yield_per": ROWS}).mappings():
        if not person.owns(row["session_id"], row["remote_id"], row["label"], row["error"] or ""):
            continue
        if row["is_alive"]:
            raise AssistantInputError(
                "a task is sending a request of this person right now",
                safe=NOTHING_CHANGED,
                todo="Wait until it has ended.",
            )
        found.append(_key_of(row))
    return found


def _named(connection: sa.Connection, name: str, person: Person) -> list[dict[str, Any]]:
    """Return the keys of the documents with a text about the person in a column."""
    query = sa.select(*_KEY, _c[name]).where(_c.kind.in_(DOCUMENT_KINDS), _c[name].is_not(None))
    rows = connection.execute(query, execution_options={"yield_per": ROWS}).mappings()
    return [_key_of(row) for row in rows if person.is_in(row[name])]


def _key_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {"of_scope": row["scope"], "of_key": row["key"], "of_number": row["number"]}


def _rewrite_sqlite(ledger: Ledger) -> None:
    """Rewrite a SQLite file without the bytes of deleted entries, and empty its log."""
    with ledger_errors(ledger.engine, "cannot be rewritten"), ledger.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def erase_from_duckdb(file: Path, person: Person, *, dry_run: bool) -> tuple[Counter[str], list[str]]:
    """
    Delete the rows of a person from the tables of our datasets in a DuckDB file, and rewrite the file.

    Deleted rows stay in the blocks of a DuckDB file until others overwrite them.

    :return: The counts, and the names of other tables with rows of the person: they are not changed.
    :raises AssistantWarehouseError: Another process has the file open, or it cannot be written.
    """
    with duckdb_transaction(str(file)) as store:
        counts, foreign_tables = _erase_rows(store, "rowid", None, DUCKDB_TYPES, person, dry_run=dry_run)
    if counts and not dry_run:
        _rewrite_duckdb(file)
    return counts, foreign_tables


def _rewrite_duckdb(file: Path) -> None:
    import duckdb

    new_file = file.with_name(f".{file.name}.erased")
    new_file.unlink(missing_ok=True)
    try:
        # The connection keeps other processes away from the file until the new one has replaced it.
        with private_umask(), duckdb.connect(str(file)) as connection:
            connection.execute(f"ATTACH {literal(str(new_file))} AS assistant_copy")
            [name] = connection.execute("SELECT current_database()").fetchall()[0]
            connection.execute(f"COPY FROM DATABASE {quoted(name)} TO assistant_copy")
            connection.execute("DETACH assistant_copy")
            shutil.copymode(file, new_file)
            new_file.replace(file)
    except duckdb.Error as error:
        raise AssistantWarehouseError(
            f"{file} cannot be rewritten: {error}",
            safe="The rows are deleted, but their bytes may still be in the file.",
        ) from error
    finally:
        new_file.unlink(missing_ok=True)


def erase_from_postgres(
    engine: sa.Engine, schema: str, person: Person, *, dry_run: bool
) -> tuple[Counter[str], list[str]]:
    """
    Delete the rows of a person from the tables of our datasets in a schema of PostgreSQL.

    :return: The counts, and the names of other tables with rows of the person: they are not changed.
    :raises AssistantWarehouseError: The database cannot be reached or written; it is unchanged.
    """
    with postgres_transaction(engine, schema=schema) as store:
        return _erase_rows(store, "ctid", schema, POSTGRES_TYPES, person, dry_run=dry_run)


def _erase_rows(
    store: WarehouseTransaction,
    row_id: str,
    schema: str | None,
    types: Sequence[str],
    person: Person,
    *,
    dry_run: bool,
) -> tuple[Counter[str], list[str]]:
    """
    Delete the rows of a person from the tables of our datasets.

    :param row_id: Name of the column that identifies a row within a transaction.
    :param schema: None for all schemas.
    :param types: SQL types of columns with texts.
    :return: The counts, and the names of other tables with rows of the person.
    """
    is_in_schema = f"c.table_schema = {literal(schema)}" if schema else "c.table_schema <> 'information_schema'"
    names = ", ".join(map(literal, types))
    rows = store.run(
        "SELECT c.table_schema, c.table_name, c.column_name, c.data_type "  # noqa: S608
        "FROM information_schema.columns c JOIN information_schema.tables t "
        "USING (table_catalog, table_schema, table_name) "
        f"WHERE table_catalog = current_database() AND t.table_type = 'BASE TABLE' AND {is_in_schema} "
        f"AND (c.data_type IN ({names}) OR c.column_name = 'date')"
    )
    columns_by_table: dict[str, list[str]] = {}
    days_of: set[str] = set()
    our_tables: set[str] = set()
    for table_schema, table_name, column, data_type in rows:
        table = f"{quoted(table_schema)}.{quoted(table_name)}"
        if table_name in DATASETS:
            our_tables.add(table)
        columns = columns_by_table.setdefault(table, [])
        if data_type in types:
            columns.append(column)
        elif data_type.upper() == "DATE":
            days_of.add(table)
    counts: Counter[str] = Counter()
    foreign_tables = []
    # Ours are first: they tell the sessions of the person.
    for table, columns in sorted(columns_by_table.items(), key=lambda one: one[0] not in our_tables):
        if not columns:
            continue
        is_ours = table in our_tables
        # A day at a time, because a table may be larger than the memory.
        conditions = _days(store, table) if table in days_of else ["TRUE"]
        found = 0
        for condition in conditions:
            found += _erase_some(store, table, row_id, columns, condition, person, is_ours=is_ours, dry_run=dry_run)
        if is_ours:
            counts["rows"] += found
        elif found:
            foreign_tables.append(table)
    return +counts, foreign_tables


def _days(store: WarehouseTransaction, table: str) -> list[str]:
    days = store.run(f'SELECT DISTINCT CAST("date" AS VARCHAR) FROM {table}')  # noqa: S608
    return [f'"date" = {literal(day)}' if day else '"date" IS NULL' for (day,) in days]


def _erase_some(
    store: WarehouseTransaction,
    table: str,
    row_id: str,
    columns: Sequence[str],
    condition: str,
    person: Person,
    *,
    is_ours: bool,
    dry_run: bool,
) -> int:
    """Delete the rows of a person among some rows of a table of ours, and return how many there are."""
    import pyarrow as pa

    texts = ", ".join(f"CAST({quoted(column)} AS VARCHAR)" for column in columns)
    rows = store.run(f"SELECT CAST({row_id} AS VARCHAR), {texts} FROM {table} WHERE {condition}")  # noqa: S608
    if not rows:
        return 0
    # The row id must not be searched: it has the name of no column that a table has.
    row_ids, *values = zip(*rows, strict=True)
    found = pa.table({name: pa.array(texts, pa.string()) for name, texts in zip(columns, values, strict=True)})
    flags = (person.learn(found) if is_ours else person.rows(found)).to_pylist()
    erased = [one for one, is_erased in zip(row_ids, flags, strict=True) if is_erased]
    if is_ours and not dry_run:
        kind = "tid" if row_id == "ctid" else "BIGINT"
        for start in range(0, len(erased), 1000):
            listed = ", ".join(f"CAST({literal(one)} AS {kind})" for one in erased[start : start + 1000])
            store.run(f"DELETE FROM {table} WHERE {row_id} IN ({listed})")  # noqa: S608
    return len(erased)
