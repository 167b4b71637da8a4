"""
Multi-row statements for both databases that a ledger may use.

A load writes to the ledger twice per document. SQLAlchemy's bulk operations spend several times longer on preparing
a row than SQLite on storing it, and need one round trip to PostgreSQL per updated row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger.schema import RequestId, decoded_id

# Maximum number of bound parameters per statement; some builds of SQLite allow only 999.
PARAMETERS = 900

Values = Sequence[Any]


class Bulk:
    """Execute multi-row statements on one table."""

    def __init__(self, connection: sa.Connection, table: sa.Table) -> None:
        self._connection = connection
        self._table = table
        dialect = connection.dialect
        self._mark = "?" if dialect.paramstyle == "qmark" else "%s"
        self._name = dialect.identifier_preparer.format_table(table)
        self._processed = table.c.claimed_at.type.dialect_impl(dialect).bind_processor(dialect)
        # These statements bypass the types of the columns, so the ids are converted here.
        self._ids = {column.key for column in table.columns if isinstance(column.type, RequestId)}
        self._quoted = {column.key: dialect.identifier_preparer.quote(column.name) for column in table.columns}

    def select(self, columns: Collection[str], scope: str, keys: Sequence[str]) -> Iterator[Sequence[Any]]:
        """
        Yield the rows of these keys, one sequence of values per row.

        :param columns: Columns to read; their values must be plain text or numbers.
        """
        listed, name, mark = self._listed(columns), self._name, self._mark
        start = f"SELECT {listed} FROM {name} WHERE {self._quoted['scope']} = {mark}"  # noqa: S608 (no foreign text)
        for first in range(0, len(keys), PARAMETERS - 1):
            some = keys[first : first + PARAMETERS - 1]
            statement = f"{start} AND {self._quoted['key']} IN ({', '.join(repeat(mark, len(some)))})"
            # Read from the driver's cursor: creating SQLAlchemy's row objects would take as long as the query.
            with contextlib.closing(self._connection.exec_driver_sql(statement, (scope, *some))) as result:
                rows = result.cursor.fetchall()
            if self._ids.isdisjoint(columns):
                yield from rows
            else:
                are_ids = [column in self._ids for column in columns]
                for row in rows:
                    yield [
                        decoded_id(one) if is_id and one is not None else one
                        for is_id, one in zip(are_ids, row, strict=True)
                    ]

    def moment(self, at: datetime | None) -> Any:
        """Convert a time, which is timezone-aware, to the form in which this table stores it."""
        return self._processed(at) if self._processed else at

    def _listed(self, columns: Collection[str]) -> str:
        return ", ".join(self._quoted[column] for column in columns)
