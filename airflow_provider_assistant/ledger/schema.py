"""The tables of the ledger: attempts, the tries of tasks, and their findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.texts import storable

Kind: TypeAlias = Literal["file", "text", "qa", "chat", "rating"]
State: TypeAlias = Literal["claimed", "created", "ambiguous", "rejected", "failed", "removed"]
# Kinds whose attempts are documents of a site.
DOCUMENT_KINDS: tuple[Kind, ...] = ("file", "text", "qa")
# States of attempts that may have created something, but whose outcome is not known.
UNRESOLVED: tuple[State, ...] = ("claimed", "ambiguous")
# Status of a document whose removal has begun: it may be in use, off or gone.
REMOVING = "being removed"


@dataclass(frozen=True, slots=True)
class RunRef:
    """
    Identify the task instance that makes an attempt.

    :param map_index: Index of a mapped task, otherwise -1.
    :param region: Iteration of a task in a loop (Airflow 3.4), otherwise None.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    region: str | None = None

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Self:
        """Return the task instance of the context that Airflow passes to ``execute``."""
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index, region_of(context))

    def columns(self) -> dict[str, Any]:
        """Return the values of the columns of the task instance."""
        return asdict(self)

    def is_of(self, table: sa.FromClause) -> sa.ColumnElement[bool]:
        """Return the condition for the rows of a table of the ledger that this task instance wrote."""
        return sa.and_(*(table.c[name].is_not_distinct_from(value) for name, value in self.columns().items()))

    def __str__(self) -> str:
        text = f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}"
        return text if self.region is None else f"{text}/{self.region}"


# Columns of the task instance.
RUN_COLUMNS = tuple(field.name for field in fields(RunRef))


def region_of(context: Mapping[str, Any]) -> str | None:
    """Return the iteration of a task in a loop, or None."""
    # All iterations share DAG, run, task and map index. Mapped tasks have regions as well, and need none.
    ti = context["ti"]
    # Earlier versions of Airflow have no regions.
    index = getattr(ti, "region_index", None)
    if index is None or not context.get("loop"):
        return None
    return f"{index}.{getattr(ti, 'region_id', None) or ''}".rstrip(".")


class UtcDateTime(sa.TypeDecorator[datetime]):
    """A timezone-aware datetime, stored as naive UTC because SQLite has no column type with a time zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """Convert a value for the database."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        """Convert a value from the database."""
        return None if value is None else value.replace(tzinfo=UTC)


class Text(sa.TypeDecorator[str]):
    """Text of any length and unknown origin, see :func:`~airflow_provider_assistant.texts.storable`."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """Convert a value for the database."""
        return None if value is None else storable(value)


metadata = sa.MetaData()


def _run_columns() -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer if name == "map_index" else sa.String(250)) for name in RUN_COLUMNS]


# The version of the tables, the id of the ledger, which moves with its database, and the time before which attempts may
# have been pruned. One row, or two if two processes created the tables at the same moment.
ledger_info = sa.Table(
    "assistant_ledger",
    metadata,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("id", sa.String(32), nullable=False),
    sa.Column("pruned_before", UtcDateTime),
)

# One row per attempt to create a document, a chat request or a rating. To claim a key is to insert its next number.
attempts = sa.Table(
    "assistant_attempts",
    metadata,
    # Hash of service, site, kind and namespace: what a key is unique within.
    sa.Column("scope", sa.String(32), primary_key=True),
    # Hash of the row's key.
    sa.Column("key", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("service", Text, nullable=False),
    sa.Column("site_id", Text, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    # Separates loads whose keys overlap; the name of a chat batch.
    sa.Column("namespace", Text),
    # The load that the row belongs to; the task of a chat request or a rating.
    sa.Column("source", Text, nullable=False),
    # The key as readable text.
    sa.Column("label", Text, nullable=False),
    # The page, file or ticket of the row.
    sa.Column("group_name", Text),
    sa.Column("content_hash", sa.String(32)),
    sa.Column("state", sa.String(16), nullable=False),
    # Until then, the sender of a claim counts as alive. By the database's clock.
    sa.Column("alive_until", UtcDateTime),
    # When a load found that the row is gone from its source.
    sa.Column("gone_at", UtcDateTime),
    # Id of the document or chat request at the service; for a rating, that of the request that it rates.
    sa.Column("remote_id", Text),
    # Word of the service for the document, such as "draft".
    sa.Column("status", Text),
    sa.Column("requests", sa.Integer, nullable=False, default=0),
    # Number of requests of this attempt that may have created something that its outcome does not name.
    sa.Column("ambiguous", sa.Integer, nullable=False, default=0),
    sa.Column("http_status", sa.Integer),
    sa.Column("error", Text),
    # Of chat requests and ratings.
    sa.Column("mode", sa.String(16)),
    sa.Column("rating", sa.String(16)),
    sa.Column("session_id", Text),
    # How a chat request ended, and when that was seen.
    sa.Column("ended", sa.String(16)),
    sa.Column("ended_at", UtcDateTime),
    # Identifies the try of the task that made the attempt.
    sa.Column("token", sa.String(32), nullable=False),
    *_run_columns(),
    sa.Column("claimed_at", UtcDateTime, nullable=False),
    sa.Column("recorded_at", UtcDateTime),
)

# One row per try of a task.
tries = sa.Table(
    "assistant_tries",
    metadata,
    sa.Column("token", sa.String(32), primary_key=True),
    # What the task does, such as "load".
    sa.Column("task_kind", sa.String(32), nullable=False),
    sa.Column("service", Text, nullable=False),
    sa.Column("site_id", Text, nullable=False),
    sa.Column("site_url", Text, nullable=False),
    # Kind of the documents of a load.
    sa.Column("kind", sa.String(16)),
    sa.Column("source", Text, nullable=False),
    *_run_columns(),
    sa.Column("started_at", UtcDateTime, nullable=False, index=True),
    # The following columns are null while the try runs, and after it was killed.
    sa.Column("ended_at", UtcDateTime),
    # "succeeded", "succeeded with findings", "failed" or "deferred".
    sa.Column("outcome", sa.String(32)),
    sa.Column("error", Text),
    sa.Column("counts", sa.JSON),
    sa.Column("findings", Text),
    # Number of documents that the ledger had for the source when the try ended.
    sa.Column("documents", sa.Integer),
    sa.Column("seconds", sa.Float(53)),
    # Path of the report of an evaluation.
    sa.Column("report", Text),
    sa.Index("assistant_tries_by_run", "dag_id", "run_id", "task_id"),
)

# The first findings of a try: rows that a person should look at.
findings = sa.Table(
    "assistant_findings",
    metadata,
    sa.Column("token", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("kind", sa.String(32), nullable=False),
    # The key of the row as readable text.
    sa.Column("key", Text, nullable=False),
    sa.Column("reason", Text, nullable=False),
    # Number of the row in the source.
    sa.Column("row", sa.BigInteger),
    sa.Column("document_ids", sa.JSON, nullable=False),
)


def is_in(column: sa.Column[Any], values: tuple[str, ...]) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of these words."""
    # As literals: with bound parameters, SQLite does not use a partial index.
    return column.in_([sa.literal_column(f"'{value}'") for value in values])


