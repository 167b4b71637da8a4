"""The tables of the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.texts import storable

Outcome: TypeAlias = Literal["claimed", "created", "rejected", "failed", "ambiguous"]
# Outcomes of effects that may have happened, and of effects that did not happen.
UNRESOLVED = ("claimed", "ambiguous")
NOT_CREATED = ("rejected", "failed")


@dataclass(frozen=True, slots=True)
class RunRef:
    """
    Identify the task instance that claims an effect.

    :param dag_id: Id of the DAG.
    :param run_id: Id of the DAG run.
    :param task_id: Id of the task.
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
        """
        Return the task instance of an Airflow context.

        :param context: Context that Airflow passes to ``execute``.
        """
        ti = context["ti"]
        map_index = ti.map_index
        if map_index is None:
            map_index = -1
        return cls(
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            task_id=ti.task_id,
            map_index=map_index,
            region=region_of(context),
        )

    def columns(self) -> dict[str, Any]:
        """Return the values of the ledger's columns that identify the task instance."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}"
        if self.region is None:
            return text
        return f"{text}/{self.region}"


# Columns of the task instance.
RUN_COLUMNS = tuple(field.name for field in fields(RunRef))


def region_of(context: Mapping[str, Any]) -> str | None:
    """
    Return the iteration of a task in a loop, or None.

    All iterations of a loop share DAG, run, task and map index. Mapped tasks have regions as well, but their map index
    identifies them.
    """
    ti = context["ti"]
    # Earlier versions of Airflow have no regions.
    index = getattr(ti, "region_index", None)
    if index is None or not context.get("loop"):
        return None
    region_id = getattr(ti, "region_id", None) or ""
    return f"{index}.{region_id}".rstrip(".")


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


class StorableText(sa.TypeDecorator[str]):
    """Text of any length and unknown origin, see :func:`~airflow_provider_assistant.texts.storable`."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """Convert a value for the database."""
        return None if value is None else storable(value)


# Start of a request id that is stored as JSON.
_ENCODED = "json:"


def encoded_id(request_id: str) -> str:
    """
    Return a request id as every database can store it; :func:`decoded_id` restores it.

    Polls need the id exactly as the service returned it, so it cannot just be escaped as other texts are.
    """
    is_storable = storable(request_id) == request_id
    # A plain id that starts like an encoded one would be decoded.
    if is_storable and not request_id.startswith(_ENCODED):
        return request_id
    return _ENCODED + json.dumps(request_id)


def decoded_id(stored: str) -> str:
    """Return the request id that was stored."""
    if not stored.startswith(_ENCODED):
        return stored
    return str(json.loads(stored.removeprefix(_ENCODED)))


class RequestId(StorableText):
    """Id of a chat request, see :func:`encoded_id`."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """Convert an id for the database."""
        return None if value is None else encoded_id(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        """Convert an id from the database."""
        return None if value is None else decoded_id(value)


def _run_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("dag_id", sa.String(250)),
        sa.Column("run_id", sa.String(250)),
        sa.Column("task_id", sa.String(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("region", sa.String(250)),
    ]


def _site_columns() -> list[sa.Column[Any]]:
    """Return the columns of a :class:`~airflow_provider_assistant.ledger.scopes.Site`."""
    return [
        sa.Column("service", StorableText, nullable=False),
        sa.Column("tenant_id", StorableText),
        sa.Column("site_id", StorableText, nullable=False),
        sa.Column("site_url", StorableText, nullable=False),
    ]


metadata = sa.MetaData()


def _entries(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """
    Define a table of entries: one row per key and scope, with its claim and its outcome.

    The comments say "document"; in the other tables, it is the chat request or the rating.
    """
    return sa.Table(
        name,
        metadata,
        sa.Column("scope", StorableText, primary_key=True),
        sa.Column("key", sa.String(64), primary_key=True),
        *_site_columns(),
        sa.Column("source", StorableText, nullable=False),
        # Readable form of the key, which is a hash itself.
        sa.Column("label", StorableText, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        # Number of ambiguous attempts, each of which may have created another document.
        sa.Column("ambiguous", sa.Integer, nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("error", StorableText),
        # The document on the site: its content hash, and the ids of the documents that it supersedes.
        sa.Column("content_hash", sa.String(64)),
        sa.Column("superseded", StorableText),
        # Content hash of the request of an entry that is claimed or ambiguous: that of the document
        # if it exists after all.
        sa.Column("sent_hash", sa.String(64)),
        # Token of the task try that made the latest claim.
        sa.Column("claim", sa.String(32), nullable=False),
        sa.Column("claimed_at", UtcDateTime, nullable=False),
        sa.Column("recorded_at", UtcDateTime),
        *_run_columns(),
        *columns,
    )


schema_versions = sa.Table("assistant_ledger_schema", metadata, sa.Column("version", sa.Integer, nullable=False))
documents = _entries(
    "assistant_documents",
    sa.Column("endpoint", StorableText, nullable=False),
    sa.Column("namespace", StorableText),
    sa.Column("document_id", StorableText),
    # Status word that the service returned for the new document, such as "draft".
    sa.Column("status", StorableText),
    # The page, file or ticket of the row, see DocumentGroup. Null without group_columns.
    sa.Column("group_key", sa.BigInteger),
    sa.Column("group_label", StorableText),
    # When a load found that the row is gone from its source; null if it is there, or nobody has looked.
    sa.Column("stale_at", UtcDateTime),
)
chat_requests = _entries(
    "assistant_chat_requests",
    # ``async`` or ``sync``; a request in sync mode has no id.
    sa.Column("mode", sa.String(16), nullable=False),
    # Name of the chat batch; null for a single request.
    sa.Column("batch", StorableText),
    sa.Column("request_id", RequestId),
    # In a chat batch, the session and the end are set when the answers are written.
    sa.Column("session_id", StorableText),
    sa.Column("state", sa.String(16)),
    sa.Column("completed_at", UtcDateTime),
)
ratings = _entries(
    "assistant_ratings",
    sa.Column("session_id", StorableText, nullable=False),
    sa.Column("request_id", RequestId, nullable=False),
    sa.Column("rating", StorableText, nullable=False),
)
# Tables of entries by kind.
TABLES = {"document": documents, "chat_request": chat_requests, "rating": ratings}
# One row per document and change, see document_changes.py. The latest claim replaces the row.
document_changes = sa.Table(
    "assistant_document_changes",
    metadata,
    # Hash of the site, the document and the change, because ids may be of any length.
    sa.Column("change_key", sa.String(64), primary_key=True),
    *_site_columns(),
    sa.Column("document_id", StorableText, nullable=False),
    # ``activate``, ``deactivate`` or ``delete``.
    sa.Column("change", sa.String(16), nullable=False),
    sa.Column("source", StorableText, nullable=False),
    # The entry of the document.
    sa.Column("scope", StorableText, nullable=False),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("label", StorableText, nullable=False),
    sa.Column("reason", sa.String(16), nullable=False),
    # ``claimed``, ``done`` or ``failed``.
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("error", StorableText),
    sa.Column("claimed_at", UtcDateTime, nullable=False),
    sa.Column("recorded_at", UtcDateTime),
    *_run_columns(),
)
# Columns of the ids that the service returned. It returns none for a rating.
CREATED_ID = {documents.name: "document_id", chat_requests.name: "request_id"}
# Columns with the counts of a load.
COUNTS = (
    *("rows", "created", "unchanged", "skipped", "rejected", "ambiguous", "failed"),
    *("drafts", "changed", "possibly_duplicated", "stale"),
    *("activated", "deactivated", "deleted", "not_activated", "not_removed", "left_out"),
    *("requests", "throttled"),
)
loads = sa.Table(
    "assistant_loads",
    metadata,
    sa.Column("load_id", sa.String(32), primary_key=True),
    *_site_columns(),
    sa.Column("endpoint", sa.String(50), nullable=False),
    sa.Column("source", StorableText, nullable=False),
    *_run_columns(),
    sa.Column("started_at", UtcDateTime, nullable=False, index=True),
    # The following columns are null while the load runs, and after it was killed.
    sa.Column("ended_at", UtcDateTime),
    sa.Column("outcome", sa.String(16)),
    sa.Column("error", StorableText),
    *(sa.Column(name, sa.Integer) for name in COUNTS),
    sa.Column("seconds", sa.Float(53)),
)
# One row per try of a task that has claims. It protects the claims with its token while the task is alive.
leases = sa.Table(
    "assistant_leases",
    metadata,
    sa.Column("token", sa.String(32), primary_key=True),
    # By the database's clock.
    sa.Column("heartbeat_at", UtcDateTime, nullable=False),
    # Duration of the lease, as the task's worker configured it.
    sa.Column("seconds", sa.Float(53), nullable=False),
    *_run_columns(),
)
# At most one row: the latest time before which entries were pruned. Exports do not write the days before it.
prunings = sa.Table(
    "assistant_prunings",
    metadata,
    sa.Column("before", UtcDateTime, primary_key=True),
)


def is_unresolved(table: sa.Table) -> sa.ColumnElement[bool]:
    """
    Return the condition for entries that are ambiguous or have no outcome.

    Its values are literals: with bound parameters, SQLite does not use the partial index.
    """
    return table.c.outcome.in_([sa.literal_column(f"'{outcome}'") for outcome in UNRESOLVED])


# A row that is claimed again is in its source again.
IS_STALE = sa.and_(
    documents.c.stale_at.is_not(None),
    documents.c.stale_at >= documents.c.claimed_at,
    documents.c.content_hash.is_not(None),
)
# Entries with documents to delete, by list: older ones of a changed row, and those of a row that is gone.
OUTDATED = {"superseded": documents.c.superseded.is_not(None), "stale": IS_STALE}
# Chat requests that the service accepted and that have no recorded end. Its values are literals, as
# those of is_unresolved.
IS_OPEN = (chat_requests.c.outcome == sa.literal_column("'created'")) & chat_requests.c.state.is_(None)


def _partial_index(name: str, where: sa.ColumnElement[bool], *columns: sa.Column[Any]) -> None:
    """Define an index that contains few of the rows of a large table."""
    sa.Index(name, *columns, postgresql_where=where, sqlite_where=where)


# PostgreSQL's B-tree index takes at most about 2,700 bytes.
for _table in (chat_requests, ratings):
    sa.Index(f"{_table.name}_by_request", _table.c.request_id, postgresql_using="hash")
_partial_index(
    f"{documents.name}_by_group",
    documents.c.group_key.is_not(None),
    documents.c.group_key,
    documents.c.scope,
)
# The entries that need a person.
for _table in TABLES.values():
    _partial_index(f"{_table.name}_unresolved", is_unresolved(_table), _table.c.claimed_at)
_partial_index(f"{documents.name}_superseded", documents.c.superseded.is_not(None), documents.c.claimed_at)
_partial_index(f"{documents.name}_stale", documents.c.stale_at.is_not(None), documents.c.stale_at)
_partial_index(f"{chat_requests.name}_open", IS_OPEN, chat_requests.c.claimed_at)
