"""What the pages in Airflow's UI get from the API server: the replies and requests of the routes below ``/api``."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

LoadOutcome: TypeAlias = Literal["succeeded", "failed", "deferred", "running", "unfinished"]
EntryKind: TypeAlias = Literal["document", "question", "submission", "rating"]
Verdict: TypeAlias = Literal["passed", "failed", "none"]
SettleOutcome: TypeAlias = Literal["created", "not_created", "deleted"]
TaskKind: TypeAlias = Literal["load", "chat_batch", "export", "evaluation", "other", "unknown"]
# Maximum number of items that one settle request may name.
MOST_SETTLED = 500


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(_Model):
    """
    Why a part of a page has no data.

    :param code: Kind of the problem, for tests and styles.
    :param text: A sentence for the user: what is missing, and which setting to change.
    """

    code: Literal[
        "no_ledger", "ledger_unreachable", "ledger_empty", "ledger_version", "no_lake", "lake_unreadable", "unreadable"
    ]
    text: str


class Task(_Model):
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


class LedgerRef(_Model):
    """
    A ledger that the API server may read.

    :param id: Value of the parameter ``ledger``: the id of the SQL connection, empty for the default ledger.
    :param name: Name to show.
    """

    id: str
    name: str


class Site(_Model):
    """
    A site in the ledger.

    :param site_id: Value of the parameter ``site``.
    :param url: URL of the site at the service.
    :param sources: Names of its sources, the latest load first; at most 50.
    """

    site_id: str
    url: str
    sources: list[str]


class Context(_Model):
    """
    What a page needs before everything else.

    :param version: Version of this package.
    :param now: The API server's time. Ages are relative to it.
    :param ledgers: The ledgers; the first one is the default.
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


class Counts(_Model):
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
    changed: int | None
    possibly_duplicated: int | None
    stale: int | None
    requests: int | None
    throttled: int | None


class Load(_Model):
    """
    One try of a load.

    :param outcome: ``running`` if Airflow says that its task is running or deferred; ``unfinished`` if the try has no
        end and its task is not running: it was killed.
    :param endpoint: Kind of document: ``documents/qa``, ``documents/text`` or ``documents``.
    :param seconds: Duration of sending in seconds.
    :param error: The error that ended it, at most 2,000 characters.
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


class Paged(_Model):
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


class SourceState(_Model):
    """
    The latest try of a source, without tries that were deferred.

    :param due: Whether it is older than twice the usual time between the last tries: the load may not run any more.
    """

    load: Load
    due: bool


class Gate(_Model):
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


class Summary(_Model):
    """
    The answers at the top of the page, and the numbers of the dashboard panel.

    :param problem: Why the ledger cannot be read; the numbers from the ledger are then None or empty.
    :param sources: State of each source, those that need attention first; at most 50.
    :param loads_day: Tries that started in the last 24 hours.
    :param failed_day: Those of them that failed or were killed.
    :param created_day: Documents that they created.
    :param requests_day: Requests that they sent.
    :param throttled_day: Requests that were answered with 429.
    :param ambiguous: Number of ambiguous entries, counted up to 10,000.
    :param ambiguous_since: Time of the oldest of them.
    :param superseded: Number of keys with superseded documents, counted up to 10,000.
    :param stale: Sum of the stale documents of the latest try of each source; None if no load looked for them.
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


class DocumentsDay(_Model):
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


class Documents(_Model):
    """Documents over time, one item per day with loads, earliest first."""

    problem: Problem | None
    days: list[DocumentsDay]


class Entry(_Model):
    """
    An entry of the ledger that may or may not have happened.

    :param id: Identifies the entry for settling; opaque.
    :param label: Key of the row as readable text; the session for single chat requests and ratings.
    :param age_seconds: Seconds since the claim.
    :param may_be_under_way: Whether a task may be sending it right now; it cannot be settled then.
    :param may_settle: Whether the user may settle it.
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
    """Ambiguous entries, oldest claim first within each kind: documents, questions, submissions, ratings."""

    problem: Problem | None
    rows: list[Entry]


class Superseded(_Model):
    """
    A key whose content has changed: the older documents are still on the site.

    :param id: Identifies the entry for settling; opaque.
    :param document_ids: Ids of the older documents.
    """

    id: str
    site_id: str
    source: str
    label: str
    document_ids: list[str]
    may_settle: bool
    task: Task


class SupersededPage(Paged):
    """Superseded documents, by source and key."""

    problem: Problem | None
    rows: list[Superseded]


class ChatRequest(_Model):
    """
    A chat request without a recorded end.

    :param submitted_at: When the service accepted it.
    :param is_batch: Whether it belongs to a chat batch.
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


class Evaluation(_Model):
    """
    One evaluation.

    :param at: When the first question was asked, else the logical date, else the day of the partition.
    :param coverage: Share of questions with an answer, 0 to 1.
    :param pass_rate: Share of the judged questions that passed, 0 to 1; None without a condition.
    :param means: Weighted mean by scorer.
    :param report: Path of the report below Airflow's base URL.
    """

    name: str
    tag: str | None
    at: datetime
    verdict: Verdict
    questions: int
    answered: int
    coverage: float
    pass_rate: float | None
    means: dict[str, float | None]
    worse: list[str]
    report: str | None
    task: Task


class Evaluations(_Model):
    """
    The last evaluations, earliest first; at most 100.

    :param names: Names of all of them, for a filter.
    """

    problem: Problem | None
    names: list[str]
    rows: list[Evaluation]


class Point(_Model):
    """A value of a day."""

    day: date
    value: float


class Series(_Model):
    """
    A number over time.

    :param name: Metric, such as ``chats.total``.
    :param site_id: Site, or None for a number of the tenant.
    """

    name: str
    site_id: str | None
    points: list[Point]


