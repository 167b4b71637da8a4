"""The Parquet datasets and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Dataset:
    """
    A dataset: a folder with one partition per day.

    :param name: Name of the dataset, of its folder and of its table in the warehouse.
    :param description: What its rows are.
    :param columns: Type and description by column name, in the order of the file. The type is ``moment``, ``string``,
        ``double``, ``int`` or ``bool``; with an exclamation mark, the column is not nullable; with an at sign, its text
        may be of a person. The rest of the text is the description.
    """

    name: str
    description: str
    columns: Mapping[str, str]

    def schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        import pyarrow as pa

        types = {
            "moment": pa.timestamp("us", tz="UTC"),
            "string": pa.string(),
            "double": pa.float64(),
            "int": pa.int32(),
            "bool": pa.bool_(),
        }
        columns = []
        for name, column in self.columns.items():
            kind, _, _description = column.partition(" ")
            columns.append(pa.field(name, types[kind.rstrip("@!")], nullable="!" not in kind))
        return pa.schema(columns)

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of the columns, by name."""
        return {name: column.split(" ", 1)[1] for name, column in self.columns.items()}

    def personal(self) -> tuple[str, ...]:
        """Return the columns whose text may be of a person."""
        return tuple(name for name, column in self.columns.items() if "@" in column.split(" ", 1)[0])


# Whose rows they are.
_SITE_COLUMNS = {
    "service": "string! Name of the service: that of the connection, or else the host of its base URL",
    "site_id": "string! Site",
}
_REPLY_COLUMNS = {
    "captured_at": "moment! When the reply arrived",
    "logical_date": "moment Logical date of the DAG run; null for a run without one",
    "service": _SITE_COLUMNS["service"],
    "tenant_id": "string Tenant of the operator or the connection, if one is set",
    "site_id": "string Site; null for what is of the tenant",
}
_VALUE_COLUMNS = {
    "metric": "string! Dotted path in the reply",
    "value": "double The number; null for other types",
    "text": "string! The value as text, with every digit: strings unchanged, everything else as JSON",
    "type": "string! JSON type of the value",
    "period": "string Period that the reply names",
}
_TASK_COLUMNS = {
    "dag_id": "string DAG of the task",
    "run_id": "string Run of the DAG",
    "task_id": "string Task",
    "map_index": "int Index of a mapped task; -1 for a task that is not mapped",
}


def replies(name: str, description: str) -> Dataset:
    """Return a dataset of replies, with one row per value."""
    return Dataset(name, description, {**_REPLY_COLUMNS, **_VALUE_COLUMNS})


