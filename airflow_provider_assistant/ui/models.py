"""What the page gets from the API server about the ledger; see also ``task_models`` and ``trend_models``."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from airflow_provider_assistant.texts import storable

LoadOutcome: TypeAlias = Literal["succeeded", "failed", "deferred", "running", "unfinished"]
EntryKind: TypeAlias = Literal["document", "chat_request", "rating"]
Verdict: TypeAlias = Literal["passed", "failed", "none"]
SettleOutcome: TypeAlias = Literal["created", "not_created", "deleted"]
ProblemCode: TypeAlias = Literal[
    "no_ledger", "ledger_unreachable", "ledger_empty", "ledger_version", "no_lake", "lake_unreadable", "unreadable"
]


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


M = TypeVar("M", bound=Model)


def model_of(model: type[M], **values: Any) -> M | None:
    """
    Return a model of values of unknown origin, or None if they have other types.

    :param model: Its class.
    """
    try:
        return model(**values)
    except ValidationError:
        return None


class Problem(Model):
    """
    Why a part of a page has no data.

    :param code: For tests and styles.
    :param text: A sentence for the user: what is missing, and which setting to change.
    """

    code: ProblemCode
    text: str


class UnavailableError(Exception):
    """
    The ledger or the lake cannot be read.

    :param text: A sentence for the user.
    """

    def __init__(self, code: ProblemCode, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(code=code, text=text)


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


class LedgerRef(Model):
    """
    A ledger that the API server may read.

    :param id: Value of the parameter ``ledger``: the id of the SQL connection, empty for the default ledger.
    """

    id: str
    name: str


class Site(Model):
    """
    A site in the ledger.

    :param sources: Latest load first; at most 50.
    """

    site_id: str
    service: str
    tenant_id: str | None
    sources: list[str]


class Context(Model):
    """
    What a page needs before everything else.

    :param version: Version of this package.
    :param now: The API server's time. Ages are relative to it.
    :param ledgers: The first one is the default.
    :param ledger: Id of the ledger that the other fields describe.
    :param sites: Sites of this ledger; at most 200.
    :param problem: Why the ledger cannot be read, or None.
    :param lake: Folder of the datasets, or None.
    :param may_settle: Whether the user may settle the entries of at least one DAG.
    """

    version: str
    now: datetime
    ledgers: list[LedgerRef]
    ledger: str
    sites: list[Site]
    problem: Problem | None
    lake: str | None
    may_settle: bool


class Counts(Model):
    """
    Rows of a load by outcome. ``rows`` is the sum of the next six; the others are notes on them.

    All are None if the load ended before counting. ``stale`` is also None if the load did not look for stale rows.
    """

    rows: int | None
    created: int | None
    unchanged: int | None
    skipped: int | None
    rejected: int | None
    ambiguous: int | None
    failed: int | None
    drafts: int | None
    changed: int | None
    possibly_duplicated: int | None
    stale: int | None
    activated: int | None
    deactivated: int | None
    deleted: int | None
    not_activated: int | None
    not_removed: int | None
    left_out: int | None
    requests: int | None
    throttled: int | None


class Load(Model):
    """
    One try of a load.

    :param outcome: ``running`` if Airflow says that its task is running or deferred; ``unfinished`` if the try has no
        end and its task is not running: it was killed.
    :param endpoint: Kind of document: ``documents/qa``, ``documents/text`` or ``documents``.
    :param seconds: Duration of sending in seconds.
    :param error: At most 2,000 characters.
    """

    load_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: LoadOutcome
    site_id: str
    endpoint: str
    source: str
    counts: Counts
    seconds: float | None
    error: str | None
    task: Task


class Paged(Model):
    """
    Position of a page of rows.

    :param total: Number of rows that match, counted up to 10,000.
    :param is_capped: Whether there are more than ``total``.
    :param limit: Rows per page, 1 to 100.
    :param offset: Number of rows before this page, 0 to 10,000.
    """

    total: int
    is_capped: bool
    limit: int
    offset: int


class Loads(Paged):
    """Tries of loads, latest start first."""

    problem: Problem | None
    rows: list[Load]


class SourceState(Model):
    """
    The latest try of a source, without tries that were deferred.

    :param due: Whether its run is older than twice the longest time between the last runs, of which there are at least
        three: the load may not run any more.
    :param failed_since: The last task instance of the same task that failed after the load began, without a load of its
        own: upstream tasks failed, or it failed before it opened the ledger. None if there is none.
    """

    load: Load
    due: bool
    failed_since: Task | None = None


class Gate(Model):
    """
    The verdict of an evaluation.

    :param before: Pass rate of the evaluation before; None if there is none.
    :param worse: Scorers whose whole 95 % interval of the difference to the baseline is on the bad side of zero.
    :param report: Path of the report below Airflow's base URL, such as ``/assistant/reports/…``.
    """

    name: str
    verdict: Verdict
    at: datetime | None
    pass_rate: float | None
    before: float | None
    worse: list[str]
    report: str | None
    task: Task


class Summary(Model):
    """
    The answers at the top of the page, and the numbers of the dashboard panel.

    :param problem: Why the ledger cannot be read; the numbers from the ledger are then None or empty.
    :param sources: Those that need attention first; at most 50.
    :param loads_day: Tries that started in the last 24 hours.
    :param failed_day: Those of them that failed or were killed.
    :param throttled_day: Requests that were answered with 429.
    :param ambiguous: Counted up to 10,000.
    :param ambiguous_since: Time of the oldest of them.
    :param superseded: Number of keys with superseded documents, counted up to 10,000.
    :param stale: Number of stale documents, counted up to 10,000.
    :param open_requests: Number of chat requests without an end, counted up to 10,000.
    :param gates: Last evaluation of each name, failed ones first; at most 20.
    :param lake_problem: Why there are no evaluations, or None.
    """

    now: datetime
    problem: Problem | None
    sources: list[SourceState]
    loads_day: int | None
    failed_day: int | None
    created_day: int | None
    requests_day: int | None
    throttled_day: int | None
    ambiguous: int | None
    ambiguous_since: datetime | None
    superseded: int | None
    stale: int | None
    open_requests: int | None
    gates: list[Gate]
    lake_problem: Problem | None


class DocumentsDay(Model):
    """
    Documents on one UTC day, from the loads that started on it.

    :param created: Documents that were created, changed ones included.
    :param changed: Those that replace an older document.
    :param documents: Sum of ``created - changed`` from the first recorded load to the end of this day.
    """

    day: date
    created: int
    changed: int
    documents: int


class Documents(Model):
    """Documents over time, one item per day with loads, earliest first."""

    problem: Problem | None
    days: list[DocumentsDay]


class Entry(Model):
    """
    An entry of the ledger that may or may not have happened.

    :param id: Identifies the entry for settling; opaque.
    :param label: Key of the row as readable text; the session for single chat requests and ratings.
    :param age_seconds: Seconds since the claim.
    :param may_be_under_way: Whether a task may be sending it right now; it cannot be settled then.
    :param outcomes: The outcomes that it can be settled as.
    """

    id: str
    kind: EntryKind
    site_id: str
    source: str | None
    label: str
    outcome: Literal["claimed", "ambiguous"]
    attempts: int
    error: str | None
    claimed_at: datetime
    age_seconds: float
    may_be_under_way: bool
    may_settle: bool
    outcomes: list[SettleOutcome]
    task: Task


class Entries(Paged):
    """Ambiguous entries, oldest claim first within each kind: documents, chat requests, ratings."""

    problem: Problem | None
    rows: list[Entry]


class Outdated(Model):
    """
    A key with outdated documents on the site: superseded ones of a row that has changed, or one whose row is gone.

    :param id: Identifies the entry for settling; opaque.
    :param document_ids: Ids of the outdated documents; empty if the service returned none.
    :param stale_at: When a load found that the row is gone; None for superseded documents.
    """

    id: str
    site_id: str
    source: str
    label: str
    document_ids: list[str]
    stale_at: datetime | None = None
    may_settle: bool
    task: Task


class OutdatedPage(Paged):
    """Superseded or stale documents, the latest change first."""

    problem: Problem | None
    rows: list[Outdated]


class ChatRequest(Model):
    """
    A chat request without a recorded end.

    :param submitted_at: When the service accepted it.
    """

    request_id: str | None
    site_id: str
    submitted_at: datetime
    age_seconds: float
    is_batch: bool
    task: Task


class ChatRequests(Paged):
    """Open chat requests of the last 7 days, oldest first."""

    problem: Problem | None
    rows: list[ChatRequest]
