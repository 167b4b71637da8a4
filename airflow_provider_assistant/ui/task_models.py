"""What the tab of a task instance gets from the API server, and how entries are settled."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from airflow_provider_assistant.ledger.settle import Settled
from airflow_provider_assistant.ui.models import ListName, Load, Model, Paged, Problem, Task
from airflow_provider_assistant.ui.trend_models import Evaluation

TaskKind: TypeAlias = Literal["load", "chat_batch", "ratings", "export", "evaluation", "other", "unknown"]
# Maximum number of items that one settle request may name.
MOST_SETTLED = 500


class FindingsKind(Model):
    """Number of findings of a kind."""

    kind: str
    count: int


class Finding(Model):
    """
    A row of a load that a person should look at.

    :param row: Number of the row in the source, from 1; None if it is no longer in the source.
    :param group: Page, file or ticket of the row; None if the load has no groups.
    """

    kind: str
    row: int | None
    key: str
    reason: str
    document_ids: list[str]
    group: str | None = None


class Findings(Paged):
    """
    Findings of a task, in the order of the file.

    :param path: None if the task has no findings.
    :param kinds: Of the whole file.
    """

    problem: Problem | None
    path: str | None
    kinds: list[FindingsKind]
    rows: list[Finding]


class Bin(Model):
    """A bin of a histogram: values from ``low`` (inclusive) to ``high`` (exclusive; the last one inclusive)."""

    low: float
    high: float
    count: int


class ChatBatch(Model):
    """
    The result of a chat batch. ``rows`` is the sum of the next five.

    :param rejected: This and the next three are None if the task failed: then the other counts are from the file.
    :param p50: Median latency of complete questions in seconds; None if not known.
    :param measured: Number of complete questions whose latency was measured by polls or round trips;
        None if not known.
    :param low_confidence: Number of answers with low confidence; None if not known.
    :param histogram: Latencies of complete questions in seconds; empty if not known.
    :param problem: Why there is no histogram, or None.
    """

    rows: int
    complete: int
    failed: int
    timed_out: int
    lost: int
    not_submitted: int
    rejected: int | None
    submitted: int | None
    reused: int | None
    possibly_duplicated: int | None
    p50: float | None
    p95: float | None
    p99: float | None
    measured: int | None = None
    low_confidence: int | None = None
    histogram: list[Bin]
    output_path: str | None
    problem: Problem | None


class Written(Model):
    """A file or dataset that a task wrote. ``url`` is a page for a browser, or None."""

    name: str
    path: str
    rows: int | None
    url: str | None


class TaskReply(Model):
    """
    What a task did.

    :param kind: Kind of the task; ``other`` if it is not a task of this package, ``unknown`` if Airflow does not know
        the task instance or it has not run.
    :param is_mapped_summary: Whether the task is mapped and the request names no index: the page of one mapped task
        instance has the data.
    :param tries: Tries of a load, earliest first; empty for other tasks. At most 50.
    :param problem: Why the tries cannot be read, or None.
    :param has_findings: Whether to request the findings: True for loads and chat batches.
    """

    kind: TaskKind
    operator: str | None
    state: str | None
    is_mapped_summary: bool
    task: Task
    tries: list[Load]
    problem: Problem | None
    batch: ChatBatch | None
    evaluation: Evaluation | None
    written: list[Written]
    has_findings: bool
    may_settle: bool


class Matching(Model):
    """
    All entries of a list that match its filters, instead of entries by their ids.

    :param site_id: This and the next one select the site as the parameters of the page do.
    :param label_part: Text that the keys contain.
    """

    which: ListName
    site_id: str | None = None
    service: str | None = None
    source: str | None = None
    label_part: str | None = None


class SettleRequest(Model):
    """
    Entries to settle, in one request because URLs are logged: by ``ids``, ``matching`` or ``document_ids``.

    :param outcome: ``created`` or ``not-created`` for entries whose outcome is not known, ``removed`` for documents.
    :param ids: ``id`` of entries.
    :param document_ids: Ids of documents that were removed, as findings list them. They need the site.
    :param confirmation: What the preview replied. Another list is refused with status 409.
    """

    outcome: Settled
    ids: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)
    matching: Matching | None = None
    document_ids: list[str] = Field(default_factory=list, max_length=MOST_SETTLED)
    site_id: str | None = None
    confirmation: str | None = None


class SettleReply(Model):
    """
    Result of settling, or its preview.

    :param is_preview: Whether nothing was changed.
    :param settled: Number of entries that were, or would be, settled.
    :param text: What happens, the consequence for the next load, and what stays as it is and why.
    :param labels: Readable keys of the first ones.
    :param sites: Their sites.
    :param confirmation: Identifies the list that the preview is about.
    """

    is_preview: bool
    settled: int
    text: str
    labels: list[str] = Field(default_factory=list)
    sites: list[str] = Field(default_factory=list)
    confirmation: str | None = None