class FeedbackDay(_Model):
    """Ratings of one UTC day by word."""

    day: date
    ratings: dict[str, int]


class Statistics(_Model):
    """
    Trends from the lake, of the last 30 partitions.

    :param metrics: Names of all numeric metrics of the latest capture; at most 500.
    :param series: The metrics that the request names; by default the first four.
    :param feedback: Ratings that were sent.
    """

    problem: Problem | None
    metrics: list[str]
    series: list[Series]
    feedback: list[FeedbackDay]


class Limit(_Model):
    """
    A limit of the tenant.

    :param name: Path of the limit in the reply, such as ``limits.documents``.
    :param used: Amount used; None if the service does not say.
    :param limit: The limit.
    :param share: ``used / limit``, or None.
    :param captured_at: When the service said so.
    """

    tenant_id: str | None
    name: str
    used: float | None
    limit: float
    share: float | None
    resets_at: str | None
    captured_at: datetime


class Limits(_Model):
    """Limits of the latest capture of each tenant, the most used first."""

    problem: Problem | None
    rows: list[Limit]


class FindingsKind(_Model):
    """Number of findings of a kind."""

    kind: str
    count: int


class Finding(_Model):
    """
    A row of a load that a person should look at.

    :param row: Number of the row in the source, from 1; None if it is no longer in the source.
    :param reason: Why a person should look at it.
    """

    kind: str
    row: int | None
    key: str
    reason: str
    document_ids: list[str]


class Findings(Paged):
    """
    Findings of a task, in the order of the file.

    :param path: Path of the file; None if the task has no findings.
    :param kinds: Number of findings by kind, of the whole file.
    """

    problem: Problem | None
    path: str | None
    kinds: list[FindingsKind]
    rows: list[Finding]


class Bin(_Model):
    """A bin of a histogram: values from ``low`` (inclusive) to ``high`` (exclusive; the last one inclusive)."""

    low: float
    high: float
    count: int


class ChatBatch(_Model):
    """
    The result of a chat batch. ``rows`` is the sum of the next five.

    :param p50: Median latency of complete questions in seconds, by the service's times; None if not known.
    :param histogram: Latencies of complete questions in seconds; empty if not known.
    :param output_path: Path of the file with the answers.
    :param problem: Why there is no histogram, or None.
    """

    rows: int
    complete: int
    failed: int
    timed_out: int
    lost: int
    not_submitted: int
    rejected: int
    submitted: int
    reused: int
    possibly_duplicated: int
    p50: float | None
    p95: float | None
    p99: float | None
    histogram: list[Bin]
    output_path: str | None
    problem: Problem | None


class Written(_Model):
    """A file or dataset that a task wrote. ``url`` is a page for a browser, or None."""

    name: str
    path: str
    rows: int | None
    url: str | None


class TaskLink(_Model):
    """
    A link of the task.

    :param href: URL, or path below Airflow's base URL if it starts with ``/``.
    """

    name: str
    href: str


class TaskReply(_Model):
    """
    What a task did.

    :param kind: Kind of the task; ``other`` if it is not a task of this package, ``unknown`` if Airflow does not know
        the task instance or it has not run.
    :param operator: Class name of the operator, or None.
    :param state: State of the task instance in Airflow, or None.
    :param is_mapped_summary: Whether the task is mapped and the request names no index: the page of one mapped task
        instance has the data.
    :param tries: Tries of a load, earliest first; empty for other tasks. At most 50.
    :param problem: Why the tries cannot be read, or None.
    :param batch: Result of a chat batch, or None.
    :param evaluation: Result of an evaluation, or None.
    :param written: What exports and other tasks wrote.
    :param links: Report, request log, data.
    :param has_findings: Whether to request the findings: True for loads and chat batches.
    :param ledger: Ledger in which the tries are, for settling.
    :param may_settle: Whether the user may settle entries of this DAG.
    """

    kind: TaskKind
    operator: str | None
    state: str | None
    is_mapped_summary: bool
    task: Task
    ledger: str
    tries: list[Load]
    problem: Problem | None
    batch: ChatBatch | None
    evaluation: Evaluation | None
    written: list[Written]
    links: list[TaskLink]
    has_findings: bool
    may_settle: bool


class SettleRequest(_Model):
    """
    Entries to settle, in one request because URLs are logged.

    :param ledger: Id of the ledger.
    :param outcome: ``created`` or ``not_created`` for ambiguous entries, ``deleted`` for superseded and stale ones.
    :param ids: ``id`` of entries or of superseded documents.
    :param dag_id: DAG of the task with the findings; required with ``document_ids`` or ``labels``.
    :param document_ids: For ``deleted``: ids of documents, as findings list them.
    :param site_id: Site of the documents.
    :param labels: For ``deleted``: keys of stale findings without a document id.
    """

    ledger: str = ""
    outcome: SettleOutcome
    ids: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)
    dag_id: str | None = None
    site_id: str | None = None
    document_ids: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)
    labels: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)


class SettleItem(_Model):
    """
    What settling does, or would do, to one entry.

    :param name: Readable key or document id.
    :param accepted: Whether it is, or would be, settled.
    :param text: The consequence for the next load, or why it is refused.
    """

    name: str
    accepted: bool
    text: str


class SettleReply(_Model):
    """
    Result of settling, or its preview.

    :param is_preview: Whether nothing was changed.
    :param settled: Number of accepted items.
    :param refused: Number of refused items; the accepted ones are settled anyway.
    :param text: One sentence for the confirmation, or for the result.
    """

    is_preview: bool
    settled: int
    refused: int
    text: str
    items: list[SettleItem]
