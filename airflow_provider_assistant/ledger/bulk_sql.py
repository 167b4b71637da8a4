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
        preparer = dialect.identifier_preparer
        self._table_name = preparer.format_table(table)
        # These statements bypass the types of the columns, so times and ids are converted here.
        time_type = table.c.claimed_at.type.dialect_impl(dialect)
        # None if the driver takes times as they are.
        self._convert_time = time_type.bind_processor(dialect)
        id_columns = [column for column in table.columns if isinstance(column.type, RequestId)]
        self._id_columns = {column.key for column in id_columns}
        self._quoted = {column.key: preparer.quote(column.name) for column in table.columns}

    def select(self, columns: Collection[str], scope: str, keys: Sequence[str]) -> Iterator[Sequence[Any]]:
        """
        Yield the rows of these keys, one sequence of values per row.

        :param columns: Columns to read; their values must be plain text or numbers.
        """
        mark = self._mark
        # The text of the statements is that of the schema; all values are parameters.
        selected = f"SELECT {self._listed(columns)} FROM {self._table_name}"  # noqa: S608
        rows_of_scope = f"{selected} WHERE {self._quoted['scope']} = {mark}"
        id_positions = []
        for position, column in enumerate(columns):
            if column in self._id_columns:
                id_positions.append(position)
        # One parameter of each statement is the scope.
        keys_per_statement = PARAMETERS - 1
        for start in range(0, len(keys), keys_per_statement):
            statement_keys = keys[start : start + keys_per_statement]
            marks = ", ".join(repeat(mark, len(statement_keys)))
            statement = f"{rows_of_scope} AND {self._quoted['key']} IN ({marks})"
            parameters = (scope, *statement_keys)
            result = self._connection.exec_driver_sql(statement, parameters)
            with contextlib.closing(result):
                # Creating SQLAlchemy's row objects would take as long as the query.
                rows = result.cursor.fetchall()
            if not id_positions:
                yield from rows
                continue
            for row in rows:
                values = list(row)
                for position in id_positions:
                    stored_id = values[position]
                    if stored_id is not None:
                        values[position] = decoded_id(stored_id)
                yield values

    def moment(self, at: datetime | None) -> Any:
        """Convert a time, which is timezone-aware, to the form in which this table stores it."""
        if self._convert_time is None:
            return at
        return self._convert_time(at)

    def _listed(self, columns: Collection[str]) -> str:
        return ", ".join(self._quoted[column] for column in columns)
