"""The tables of the ledger, and how a database gets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias

import sqlalchemy as sa
import tenacity

# 1: submissions and ratings; 2: documents; 3: questions; 4: loads, and how questions ended.
SCHEMA_VERSION = 4

Outcome: TypeAlias = Literal["intended", "done", "ambiguous", "refused"]


@dataclass(frozen=True, slots=True)
class RunRef:
    """The task instance that intends an effect."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Self:
        """Return the task instance of an Airflow context."""
        ti = context["ti"]
        return cls(ti.dag_id, ti.run_id, ti.task_id, ti.map_index if ti.map_index is not None else -1)

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}"


class UtcDateTime(sa.TypeDecorator[datetime]):
    """An aware datetime, kept as UTC without a zone: SQLite and MySQL have no column that keeps one."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """To the database."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """From the database."""
        return None if value is None else value.replace(tzinfo=UTC)


metadata = sa.MetaData()


def _effects(name: str, *facts: sa.Column[Any]) -> sa.Table:
    """Define a table of effects: who intended which, its outcome, and the facts of its kind."""
    return sa.Table(
        name,
        metadata,
        sa.Column("scope", sa.String(400), primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("dag_id", sa.String(250)),
        sa.Column("run_id", sa.String(250)),
        sa.Column("task_id", sa.String(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("intended_at", UtcDateTime, nullable=False),
        sa.Column("settled_at", UtcDateTime),
        *facts,
    )


_schema = sa.Table("assistant_ledger_schema", metadata, sa.Column("version", sa.Integer, nullable=False))
submissions = _effects(
    "assistant_submissions",
    sa.Column("site_id", sa.String(250), nullable=False),
    sa.Column("session_id", sa.String(250), nullable=False),
    sa.Column("request_id", sa.String(250), index=True),
    sa.Column("state", sa.String(16)),
    sa.Column("completed_at", UtcDateTime),
)
ratings = _effects(
    "assistant_ratings",
    sa.Column("site_id", sa.String(250), nullable=False),
    sa.Column("session_id", sa.String(250), nullable=False),
    sa.Column("request_id", sa.String(250), nullable=False, index=True),
    sa.Column("rating", sa.String(250), nullable=False),
)


def _batch(name: str, identifier: sa.Column[Any], *facts: sa.Column[Any]) -> sa.Table:
    """Define a table of effects that are made by the thousand."""
    return _effects(
        name,
        sa.Column("site_id", sa.String(250), nullable=False),
        # The key columns' values, for people; the key itself is a digest.
        sa.Column("label", sa.String(250), nullable=False),
        sa.Column("source", sa.String(500), nullable=False),
        # What stands on the site now: of which content, under which id, in place of which others.
        sa.Column("content_hash", sa.String(64)),
        identifier,
        sa.Column("superseded", sa.Text),
        sa.Column("http_status", sa.Integer),
        # How many attempts may have taken effect besides.
        sa.Column("ambiguous", sa.Integer, nullable=False),
        # Which try of which task made the latest intent.
        sa.Column("claim", sa.String(32), nullable=False),
        *facts,
    )


documents = _batch("assistant_documents", sa.Column("document_id", sa.String(250)))
questions = _batch(
    "assistant_questions",
    sa.Column("request_id", sa.String(250), key="document_id"),
    # Known when the answers are written.
    sa.Column("state", sa.String(16)),
    sa.Column("completed_at", UtcDateTime),
    sa.Column("session_id", sa.String(250)),
)
# What a load counts, as it calls it.
COUNTS = (
    *("rows", "created", "unchanged", "skipped", "rejected", "ambiguous", "failed"),
    *("changed", "possibly_duplicated", "stale", "requests", "throttled"),
)
loads = sa.Table(
    "assistant_loads",
    metadata,
    sa.Column("load_id", sa.String(32), primary_key=True),
    sa.Column("scope", sa.String(400), nullable=False),
    sa.Column("endpoint", sa.String(50), nullable=False),
    sa.Column("site_id", sa.String(250), nullable=False),
    sa.Column("source", sa.String(500), nullable=False),
    sa.Column("dag_id", sa.String(250)),
    sa.Column("run_id", sa.String(250)),
    sa.Column("task_id", sa.String(250)),
    sa.Column("map_index", sa.Integer),
    sa.Column("started_at", UtcDateTime, nullable=False, index=True),
    # From here on nothing is known of a load that is running, or was killed.
    sa.Column("ended_at", UtcDateTime),
    sa.Column("outcome", sa.String(16)),
    sa.Column("error", sa.Text),
    *(sa.Column(name, sa.Integer) for name in COUNTS),
    sa.Column("seconds", sa.Float(53)),
)


@tenacity.retry(
    # Two workers that open a new or an old ledger at the same moment both create its tables and columns; whoever
    # comes second is told so, in a database without transactions of such statements at each of them.
    retry=tenacity.retry_if_exception_type(sa.exc.DBAPIError),
    stop=tenacity.stop_after_attempt(6),
    wait=tenacity.wait_random(0.05, 0.5),
    reraise=True,
)
def prepared(engine: sa.Engine) -> int:
    """
    Bring a database to this version of the schema, and return the version it has.

    Each version only adds tables, and columns that may be null: a worker that opened the ledger before goes on
    with it. A database of a newer version is left alone.
    """
    with engine.begin() as connection:
        tables = sa.inspect(connection).get_table_names()
        found = connection.scalar(sa.select(sa.func.max(_schema.c.version))) if _schema.name in tables else None
        if found is None or found < SCHEMA_VERSION:
            metadata.create_all(connection)
            _add_columns(connection)
            connection.execute(sa.insert(_schema).values(version=SCHEMA_VERSION))
        return max(found or 0, SCHEMA_VERSION)


def _add_columns(connection: sa.Connection) -> None:
    """Add the columns that tables of an older version lack."""
    found, names = sa.inspect(connection), connection.dialect.identifier_preparer
    for table in metadata.sorted_tables:
        there = {column["name"] for column in found.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                definition = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {names.format_table(table)} ADD COLUMN {definition}")
