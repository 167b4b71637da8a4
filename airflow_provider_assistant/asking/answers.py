"""What a batch leaves: its output with one row per question, its findings, and its counts."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.exceptions import OWN_PATH, AssistantInputError
from airflow_provider_assistant.ledger import RunRef, Site
from airflow_provider_assistant.loading.findings import DAG_ID, Finding, FindingsFile, Kind
from airflow_provider_assistant.quantiles import percentiles
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.storage.write import replace
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.asking.questions import Question, Questions
    from airflow_provider_assistant.asking.state import Answer

STATUSES = ("complete", "failed", "timed_out", "lost", "not_submitted")
COLUMNS = (
    *("key", "repetition", "turn", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "completed_at", "seconds", "confidence_level", "confidence_score", "polls", "attempts", "raw"),
    "question_id",
)
# Columns of the output that the dataset of answers has, too.
DATASET = (
    *("key", "repetition", "turn", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "seconds", "confidence_level", "confidence_score"),
)
# Columns that are fields of an answer.
_OF_ANSWER = (
    *("status", "answer", "error", "request_id", "seconds"),
    *("confidence_level", "confidence_score", "polls", "attempts", "raw"),
)
# Beginning of the error of a question that was not submitted because of what ended the submits.
NOT_SUBMITTED = "not submitted: "
# Metadata key with the scope of the task that wrote the output. Answers of another task are not reused.
SCOPE = b"assistant.scope"
# Metadata key of the output: service, tenant and site that answered.
SITE = b"assistant.site"
_PERCENTS = (50, 95, 99)


def output_table(questions: Questions, answers: Mapping[str, Answer], silence: str | None = None) -> pa.Table:
    """
    Return the questions with their answers.

    :param silence: Polls without an answer at the end of the wait.
    """
    import pyarrow as pa

    rows: dict[str, dict[str, Any]] = {}
    for conversation in questions.conversations():
        before = None
        for question in conversation:
            row = _row(question, answers.get(question.question_id), silence)
            # A turn that was not sent belongs to its conversation all the same.
            row["session_id"] = row["session_id"] or (before and before["session_id"])
            if row["status"] == "not_submitted" and row["error"] is None:
                row["error"] = "not sent: the task had stopped"
                if before and before["status"] != "complete":
                    row["error"] = f"not sent: turn {before['turn']} of its session has no answer ({before['status']})"
            rows[question.question_id] = before = row
    in_order = [rows[question.question_id] for question in questions.rows]
    columns = {name: _column(name, [row.get(name) for row in in_order]) for name in COLUMNS}
    others = questions.others
    return pa.table(columns | {name: others[name] for name in others.column_names})


def _row(question: Question, answer: Answer | None, silence: str | None) -> dict[str, Any]:
    row = {
        "key": question.label,
        "repetition": question.repetition,
        "turn": question.turn,
        "message": question.fields.get("message"),
        "session_id": question.fields.get("session_id"),
        "question_id": question.question_id,
    }
    if answer is None:
        return {**row, "status": "not_submitted", "error": None, "attempts": 0, "polls": 0}
    row |= {name: getattr(answer, name) for name in _OF_ANSWER}
    row["session_id"] = answer.session_id or row["session_id"]
    row["submitted_at"] = _moment(answer.submitted_at)
    if answer.status == "open":
        why = silence or "it did not end before the deadline"
        row |= {"status": "timed_out", "polls": None, "error": f"{why}; it may still complete"}
    elif answer.status != "not_submitted":
        row["completed_at"] = _moment(answer.ended_at)
    return row


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    """Return one of the columns ``COLUMNS``, with the same type whatever its values are."""
    import pyarrow as pa

    if name in {"submitted_at", "completed_at"}:
        return pa.array(values, pa.timestamp("us", tz="UTC"))
    if name in {"seconds", "confidence_score"}:
        return pa.array(values, pa.float64())
    if name in {"attempts", "polls", "repetition", "turn"}:
        return pa.array(values, pa.int32())
    return pa.array([None if text is None else storable(text) for text in values], pa.string())


def rows_of_dataset(table: pa.Table) -> Iterator[dict[str, Any]]:
    """
    Yield the rows of the dataset ``answers``, one per question that was asked.

    Equal rows of the source share a request, so they are one row: otherwise each rating of the request would count
    several times.
    """
    request_ids = set()
    for row in table.select(DATASET).to_pylist():
        request_id = row["request_id"]
        if request_id is None or request_id not in request_ids:
            request_ids.add(request_id)
            yield {**row, "question": row["message"] or "", "asked_at": row["submitted_at"]}


# -- an earlier output ---------------------------------------------------------------------------------


def check_owner(path: StoragePath, run: RunRef) -> None:
    """
    Check that the output file is not that of another instance of a mapped task, which must not be replaced.

    :param run: The task instance.
    :raises AssistantInputError: Another instance of the same task in the same DAG run wrote it.
    """
    if run.map_index < 0 and run.region is None:
        return
    task = f"{run.dag_id}/{run.run_id}/{run.task_id}/"
    owner = _metadata(path).get(SCOPE, b"").decode()
    if owner.startswith(task) and owner != str(run):
        raise AssistantInputError(
            f"output_path {str(path)!r} has the answers of the task instance {owner!r}, which this one would replace",
            todo=OWN_PATH.format(name="output_path"),
            field="output_path",
        )


def published(path: ObjectStoragePath, scope: str) -> dict[str, Answer]:
    """
    Return the answers in an output that an earlier try of the same task wrote, by question.

    :param scope: The task instance.
    """
    import pyarrow.parquet as pq

    from airflow_provider_assistant.asking.state import Answer

    if _metadata(path).get(SCOPE) != scope.encode():
        return {}
    names = [*_OF_ANSWER, "question_id", "session_id", "submitted_at", "completed_at"]
    with path.open("rb") as file:
        table = pq.ParquetFile(file).read(names)
    answers = {}
    for row in table.to_pylist():
        if row["status"] == "complete":
            row["submitted_at"] = row["submitted_at"].timestamp()
            row["ended_at"] = row.pop("completed_at").timestamp()
            answers[row["question_id"]] = Answer(**row)
    return answers


def write_output(table: pa.Table, path: ObjectStoragePath, scope: str, site: Site, dag_id: str) -> None:
    """
    Write the output, with all that :func:`published`, :func:`site_of` and an erasure read of it.

    :param scope: The task instance.
    """
    metadata = {SCOPE: scope.encode(), SITE: json.dumps(site.columns()).encode(), DAG_ID: dag_id.encode()}
    replace(table.replace_schema_metadata(metadata), path)


def site_of(path: ObjectStoragePath | Path) -> dict[str, str | None]:
    """Return ``service``, ``tenant_id`` and ``site_id`` of an output file; empty if it is not one."""
    return dict(json.loads(_metadata(path).get(SITE, b"{}")))


def _metadata(path: StoragePath | Path) -> Mapping[bytes, bytes]:
    """Return the metadata of a Parquet file; empty if it is not one."""
    import pyarrow.parquet as pq

    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        return pq.read_schema(file).metadata or {}
    return {}


# -- findings and counts -------------------------------------------------------------------------------


def write_findings(
    output: ObjectStoragePath,
    questions: Questions,
    answers: Mapping[str, Answer],
    maybe_second: Collection[str],
    dag_id: str,
) -> str | None:
    """
    Write the questions that were not asked, or may have been asked twice; or delete the findings of an earlier run.

    They are next to the output, with a name that dataset readers skip.

    :param maybe_second: Ids of the questions that may have been asked twice.
    :return: Their path; None if there are none.
    """
    path = output.parent / f".{output.stem}.findings.parquet"
    with FindingsFile(path, always=False, dag_id=dag_id) as file:
        for conversation in questions.conversations():
            for question in conversation:
                is_maybe_second = question.question_id in maybe_second
                for finding in _findings(question, answers.get(question.question_id), is_maybe_second=is_maybe_second):
                    file.add(finding)
    if not file.count:
        path.unlink(missing_ok=True)
    return file.listed


def _findings(question: Question, answer: Answer | None, *, is_maybe_second: bool) -> Iterator[Finding]:
    if is_maybe_second:
        reason = "an earlier attempt may have asked it as well"
        ids = [answer.request_id] if answer and answer.request_id else []
        yield Finding("possibly_duplicated", question.label, reason, question.row, ids)
    if answer and answer.status == "not_submitted" and answer.error:
        kind, _, reason = answer.error.partition(": ")
        if kind in get_args(Kind):
            yield Finding(cast("Kind", kind), question.label, reason, question.row)


def counts(table: pa.Table, answers: Mapping[str, Answer], maybe_second: Collection[str]) -> dict[str, Any]:
    """
    Return the counts and latency percentiles of a batch.

    :param maybe_second: Ids of the questions that may have been asked twice.
    :return: ``rows``; one count per status of ``STATUSES``; ``seconds_p50``, ``_p95``, ``_p99`` of the complete
        questions, or None; ``without_text``, the number of complete questions whose answer has no text;
        ``low_confidence``, the number of answers with the confidence level ``low``, or None if no
        reply has a confidence; ``submitted``, ``reused``, ``possibly_duplicated``, ``rejected`` and ``ambiguous``.
    """
    import pyarrow.compute as pc

    statuses = Counter(table["status"].to_pylist())
    complete = table.filter(pc.equal(table["status"], "complete"))
    seconds = complete["seconds"].drop_null().to_pylist()
    quantiles = percentiles(seconds, _PERCENTS) if seconds else [None] * len(_PERCENTS)
    not_submitted = table.filter(pc.equal(table["status"], "not_submitted"))
    kinds = Counter(error.partition(":")[0] for error in not_submitted["error"].to_pylist())
    submitted = sum(answer.status != "not_submitted" and not answer.is_reused for answer in answers.values())
    return {
        "rows": table.num_rows,
        **{status: statuses[status] for status in STATUSES},
        **{
            f"seconds_p{percent}": None if value is None else round(value, 3)
            for percent, value in zip(_PERCENTS, quantiles, strict=True)
        },
        "without_text": sum(not (answer or "").strip() for answer in complete["answer"].to_pylist()),
        "low_confidence": _low_confidence(complete),
        "submitted": submitted,
        "reused": table.num_rows - statuses["not_submitted"] - submitted,
        "possibly_duplicated": len(maybe_second),
        "rejected": kinds["rejected"],
        "ambiguous": kinds["ambiguous"],
    }


def _low_confidence(complete: pa.Table) -> int | None:
    columns = [complete["confidence_level"], complete["confidence_score"]]
    if all(column.null_count == complete.num_rows for column in columns):
        return None
    return sum(is_low(level) for level in complete["confidence_level"].to_pylist())


def reason_of_stop(table: pa.Table) -> str | None:
    """Return why the last of the questions that were not submitted was not; None if that is not known."""
    errors = [error for error in table["error"].to_pylist() if error and error.startswith(NOT_SUBMITTED)]
    return str(errors[-1]).removeprefix(NOT_SUBMITTED) if errors else None
