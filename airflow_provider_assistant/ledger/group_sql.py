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
_END = ("state", "completed_at", "session_id")


def group_sql(
    connection: sa.Connection, table: sa.Table, shared: Sequence[str], details: Sequence[str] = ()
) -> GroupSql:
    """
    Return the statements for a table in a database.

    :param shared: Columns that have the same value in all rows of a group. The token of the claim is one of them.
    """
    kind: type[GroupSql] = SqliteGroupSql if connection.dialect.name == "sqlite" else PostgresGroupSql
    return kind(connection, table, shared, details)


def claim_again_statement(table: sa.Table, details: Sequence[str] = ()) -> sa.Update:
    """
    Return the statement that claims an existing entry, unless the entry has changed since it was read.

    An outcome changes without its claim if a task whose lease has expired was only stopped, and continues.

    An earlier claim without an outcome counts as an ambiguous attempt.
    """
    c = table.c
    bound = ("outcome", "claim", "source", *RUN_COLUMNS, "claimed_at", *details)
    # Clear the end of the earlier request.
    cleared = [column for column in _END if column in c and column not in details]
    return (
        sa.update(table)
        .where(
            c.scope == sa.bindparam("s"),
            c.key == sa.bindparam("k"),
            c.claim == sa.bindparam("c"),
            c.outcome == sa.bindparam("o"),
        )
        .values(
            ambiguous=c.ambiguous + sa.case((c.outcome == "claimed", 1), else_=0),
            **{column: sa.bindparam(column) for column in bound},
            **dict.fromkeys(cleared),
        )
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
        self._shared = tuple(shared)
        preparer = connection.dialect.identifier_preparer
        self._name = preparer.format_table(table)
        self._quoted = {column.key: preparer.quote(column.name) for column in table.columns}
        facts = ["outcome", "content_hash", "superseded", "http_status", "error", "sent_hash"]
        if table.name in CREATED_ID:
            facts.append(CREATED_ID[table.name])
        # Columns of a claim, in the order of its values.
        self._claimed = ("key", "label", *details)
        self.columns = (*self._claimed, *COUNTS, *facts)
        """Columns of an outcome, in the order of its values."""
        self._changed = (*facts, "recorded_at")
        self._into = f"INTO {self._name} ({self._listed((*self._shared, *self.columns, 'recorded_at'))})"

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
        :param claims: Key, label and details of each claim.
        :return: Number of outcomes recorded and claims inserted.
        """

    def _listed(self, columns: Sequence[str]) -> str:
        return ", ".join(self._quoted[column] for column in columns)

    @functools.cached_property
    def _on_conflict(self) -> str:
        """The clause for keys that have an entry."""
        changes = [f"{self._quoted[column]} = excluded.{self._quoted[column]}" for column in self._changed]
        changes += [f"{column} = {self._name}.{column} + excluded.{column}" for column in COUNTS]
        return (
            f"ON CONFLICT (scope, {self._quoted['key']}) DO UPDATE SET {', '.join(changes)} "
            f"WHERE {self._name}.claim = excluded.claim AND excluded.outcome <> 'claimed'"
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
        return len(self.columns) * outcomes + len(self._claimed) * claims <= self._room

    @property
    def _room(self) -> int:
        return PARAMETERS - 2 * len(self._shared) - 1

    def write(self, shared: Values, recorded_at: Any, outcomes: Sequence[Values], claims: Sequence[Values]) -> int:
        """Record outcomes and insert claims, in as many statements as the number of parameters requires."""
        written = 0
        while outcomes or claims:
            some = outcomes[: self._room // len(self.columns)]
            new = claims[: (self._room - len(self.columns) * len(some)) // len(self._claimed)]
            values: list[Any] = []
            if some:
                values += chain(shared, [recorded_at], *some)
            if new:
                values += chain(shared, *new)
            written += self._execute(self._statement(len(some), len(new)), values)
            outcomes, claims = outcomes[len(some) :], claims[len(new) :]
        return written

    def _statement(self, outcomes: int, claims: int) -> str:
        shared = _marks(len(self._shared))
        rows = []
        if outcomes:
            columns = ", ".join(f"column{number}" for number in range(1, len(self.columns) + 1))
            values = _values(len(self.columns), outcomes)
            rows.append(f"SELECT {shared}, {columns}, ? FROM ({values}) WHERE true")  # noqa: S608 (no foreign text)
        if claims:
            width = len(self._claimed)
            given = [f"column{number}" for number in range(1, width + 1)]
            columns = ", ".join([*given, "0, 0, 'claimed'", *repeat("NULL", len(self._changed) - 1)])
            rows.append(f"SELECT {shared}, {columns} FROM ({_values(width, claims)}) WHERE true")  # noqa: S608
        # Without WHERE, SQLite would take ON CONFLICT for a condition of a join.
        return f"INSERT {self._into} {' UNION ALL '.join(rows)} {self._on_conflict}"


class PostgresGroupSql(GroupSql):
    """Pass all rows as one JSON text: the server parses it faster than a list of many hundred values."""

    @functools.cached_property
    def _once(self) -> tuple[str, ...]:
        return (*self._shared, "recorded_at")

    @functools.cached_property
    def _statement(self) -> str:
        selected = [f"shared.{self._quoted[column]}" for column in self._shared]
        selected += [f"entry.{self._quoted[column]}" for column in self.columns]
        selected.append("CASE WHEN entry.outcome <> 'claimed' THEN shared.recorded_at END")
        shared = f"json_to_record(%s) AS shared({self._typed(self._once)})"
        entries = f"json_to_recordset(%s) AS entry({self._typed(self.columns)})"
        select = f"SELECT {', '.join(selected)} FROM {shared}, {entries}"  # noqa: S608 (no foreign text)
        return f"INSERT {self._into} {select} {self._on_conflict}"

    def is_one_statement(self, outcomes: int, claims: int) -> bool:  # noqa: ARG002
        """Return True: JSON has no limit on the number of its values."""
        return True

    def write(self, shared: Values, recorded_at: Any, outcomes: Sequence[Values], claims: Sequence[Values]) -> int:
        """Record outcomes and insert claims in one statement."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in outcomes]
        fixed = {"attempts": 0, "ambiguous": 0, "outcome": "claimed"}
        rows += [{**dict(zip(self._claimed, claim, strict=True)), **fixed} for claim in claims]
        # Tasks that write the same keys lock them in the same order, which avoids deadlocks.
        rows.sort(key=itemgetter("key"))
        once = dict(zip(self._once, (*shared, recorded_at), strict=True))
        return self._execute(self._statement, (json.dumps(once, default=str), json.dumps(rows)))

    def _typed(self, columns: Sequence[str]) -> str:
        dialect = self._connection.dialect
        return ", ".join(f"{self._quoted[name]} {self._table.c[name].type.compile(dialect)}" for name in columns)


@functools.lru_cache
def _values(columns: int, rows: int) -> str:
    return f"VALUES {', '.join(repeat(f'({_marks(columns)})', rows))}"


def _marks(count: int) -> str:
    return ", ".join(repeat("?", count))
