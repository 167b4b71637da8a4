"""
The statements that record a group of outcomes and claims.

SQLite and PostgreSQL do both in one statement, which commits itself: an outcome updates the entry of its claim, and a
claim inserts an entry if its key has none. A transaction would cost three more round trips to a server.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.schema import CREATED_ID, RUN_COLUMNS

# Columns whose values are added to those of an existing entry.
COUNTS = ("attempts", "ambiguous")

Values: TypeAlias = Sequence[Any]


# Columns of the end of a chat request, see RequestEnd.
_REQUEST_END_COLUMNS = ("state", "completed_at", "session_id")


def group_sql(
    connection: sa.Connection, table: sa.Table, shared: Sequence[str], details: Sequence[str] = ()
) -> GroupSql:
    """
    Return the statements for a table in a database.

    :param shared: Columns that have the same value in all rows of a group. The token of the claim is one of them.
    """
    if connection.dialect.name == "sqlite":
        return SqliteGroupSql(connection, table, shared, details)
    return PostgresGroupSql(connection, table, shared, details)


def claim_again_statement(table: sa.Table, details: Sequence[str] = ()) -> sa.Update:
    """
    Return the statement that claims an existing entry, unless the entry has changed since it was read.

    An outcome changes without its claim if a task whose lease has expired was only stopped, and continues.

    An earlier claim without an outcome counts as an ambiguous attempt.

    The parameters ``entry_...`` identify the entry and its earlier claim. The other parameters
    have the names of the columns that they set.
    """
    c = table.c
    set_columns = (
        *("outcome", "sent_hash", "claim", "source", "claimed_at"),
        *RUN_COLUMNS,
        *details,
    )
    new_values: dict[str, Any] = {column: sa.bindparam(column) for column in set_columns}
    # Clear the end of the earlier request.
    for column in _REQUEST_END_COLUMNS:
        if column in c and column not in details:
            new_values[column] = None
    return (
        sa.update(table)
        .where(
            c.scope == sa.bindparam("entry_scope"),
            c.key == sa.bindparam("entry_key"),
            c.claim == sa.bindparam("entry_claim"),
            c.outcome == sa.bindparam("entry_outcome"),
        )
        .values(ambiguous=c.ambiguous + sa.case((c.outcome == "claimed", 1), else_=0), **new_values)
    )


class GroupSql(ABC):
    """
    Record groups of outcomes and claims in one table.

    :param shared: Columns that have the same value in all rows of a group.
    :param details: Further columns of a claim.
    """

    def __init__(
        self,
        connection: sa.Connection,
        table: sa.Table,
        shared: Sequence[str],
        details: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._table = table
        self._shared_columns = tuple(shared)
        preparer = connection.dialect.identifier_preparer
        self._table_name = preparer.format_table(table)
        self._quoted = {column.key: preparer.quote(column.name) for column in table.columns}
        # Columns that an outcome replaces in the entry of its claim.
        replaced = ["outcome", "sent_hash", "content_hash", "superseded", "http_status", "error"]
        if table.name in CREATED_ID:
            replaced.append(CREATED_ID[table.name])
        if "status" in table.c:
            replaced.append("status")
        # Columns of a claim, in the order of its values.
        self._claim_columns = ("key", "label", *details, "sent_hash")
        self.columns = ("key", "label", *details, *COUNTS, *replaced)
        """Columns of an outcome, in the order of its values."""
        self._replaced_columns = (*replaced, "recorded_at")
        inserted_columns = (*self._shared_columns, *self.columns, "recorded_at")
        self._into_clause = f"INTO {self._table_name} ({self._listed(inserted_columns)})"

    @abstractmethod
    def is_one_statement(self, outcomes: int, claims: int) -> bool:
        """Return whether :meth:`write` executes one statement for so many outcomes and claims."""

    @abstractmethod
    def write(self, shared: Values, recorded_at: Any, outcomes: Sequence[Values], claims: Sequence[Values]) -> int:
        """
        Record outcomes, and insert claims whose keys have no entry.

        An entry that another token has claimed is left as it is. No key may occur twice.

        :param recorded_at: Time of the outcomes, as the driver of the database takes it.
        :param outcomes: Values of :attr:`columns`, one sequence per outcome.
        :param claims: Key, label, details and ``sent_hash`` of each claim.
        :return: Number of outcomes recorded and claims inserted.
        """

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(self._quoted[column] for column in columns)

    @functools.cached_property
    def _on_conflict(self) -> str:
        """The clause for keys that have an entry."""
        changes = []
        # "excluded" is SQL's name of the new row, which is not inserted.
        for column in self._replaced_columns:
            quoted = self._quoted[column]
            changes.append(f"{quoted} = excluded.{quoted}")
        name = self._table_name
        changes += [f"{column} = {name}.{column} + excluded.{column}" for column in COUNTS]
        return (
            f"ON CONFLICT (scope, {self._quoted['key']}) DO UPDATE SET {', '.join(changes)} "
            f"WHERE {self._table_name}.claim = excluded.claim AND excluded.outcome <> 'claimed'"
        )

    def _execute(self, statement: str, values: Values) -> int:
        return self._connection.exec_driver_sql(statement, tuple(values)).rowcount


class SqliteGroupSql(GroupSql):
    """
    Bind every value of an outcome once, and those values of a claim that differ between claims.

    The statement is one step of SQLite, which releases Python's interpreter lock once. One step per row, as with
    ``executemany``, would wait for the lock once per row.
    """

    def is_one_statement(self, outcomes: int, claims: int) -> bool:
        """Return whether the values of the group fit into one statement."""
        outcome_parameters = len(self.columns) * outcomes
        claim_parameters = len(self._claim_columns) * claims
        return outcome_parameters + claim_parameters <= self._row_parameters

    @property
    def _row_parameters(self) -> int:
        """Maximum number of parameters of all rows in one statement."""
        # The outcomes and the claims each repeat the shared values; the outcomes add recorded_at.
        return PARAMETERS - 2 * len(self._shared_columns) - 1

    def write(self, shared: Values, recorded_at: Any, outcomes: Sequence[Values], claims: Sequence[Values]) -> int:
        """Record outcomes and insert claims, in as many statements as the number of parameters requires."""
        written = 0
        while outcomes or claims:
            # As many outcomes as one statement can hold, then claims for the remaining parameters.
            outcome_rows = outcomes[: self._row_parameters // len(self.columns)]
            claim_parameters = self._row_parameters - len(self.columns) * len(outcome_rows)
            claim_rows = claims[: claim_parameters // len(self._claim_columns)]
            parameters: list[Any] = []
            if outcome_rows:
                parameters += chain(shared, [recorded_at], *outcome_rows)
            if claim_rows:
                parameters += chain(shared, *claim_rows)
            statement = self._statement(len(outcome_rows), len(claim_rows))
            written += self._execute(statement, parameters)
            outcomes = outcomes[len(outcome_rows) :]
            claims = claims[len(claim_rows) :]
        return written

    def _statement(self, outcomes: int, claims: int) -> str:
        shared_marks = _marks(len(self._shared_columns))
        # Without WHERE, SQLite would take ON CONFLICT for a condition of a join.
        selects = []
        if outcomes:
            width = len(self.columns)
            columns = ", ".join(_value_columns(width))
            values = _values(width, outcomes)
            # The single mark is recorded_at: its parameter follows those of the shared values.
            select = f"SELECT {shared_marks}, {columns}, ?"
            selects.append(f"{select} FROM ({values}) WHERE true")
        if claims:
            width = len(self._claim_columns)
            *claimed, sent_hash = _value_columns(width)
            # A claim has no attempts, the outcome "claimed", and no values of the columns after
            # outcome and sent_hash.
            nulls = repeat("NULL", len(self._replaced_columns) - 2)
            columns = ", ".join([*claimed, "0, 0, 'claimed'", sent_hash, *nulls])
            values = _values(width, claims)
            select = f"SELECT {shared_marks}, {columns}"
            selects.append(f"{select} FROM ({values}) WHERE true")
        return f"INSERT {self._into_clause} {' UNION ALL '.join(selects)} {self._on_conflict}"


class PostgresGroupSql(GroupSql):
    """Pass all rows as one JSON text: the server parses it faster than a list of many hundred values."""

    @functools.cached_property
    def _columns_of_group(self) -> tuple[str, ...]:
        """Columns whose values are passed once per group."""
        return (*self._shared_columns, "recorded_at")

    @functools.cached_property
    def _statement(self) -> str:
        selected = [f"shared.{self._quoted[column]}" for column in self._shared_columns]
        selected += [f"entry.{self._quoted[column]}" for column in self.columns]
        selected.append("CASE WHEN entry.outcome <> 'claimed' THEN shared.recorded_at END")
        shared = f"json_to_record(%s) AS shared({self._typed(self._columns_of_group)})"
        entries = f"json_to_recordset(%s) AS entry({self._typed(self.columns)})"
        select = f"SELECT {', '.join(selected)} FROM {shared}, {entries}"  # noqa: S608 (no foreign text)
        return f"INSERT {self._into_clause} {select} {self._on_conflict}"

    def is_one_statement(self, outcomes: int, claims: int) -> bool:  # noqa: ARG002
        """Return True: JSON has no limit on the number of its values."""
        return True

    def write(self, shared: Values, recorded_at: Any, outcomes: Sequence[Values], claims: Sequence[Values]) -> int:
        """Record outcomes and insert claims in one statement."""
        rows = [dict(zip(self.columns, values, strict=True)) for values in outcomes]
        for values in claims:
            row = dict(zip(self._claim_columns, values, strict=True))
            row["attempts"] = 0
            row["ambiguous"] = 0
            row["outcome"] = "claimed"
            rows.append(row)
        # Tasks that write the same keys lock them in the same order, which avoids deadlocks.
        rows.sort(key=itemgetter("key"))
        values_of_group = dict(zip(self._columns_of_group, (*shared, recorded_at), strict=True))
        # default=str: recorded_at is a datetime.
        parameters = (json.dumps(values_of_group, default=str), json.dumps(rows))
        return self._execute(self._statement, parameters)

    def _typed(self, columns: Sequence[str]) -> str:
        """Return the columns with their SQL types, as PostgreSQL needs them to read JSON."""
        dialect = self._connection.dialect
        definitions = []
        for column in columns:
            sql_type = self._table.c[column].type.compile(dialect)
            definitions.append(f"{self._quoted[column]} {sql_type}")
        return ", ".join(definitions)


def _value_columns(count: int) -> list[str]:
    """Return the names that SQLite gives to the columns of a VALUES clause."""
    return [f"column{number}" for number in range(1, count + 1)]


@functools.lru_cache
def _values(columns: int, rows: int) -> str:
    row = f"({_marks(columns)})"
    return f"VALUES {', '.join(repeat(row, rows))}"


def _marks(count: int) -> str:
    return ", ".join(repeat("?", count))