def _index(name: str, where: sa.ColumnElement[bool], *columns: sa.Column[Any]) -> None:
    """Define an index that contains few of the rows of a large table."""
    sa.Index(f"{attempts.name}_{name}", *columns, postgresql_where=where, sqlite_where=where)


_c = attempts.c
IS_UNRESOLVED = is_in(_c.state, UNRESOLVED)
# Few attempts are the second one of their key, may have created more than one document, or have another status.
IS_REPEATED = _c.number > sa.literal_column("1")
MAY_BE_MORE = _c.ambiguous > sa.literal_column("0")
IS_OPEN = sa.and_(
    _c.kind == sa.literal_column("'chat'"), _c.state == sa.literal_column("'created'"), _c.ended.is_(None)
)
HAS_OTHER_STATUS = _c.status != sa.literal_column("'active'")
_index("unresolved", IS_UNRESOLVED, _c.claimed_at)
_index("repeated", IS_REPEATED, _c.number, _c.scope, _c.key)
_index("doubled", MAY_BE_MORE, _c.ambiguous)
_index("open", IS_OPEN, _c.claimed_at)
_index("status", HAS_OTHER_STATUS, _c.claimed_at)
_index("gone", _c.gone_at.is_not(None), _c.scope, _c.gone_at)
# Chat requests and ratings are looked up by their request, documents by their id and their content. PostgreSQL's
# B-tree index takes at most about 2,700 bytes, which the id of a service may exceed.
sa.Index(f"{attempts.name}_by_remote_id", _c.remote_id, postgresql_using="hash")
sa.Index(f"{attempts.name}_by_content", _c.content_hash, postgresql_using="hash")
sa.Index(f"{attempts.name}_by_run", _c.dag_id, _c.run_id, _c.task_id)


def given(*names: str) -> sa.ColumnElement[bool]:
    """Return the condition that columns of attempts have the values of the parameters ``of_<name>``."""
    return sa.and_(*(_c[name] == sa.bindparam(f"of_{name}", type_=_c[name].type) for name in names))


def new(name: str) -> sa.BindParameter[Any]:
    """Return the parameter ``new_<name>``, the new value of a column of attempts."""
    return sa.bindparam(f"new_{name}", type_=_c[name].type)
