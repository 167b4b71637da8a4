"""What the page gets from the API server about the ledger; see also ``task_models`` and ``trend_models``."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from airflow_provider_assistant.ledger import Kind, State
from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.texts import storable

LoadOutcome: TypeAlias = Literal["succeeded", "succeeded with findings", "failed", "deferred", "running", "unfinished"]
ListName: TypeAlias = Literal["unresolved", "doubled", "superseded", "stale", "draft", "open"]
Verdict: TypeAlias = Literal["passed", "failed", "none"]
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


class Site(Model):
    """
    A site in the ledger.

    :param sources: Latest load first; at most 50.
    """

    site_id: str
    service: str
    sources: list[str]


class Context(Model):
    """
    What a page needs before everything else.

    :param version: Version of this package.
    :param now: The API server's time. Ages are relative to it.
    :param sites: Sites of the ledger; at most 200.
    :param problem: Why the ledger cannot be read, or None.
    :param may_settle: Whether the user may settle the entries of at least one DAG.
    """

    version: str
    now: datetime
    sites: list[Site]
    problem: Problem | None
    may_settle: bool


class Counts(Model):
    """
    Rows of a load by outcome. ``rows`` is the sum of the next six; the others are notes on them.

    All are None if the load ended before counting. ``stale`` is also None if the load did not look for stale rows.
    """

    model_config = ConfigDict(extra="ignore")

    rows: int | None = None
    created: int | None = None
    unchanged: int | None = None
    skipped: int | None = None
    rejected: int | None = None
    ambiguous: int | None = None
    failed: int | None = None
    drafts: int | None = None
    changed: int | None = None
    possibly_duplicated: int | None = None
    stale: int | None = None
    left_out: int | None = None
    requests: int | None = None
    throttled: int | None = None


class Load(Model):
    """
    One try of a load.

    :param token: Identifies the try.
    :param outcome: ``succeeded with findings`` if it left something that a person should look at; ``running`` if
        Airflow says that its task is running; ``unfinished`` if the try has no end and its task is not running: it was
        killed.
    :param kind: Kind of document.
    :param seconds: Duration in seconds.
    :param error: At most 2,000 characters.
    """

    token: str
    started_at: datetime
    ended_at: datetime | None
    outcome: LoadOutcome
    site_id: str
    kind: Kind | None
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
    The answers at the top of the page.

    :param problem: Why the ledger cannot be read; what comes from the ledger is then None or empty.
    :param sources: Those that need attention first; at most 50.
    :param created_day: Documents that were created by loads of the last 24 hours.
    :param lists: Number of entries by list, each counted up to 10,000.
    :param unresolved_since: Time of the oldest entry whose outcome is not known.
    :param gates: Last evaluation of each name, failed ones first; at most 20.
    :param lake_problem: Why there are no evaluations, or None.
    """

    now: datetime
    problem: Problem | None
    sources: list[SourceState]
    created_day: int | None
    lists: dict[ListName, int]
    unresolved_since: datetime | None
    gates: list[Gate]
    lake_problem: Problem | None


class DocumentsDay(Model):
    """Number of documents that the ledger knew at the end of a UTC day with loads."""

    day: date
    documents: int


class Documents(Model):
    """Documents over time, earliest first."""

    problem: Problem | None
    days: list[DocumentsDay]


class Entry(Model):
    """
    An entry of the ledger that a person should look at.

    :param id: Identifies the entry for settling; opaque.
    :param label: Key of the row as readable text; the session for single chat requests and ratings.
    :param document_id: Id of the document or chat request; None if the service returned none.
    :param status: Word of the service for a document.
    :param claimed_at: When it was sent.
    :param age_seconds: Seconds since then.
    :param gone_at: When a load found that the row is gone from its source.
    :param is_alive: Whether a task may be sending it right now; it cannot be settled then.
    :param is_batch: Whether it is a question of a chat batch.
    :param outcomes: What it can be settled as.
    """

    id: str
    kind: Kind
    site_id: str
    source: str
    label: str
    state: State
    requests: int
    error: str | None
    document_id: str | None
    status: str | None
    claimed_at: datetime
    age_seconds: float
    gone_at: datetime | None
    is_alive: bool
    is_batch: bool
    may_settle: bool
    outcomes: list[Settled]
    task: Task


class Entries(Paged):
    """Entries of a list, the latest claim first."""

    problem: Problem | None
    rows: list[Entry]
