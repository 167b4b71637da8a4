"""What the pages get from the API server."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from airflow_provider_assistant.ledger import Kind, State
from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.texts import storable

TaskKind: TypeAlias = Literal["load", "chat_batch", "rating", "evaluation", "export", "warehouse", "retention"]
RecordedOutcome: TypeAlias = Literal["succeeded", "succeeded with findings", "failed", "deferred", "unfinished"]
Outcome: TypeAlias = RecordedOutcome | Literal["running"]
ListName: TypeAlias = Literal["unresolved", "doubled", "superseded", "stale", "draft", "open"]
# Scope, key and number of an attempt.
AttemptId: TypeAlias = tuple[str, str, int]
# Maximum number of items that one settle request may name.
MOST_SETTLED = 500


class Model(BaseModel):
    """Base of all models. Texts of unknown origin become texts that JSON can have, see :func:`storable`."""

    # JSON has no such numbers.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        if isinstance(value, str):
            return storable(value)
        if isinstance(value, list):
            return [storable(item) if isinstance(item, str) else item for item in value]
        return value


class UnavailableError(Exception):
    """
    The ledger cannot be read, or a report.

    :param text: A sentence for the user: what is missing, and which setting to change.
    """


class Task(Model):
    """
    A task instance.

    :param path: Path of its page for the router of Airflow's UI, without the base URL's prefix; None if this Airflow
        does not know the DAG, as for the command line.
    """

    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    region: str | None = None
    path: str | None = None


class Site(Model):
    """
    A site in the ledger.

    :param sources: Names of its loads and evaluations, and of its other tasks; at most 50, the latest try first.
    """

    site_id: str
    service: str
    sources: list[str]


class Context(Model):
    """
    What the page needs before everything else.

    :param now: The API server's time. Ages are relative to it.
    :param problem: Why the ledger cannot be read, or None.
    :param sites: Sites of the ledger; at most 200.
    :param may_settle: Whether the user may settle the entries of at least one DAG.
    """

    version: str
    now: datetime
    problem: str | None
    sites: list[Site]
    may_settle: bool


class Try(Model):
    """
    A try of a task.

    :param token: Identifies the try.
    :param outcome: ``succeeded with findings`` if it left something that a person should look at; ``running`` if
        Airflow says that its task is running; ``unfinished`` if the try has no end and its task is not running: it was
        killed.
    :param site_id: Empty if the task has no site.
    :param kind: Kind of the documents of a load.
    :param counts: What the task returned, without paths of findings and report; empty if it ended before.
    :param findings: Path of the findings.
    :param report: Path of the report below Airflow's base URL.
    :param seconds: Duration in seconds.
    :param error: At most 2,000 characters.
    """

    token: str
    task_kind: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome
    service: str
    site_id: str
    kind: Kind | None
    source: str
    counts: dict[str, Any]
    findings: str | None
    report: str | None
    seconds: float | None
    error: str | None
    task: Task


class Paged(Model):
    """
    Position of a page of rows.

    :param problem: Why the ledger cannot be read, or None.
    :param total: Number of rows that match, counted up to 10,000.
    :param is_capped: Whether there are more than ``total``.
    :param limit: Rows per page, 1 to 100.
    :param offset: Number of rows before this page, 0 to 10,000.
    """

    problem: str | None
    total: int
    is_capped: bool
    limit: int
    offset: int


class Tries(Paged):
    """Tries of tasks, the latest start first."""

    rows: list[Try]


class DocumentsDay(Model):
    """Number of documents that the ledger knew at the end of a UTC day with loads."""

    day: date
    documents: int


class Documents(Model):
    """Documents over time, earliest first."""

    problem: str | None
    days: list[DocumentsDay]


class Entry(Model):
    """
    An entry of the ledger that a person should look at.

    :param label: Key of the row as readable text; the session for single chat requests and ratings.
    :param document_id: Id of the document or chat request; None if the service returned none.
    :param status: Word of the service for a document.
    :param claimed_at: When it was sent.
    :param gone_at: When a load found that the row is gone from its source.
    :param is_alive: Whether a task may be sending it right now; it cannot be settled then.
    :param is_batch: Whether it is a question of a chat batch.
    :param outcomes: What the user may settle it as.
    """

    id: AttemptId
    kind: Kind
    service: str
    site_id: str
    source: str
    label: str
    state: State
    requests: int
    error: str | None
    document_id: str | None
    status: str | None
    claimed_at: datetime
    gone_at: datetime | None
    is_alive: bool
    is_batch: bool
    outcomes: list[Settled]
    task: Task


class Entries(Paged):
    """
    Entries of a list, the latest claim first. Of a list with more than 1,000, they are any 1,000.

    :param which: The list: the first one with entries, if the request names none.
    :param lists: Number of entries of all lists, each counted up to 1,000.
    """

    which: ListName
    lists: dict[ListName, int]
    rows: list[Entry]


class TaskReply(Model):
    """
    What a task instance did.

    :param operator: Class of its operator; None if Airflow does not know the task instance, or it has not run.
    :param is_mapped: Whether the task is mapped and the request names no index: the page of one mapped task instance
        has the data.
    :param tries: Its tries, earliest first; at most 50.
    """

    problem: str | None
    operator: str | None
    state: str | None
    is_mapped: bool
    tries: list[Try]


class Finding(Model):
    """
    A row that a person should look at.

    :param row: Number of the row in the source, from 1; None if it is no longer in the source.
    """

    kind: str
    row: int | None
    key: str
    reason: str
    document_ids: list[str]


class Findings(Paged):
    """
    Findings of the latest try of a task, in the order of its file, of which the ledger has the first 1,000.

    :param kinds: Number of findings by kind.
    """

    kinds: dict[str, int]
    rows: list[Finding]


class SettleRequest(Model):
    """
    Entries to settle, in one request because URLs are logged: by ``ids`` or ``document_ids``.

    :param outcome: ``created`` or ``not-created`` for entries whose outcome is not known, ``removed`` for documents.
    :param ids: ``id`` of entries.
    :param document_ids: Ids of documents that were removed. They need the site.
    :param confirmation: What the preview replied. Another list is refused with status 409.
    """

    outcome: Settled
    ids: list[AttemptId] = Field(default_factory=list, max_length=MOST_SETTLED)
    document_ids: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)
    service: str | None = None
    site_id: str | None = None
    confirmation: str | None = None


class SettleReply(Model):
    """
    Result of settling, or its preview.

    :param settled: Number of entries that were, or would be, settled.
    :param text: What happens, the consequence for the next load, and what stays as it is and why.
    :param labels: Readable keys of the first ones.
    :param sites: Their sites.
    :param confirmation: Identifies the list that the preview is about.
    """

    settled: int
    text: str
    labels: list[str] = Field(default_factory=list)
    sites: list[str] = Field(default_factory=list)
    confirmation: str | None = None