STATISTICS = replies("statistics", "One row per value of a site's statistics, on the day of the run")
LIMITS = replies("limits", "One row per value of the tenant's limits, on the day of the run")
STATISTICS_RAW = Dataset(
    "statistics_raw",
    "One row per reply of a site's statistics, on the day of the run",
    {**_REPLY_COLUMNS, "raw": "string! The reply as JSON"},
)
FEEDBACK = Dataset(
    "feedback",
    "One row per rating, on the day when it was sent",
    {
        "sent_at": "moment! When the service accepted the rating",
        **_SITE_COLUMNS,
        "session_id": "string@! Session",
        "request_id": "string! Chat request that was rated",
        "rating": "string! The word that was sent",
        "answer_seconds": "double Seconds from the submission of the request to its noticed end",
        "attempts": "int! Task tries that sent it",
        **_TASK_COLUMNS,
    },
)
REQUESTS = Dataset(
    "requests",
    "One row per async chat request, on the day of its claim",
    {
        "submitted_at": "moment! When the service accepted the request, or the time of its claim",
        "completed_at": "moment When it ended; null while it has not ended",
        "seconds": "double From submission to end; null while it has not ended",
        "state": "string! complete, failed, lost, timed_out, open or ambiguous",
        **_SITE_COLUMNS,
        "session_id": "string@ Session",
        "request_id": "string Chat request; null if ambiguous",
        "attempts": "int! Task tries or requests that sent it",
        "ambiguous": "int Other attempts that may have submitted it as well",
        "is_batch": "bool! Whether a chat batch submitted it",
        **_TASK_COLUMNS,
    },
)
TRIES = Dataset(
    "tries",
    "One row per try of a task, on the day when it started",
    {
        "started_at": "moment! When it started",
        "ended_at": "moment When it ended; null while it runs, and if it was killed",
        "outcome": "string! succeeded, succeeded with findings, failed, deferred or unfinished",
        "task_kind": "string! What the task does: load, chat_batch, rating, evaluation, export, warehouse, retention",
        **_SITE_COLUMNS,
        "kind": "string Kind of the documents of a load: file, text or qa",
        "source": "string! Name of the source, of the batch or of the evaluation",
        "rows": "int Rows of the source",
        "created": "int Rows whose document was created",
        "unchanged": "int Rows whose document exists already",
        "skipped": "int Rows that were not sent on purpose",
        "rejected": "int Invalid rows, found here or by the service",
        "ambiguous": "int Rows whose document may or may not have been created",
        "failed": "int Rows that were not created because of a failure",
        "drafts": "int Created documents that the service does not use yet",
        "changed": "int Rows with new content",
        "possibly_duplicated": "int Created rows that an earlier attempt may also have created",
        "stale": "int Documents whose row is no longer in the source; null if the load did not look for them",
        "activated": "int Documents that the load activated",
        "deactivated": "int Documents that the load deactivated",
        "deleted": "int Documents that the load deleted",
        "not_activated": "int Documents that could not be activated",
        "not_removed": "int Documents that could not be deactivated or deleted",
        "left_out": "int Files, pages, blank rows and chunks that the source left out",
        "requests": "int Requests that were sent",
        "throttled": "int Requests that were refused because of a rate limit",
        "documents": "int Documents that the ledger has for the source at the end of the try",
        "seconds": "double Duration",
        "error": "string@ The error of a try that failed",
        "counts": "string All counts of the try, as JSON",
        **_TASK_COLUMNS,
    },
)
ANSWERS = Dataset(
    "answers",
    "One row per question of a chat batch or a chat task, on the day of the run",
    {
        "asked_at": "moment When the service accepted the question; null if it was not submitted",
        **_SITE_COLUMNS,
        "kind": "string! What asked: batch or chat",
        "name": "string! The task that asked",
        "key": "string@ Key of the question in its source; null for a chat",
        "repetition": "int! Number of the repetition, from 1",
        "turn": "int Number of the question within its conversation",
        "question": "string@! The question",
        "answer": "string@ The answer; null if there is none",
        "status": "string! How the question ended",
        "error": "string@ Why there is no answer",
        "seconds": "double Seconds that the service took for the answer, if known",
        "confidence_level": "string Confidence of the service in its answer, as a word",
        "confidence_score": "double The same as a number",
        "request_id": "string Chat request; null if the service named none",
        "session_id": "string@ Session",
        **_TASK_COLUMNS,
    },
)
_ASKED_SITE_COLUMNS = {
    "service": "string Name of the service, of the chat batch that asked; null if the answers do not say it",
    "site_id": "string Site, in the same way",
}
EVALUATIONS = Dataset(
    "evaluations",
    "One row per evaluation and scorer, on the day of the run",
    {
        "name": "string! Name of the evaluation",
        **_ASKED_SITE_COLUMNS,
        **_TASK_COLUMNS,
        "logical_date": "moment Logical date of the DAG run; null for a run without one",
        "asked_at": "moment When the first question was submitted, if known",
        "verdict": "string! passed, failed, or none without a gate",
        "questions": "int! Questions of the evaluation",
        "answered": "int! Questions with an answer",
        "coverage": "double! Share of questions with an answer",
        "pass_rate": "double Share of the judged questions that passed; null if none was judged",
        "low_confidence": "int Answers with the confidence level low; null if none has a level",
        "scorer": "string! Scorer; the columns before are the same in all rows of an evaluation",
        "scored": "int! Questions with a score",
        "mean": "double Weighted mean of the scores; null if there are none",
        "baseline": "string Folder of the latest run compared with",
        "difference": "double Mean difference to the baseline, over questions that both scored",
        "difference_low": "double Lower end of the 95 % interval of the difference",
        "difference_high": "double Upper end of the 95 % interval of the difference",
        "path": "string! Path of the evaluation's summary.json",
    },
)
# Values of the column endpoint, by kind of documents.
ENDPOINTS = {"file": "documents", "text": "documents/text", "qa": "documents/qa"}
FINDINGS = Dataset(
    "findings",
    "One row per finding of a load, on the day of the run",
    {
        "found_at": "moment! When the load ended",
        **_SITE_COLUMNS,
        "source": "string! Name of the source",
        "endpoint": "string! Route to which the load sends",
        "kind": "string! Kind of the finding",
        "key": "string@! Key of the row",
        "reason": "string@! What happened",
        "row": "int Number of the row in the source, from 1; null if it is not there any more",
        "document_ids": "string! Ids of the affected documents, as a JSON list",
        "group_name": "string@ Page, file or ticket of the row",
        **_TASK_COLUMNS,
    },
)
DATASETS = {
    dataset.name: dataset
    for dataset in (STATISTICS, LIMITS, STATISTICS_RAW, FEEDBACK, REQUESTS, TRIES, ANSWERS, EVALUATIONS, FINDINGS)
}


def dataset_of(name: str) -> Dataset:
    """Return a dataset by its name; one of replies if it is none of this package."""
    return DATASETS.get(name) or replies(name, "One row per value of a reply, on the day of the run")
