"""The output of a batch: one row per question, in the order of the source."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.exceptions import OWN_PATH, AssistantInputError
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.quantiles import percentiles
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.texts import cell_text, storable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.asking.questions import Question, Questions
    from airflow_provider_assistant.asking.schedule import Silence
    from airflow_provider_assistant.asking.state import End, Request

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
# Column of the questions in a batch state; no source can have a column of this name.
QUESTION = "\0question"
# Beginning of the error of a question that was not submitted because of what ended the submits.
NOT_SUBMITTED = "not submitted: "
# Metadata key with the scope of the task that wrote the output. Answers of another task are not reused.
SCOPE = b"assistant.scope"
# Metadata key of the output: service, tenant and site that answered.
SITE = b"assistant.site"
_PERCENTS = (50, 95, 99)


def output_table(
    questions: Questions,
    others: pa.Table,
    requests: Mapping[str, Request],
    ends: Mapping[str, End],
    silence: Silence | None = None,
) -> pa.Table:
    """
    Return the questions with their answers.

    :param others: Columns of the source that the output repeats.
    :param silence: Polls without an answer at the end of the wait.
    """
    import pyarrow as pa

    rows = [
        _row(question, requests.get(question.question_id), ends.get(question.question_id), silence)
        for question in questions.rows
    ]
    for earlier, later in _following(questions):
        if (
            rows[earlier]["status"] != "complete"
            and rows[later]["error"] is None
            and rows[later]["status"] == "not_submitted"
        ):
            turn, status = rows[earlier]["turn"], rows[earlier]["status"]
            rows[later]["error"] = f"not sent: turn {turn} of its session has no answer ({status})"
    for row in rows:
        if row["status"] == "not_submitted" and row["error"] is None:
            row["error"] = "not sent: the task had stopped"
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in COLUMNS}
    return pa.table(columns | {name: others[name] for name in others.column_names})


def _following(questions: Questions) -> Iterator[tuple[int, int]]:
    """Yield the positions of each two turns that follow each other in a conversation, in the order of the turns."""
    latest: dict[str, int] = {}
    turns = [position for position, question in enumerate(questions.rows) if question.turn is not None]
    for position in sorted(turns, key=lambda position: questions.rows[position].turn or 0):
        conversation = questions.rows[position].conversation
        if conversation in latest:
            yield latest[conversation], position
        latest[conversation] = position


def _row(question: Question, request: Request | None, end: End | None, silence: Silence | None) -> dict[str, Any]:
    row = {
        "key": question.label,
        "repetition": question.repetition,
        "turn": question.turn,
        "message": question.fields.get("message"),
        "session_id": question.fields.get("session_id"),
        "question_id": question.question_id,
        "attempts": 0,
        "polls": 0,
    }
    if end:
        row |= {name: value for name, value in end._asdict().items() if name not in {"session_id", "ended_at"}}
        row["session_id"] = end.session_id or row["session_id"]
        row["submitted_at"] = None if end.submitted_at is None else _moment(end.submitted_at)
        row["completed_at"] = None if end.status == "not_submitted" else _moment(end.ended_at)
    elif request:
        row |= {
            "status": "timed_out",
            "error": f"{silence}; it may still complete"
            if silence
            else "it did not end before the deadline, and may still complete",
            "request_id": request.request_id,
            "session_id": request.session_id,
            "submitted_at": _moment(request.submitted_at),
            "attempts": request.attempts,
            "polls": None,
        }
    else:
        row |= {"status": "not_submitted", "error": None}
    return row


def reason_of_stop(table: pa.Table) -> str | None:
    """Return why the last of the questions that were not submitted was not; None if that is not known."""
    found = None
    for status, error in zip(table["status"].to_pylist(), table["error"].to_pylist(), strict=True):
        if status == "not_submitted" and error and error.startswith(NOT_SUBMITTED):
            found = error.removeprefix(NOT_SUBMITTED)
    return found


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


def published(path: ObjectStoragePath, scope: str) -> dict[str, End]:
    """
    Return the answers in an output that an earlier try of the same task wrote, by question.

    :param scope: The task instance.
    """
    import pyarrow.parquet as pq

    from airflow_provider_assistant.asking.state import End

    if _metadata(path).get(SCOPE) != scope.encode():
        return {}
    names = [name for name in COLUMNS if name in End._fields]
    with path.open("rb") as file:
        table = pq.ParquetFile(file).read([*names, "completed_at"])
    answers = {}
    for row in table.to_pylist():
        ended_at = row.pop("completed_at")
        if row["status"] == "complete":
            submitted_at = row.pop("submitted_at").timestamp()
            answers[row["question_id"]] = End(**row, submitted_at=submitted_at, ended_at=ended_at.timestamp())
    return answers


def site_of(path: ObjectStoragePath | Path) -> dict[str, str | None]:
    """Return ``service``, ``tenant_id`` and ``site_id`` of an output file; empty if it is not one."""
    return dict(json.loads(_metadata(path).get(SITE, b"{}")))


def _metadata(path: StoragePath | Path) -> Mapping[bytes, bytes]:
    """Return the metadata of a Parquet file; empty if it is not one."""
    import pyarrow.parquet as pq

    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        return pq.read_schema(file).metadata or {}
    return {}


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


def counts(table: pa.Table, requests: Iterable[Request], maybe_second: Collection[str]) -> dict[str, Any]:
    """
    Return the counts and latency percentiles of a batch.

    :param maybe_second: Ids of the questions that may have been asked twice.
    :return: ``rows``; one count per status of ``STATUSES``; ``seconds_p50``, ``_p95``, ``_p99`` of the complete
        questions, or None; ``low_confidence``, the number of answers with the confidence level ``low``, or None if no
        reply has a confidence; ``submitted``, ``reused``, ``possibly_duplicated``, ``rejected`` and ``ambiguous``.
    """
    import pyarrow.compute as pc

    statuses = Counter(table["status"].to_pylist())
    complete = table.filter(pc.equal(table["status"], "complete"))
    seconds = complete["seconds"].drop_null().to_pylist()
    quantiles = percentiles(seconds, _PERCENTS) if seconds else [None] * len(_PERCENTS)
    errors = [
        error
        for error, status in zip(table["error"].to_pylist(), table["status"].to_pylist(), strict=True)
        if error and status == "not_submitted"
    ]
    kinds = Counter(error.partition(":")[0] for error in errors)
    new = [request for request in requests if not request.is_reused]
    return {
        "rows": table.num_rows,
        **{status: statuses[status] for status in STATUSES},
        **{
            f"seconds_p{percent}": None if value is None else round(value, 3)
            for percent, value in zip(_PERCENTS, quantiles, strict=True)
        },
        "low_confidence": _low_confidence(complete),
        "submitted": len(new),
        "reused": table.num_rows - statuses["not_submitted"] - len(new),
        "possibly_duplicated": len(maybe_second),
        "rejected": kinds["rejected"],
        "ambiguous": kinds["ambiguous"],
    }


def _low_confidence(complete: pa.Table) -> int | None:
    columns = [complete["confidence_level"], complete["confidence_score"]]
    if all(column.null_count == complete.num_rows for column in columns):
        return None
    return sum(is_low(level) for level in complete["confidence_level"].to_pylist())


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


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


def typed(values: Sequence[Any]) -> pa.Array:
    """Return a column with the values of a source; values without a common type become text, lists JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pa.array(values)
        if pa.types.is_nested(column.type):
            # Parquet cannot store all nested types. Writing one to memory is the way to find out.
            pq.write_table(pa.table({"": column}), pa.BufferOutputStream())
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if value is None else cell_text(value) for value in values], pa.string())
    return column
