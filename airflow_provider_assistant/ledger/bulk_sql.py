"""
Multi-row statements for each database that a ledger may use.

A load writes to the ledger twice per document. SQLAlchemy's bulk operations spend several times longer on preparing
a row than SQLite on storing it, and need one round trip to PostgreSQL per updated row.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, repeat
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerPermanentError
from airflow_provider_assistant.ledger.schema import RequestId, decoded_id, encoded_id, storable

# Maximum number of bound parameters per statement; some builds of SQLite allow only 999.
PARAMETERS = 900

Values = Sequence[Any]


class Bulk:
    """
    Execute multi-row statements on one table.

    :param connection: Connection to the database.
    :param table: The table.
    :raises AssistantLedgerPermanentError: The database is not SQLite, PostgreSQL, MySQL or MariaDB.
    """

    def __init__(self, connection: sa.Connection, table: sa.Table) -> None:
        self._connection = connection
        self._table = table
        dialect = connection.dialect
        if dialect.name not in {"sqlite", "postgresql", "mysql", "mariadb"}:
            raise AssistantLedgerPermanentError(
                f"the ledger cannot use the database {dialect.name}. Nothing was sent. Use SQLite, PostgreSQL or MySQL."
            )
        self._is_mysql = dialect.name in {"mysql", "mariadb"}
        self._mark = "?" if dialect.paramstyle == "qmark" else "%s"
        self._name = dialect.identifier_preparer.format_table(table)
        self._processed = table.c.claimed_at.type.dialect_impl(dialect).bind_processor(dialect)
        # These statements bypass the types of the columns, so the ids are converted here.
        self._ids = {column.key for column in table.columns if isinstance(column.type, RequestId)}
        self._quoted = {column.key: dialect.identifier_preparer.quote(column.name) for column in table.columns}

    def select(self, columns: Collection[str], scope: str, keys: Sequence[str]) -> Iterator[Sequence[Any]]:
        """
        Yield the rows of these keys.

        :param columns: Columns to read; their values must be plain text or numbers.
        :param scope: Scope of the keys.
        :param keys: The keys.
        :return: One sequence of values per row.
        """
        listed, name, mark = self._listed(columns), self._name, self._mark
        start = f"SELECT {listed} FROM {name} WHERE {self._quoted['scope']} = {mark}"  # noqa: S608 (no foreign text)
        for first in range(0, len(keys), PARAMETERS - 1):
            some = keys[first : first + PARAMETERS - 1]
            statement = f"{start} AND {self._quoted['key']} IN ({', '.join(repeat(mark, len(some)))})"
            # Read from the driver's cursor: creating SQLAlchemy's row objects would take as long as the query.
            with contextlib.closing(self._connection.exec_driver_sql(statement, (scope, *some))) as result:
                yield from self._converted(columns, result.cursor.fetchall(), decoded_id)

    def insert(self, columns: Collection[str], rows: Collection[Values]) -> int:
        """
        Insert the rows whose key does not exist yet.

        :param columns: Columns of the rows.
        :param rows: The rows.
        :return: Number of rows inserted.
        """
        if self._is_mysql:
            return self._execute("INSERT IGNORE", columns, rows, "")
        return self._execute("INSERT", columns, rows, "ON CONFLICT DO NOTHING")

    def upsert(
        self,
        columns: Collection[str],
        rows: Collection[Values],
        *,
        change: Collection[str],
        add: Collection[str],
        if_same: str,
    ) -> int:
        """
        Insert rows, or update existing ones.

        :param columns: Columns of the rows.
        :param rows: The rows.
        :param change: Columns whose values replace the existing ones.
        :param add: Columns whose values are added to the existing ones.
        :param if_same: An existing row is updated only if it has the same value in this column.
        :return: Number of rows inserted or updated; on MySQL, an inserted row counts as half a row.
        """
        is_same = f"{self._there(if_same)} = {self._new(if_same)}"
        changes = {column: self._new(column) for column in change}
        changes |= {column: f"{self._there(column)} + {self._new(column)}" for column in add}
        if self._is_mysql:
            changes = {column: f"IF({is_same}, {new}, {self._there(column)})" for column, new in changes.items()}
        assignments = ", ".join(f"{self._quoted[column]} = {new}" for column, new in changes.items())
        otherwise = (
            f"ON DUPLICATE KEY UPDATE {assignments}"
            if self._is_mysql
            else f"ON CONFLICT ({self._listed(['scope', 'key'])}) DO UPDATE SET {assignments} WHERE {is_same}"
        )
        changed = self._execute("INSERT", columns, rows, otherwise)
        # MySQL reports an updated row as two rows.
        return changed // 2 if self._is_mysql else changed

    def moment(self, at: datetime | None) -> Any:
        """
        Convert a time to the form in which this table stores it.

        :param at: The time, timezone-aware, or None.
        """
        return self._processed(at) if self._processed else at

    def _converted(
        self, columns: Collection[str], rows: Collection[Values], convert: Callable[[str], str]
    ) -> Iterable[Values]:
        """Return the rows with converted request ids."""
        if self._ids.isdisjoint(columns):
            return rows
        are_ids = [column in self._ids for column in columns]
        return (
            [convert(one) if is_id and one is not None else one for is_id, one in zip(are_ids, row, strict=True)]
            for row in rows
        )

    def _listed(self, columns: Collection[str]) -> str:
        return ", ".join(self._quoted[column] for column in columns)

    def _there(self, column: str) -> str:
        return f"{self._name}.{self._quoted[column]}"

    def _new(self, column: str) -> str:
        name = self._quoted[column]
        return f"VALUES({name})" if self._is_mysql else f"excluded.{name}"

    def _execute(self, verb: str, columns: Collection[str], rows: Collection[Values], otherwise: str) -> int:
        start = f"{verb} INTO {self._name} ({self._listed(columns)}) VALUES "
        waiting, changed = iter(self._converted(columns, rows, encoded_id)), 0
        while some := list(islice(waiting, max(1, PARAMETERS // len(columns)))):
            statement = f"{start}{_marks(self._mark, len(columns), len(some))} {otherwise}"
            values = tuple([storable(one) if type(one) is str else one for one in chain.from_iterable(some)])
            changed += self._connection.exec_driver_sql(statement, values).rowcount
        return changed


@functools.lru_cache
def _marks(mark: str, columns: int, rows: int) -> str:
    row = f"({', '.join(repeat(mark, columns))})"
    return ", ".join(repeat(row, rows))
