"""The output table of a chat batch: one row per question, in the order of the source."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.chat_batch.requests import FinishedRequest
from airflow_provider_assistant.exceptions import OWN_PATH, AssistantInputError
from airflow_provider_assistant.lake import replace
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.quantiles import percentiles
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import cell_text, no_poll_since, storable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

STATUSES = ("complete", "failed", "timed_out", "lost", "not_submitted")
COLUMNS = (
    *("key", "repetition", "turn", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "completed_at", "seconds", "seconds_source", "seconds_error", "noticed_after"),
    *("confidence_level", "confidence_score", "polls", "attempts", "raw"),
)
# Column with the identity of each question; no source can have a column of this name, and the output does not have it.
QUESTION_ID = "\0question_id"
# Columns of the questions in the batch state, beside those of the source.
QUESTION = (
    *(QUESTION_ID, "key", "repetition", "turn", "message", "error"),
    *("request_id", "session_id", "submitted_at", "attempts"),
)
# Columns of the output that depend on the answer.
ANSWER = (
    *("answer", "status", "error", "request_id", "submitted_at"),
    *("completed_at", "seconds", "seconds_source", "seconds_error", "noticed_after"),
    *("confidence_level", "confidence_score", "polls", "raw"),
)
# Columns of the output that the dataset of answers has, too, some of them under another name.
DATASET = (
    *("key", "repetition", "turn", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "seconds", "confidence_level", "confidence_score"),
)
# Columns by which an output file identifies its questions.
IDENTIFYING = ("key", "message", "session_id")
# Beginning of the error of a question that was not submitted because of what ended the submits.
NOT_SUBMITTED = "not submitted: "
# Metadata key with the scope of the task that wrote the output. Answers of another task are not reused.
SCOPE = b"assistant.scope"
FACTS = b"assistant.submissions"
# Metadata key of the questions: whether their session ids were generated.
OWN_SESSIONS = b"assistant.own_sessions"
# Metadata key of the output: service, tenant and site that answered.
SITE = b"assistant.site"
# Metadata key of the questions: the turn of the conversations that was submitted last.
TURN = b"assistant.turn"
_PERCENTS = (50, 95, 99)


def questions_table(
    columns: Mapping[str, Sequence[Any]],
    passthrough_columns: Mapping[str, Sequence[Any]],
    facts: Mapping[str, Any],
    *,
    own_sessions: bool = False,
    turn: int = 1,
) -> pa.Table:
    """
    Return the submitted questions as a table, for the batch state.

    :param columns: Values by column, for the columns that ``QUESTION`` lists.
    :param passthrough_columns: Values of the source's other columns, which the output repeats.
    :param facts: Facts about the submissions as JSON types; :func:`counts` returns them.
    :param own_sessions: Whether the session ids were generated for these questions, not read from the source.
    :param turn: The turn of the conversations that was submitted last.
    """
    import pyarrow as pa

    arrays = {name: _typed(name, values) for name, values in columns.items()}
    arrays |= {name: _column(values) for name, values in passthrough_columns.items()}
    metadata = {FACTS: json.dumps(facts), OWN_SESSIONS: json.dumps(own_sessions), TURN: json.dumps(turn)}
    return pa.table(arrays, metadata=metadata)


def facts_of(questions: pa.Table) -> tuple[dict[str, Any], int]:
    """Return the facts about the submissions, and the turn that was submitted last."""
    metadata = questions.schema.metadata
    return json.loads(metadata[FACTS]), json.loads(metadata[TURN])


def joined(
    questions: pa.Table, answers: Mapping[str, FinishedRequest], unanswered_since: float | None = None
) -> pa.Table:
    """
    Return the questions joined with their answers, which are given by ``question_id``.

    :param unanswered_since: Time since which no poll was answered, in seconds since the epoch. Default: None.
    :return: A table with the columns ``COLUMNS`` and the source's other columns, one row per question.
    """
    import pyarrow as pa

    answer_rows = []
    submission_columns = [QUESTION_ID, "request_id", "submitted_at", "error"]
    for question in questions.select(submission_columns).to_pylist():
        answer = answers.get(question[QUESTION_ID])
        if answer:
            row = _answered(answer)
        else:
            row = _unanswered(question["request_id"], question["submitted_at"], question["error"])
            if question["request_id"] and unanswered_since is not None:
                row["error"] = f"{no_poll_since(unanswered_since)}; it may still complete"
        answer_rows.append(row)
    columns = {name: questions[name] for name in questions.column_names}
    # These replace the columns of the same name that the questions have.
    for name in ANSWER:
        columns[name] = _typed(name, [row.get(name) for row in answer_rows])
    passthrough = [name for name in questions.column_names if name not in QUESTION]
    output = {name: columns[name] for name in (*COLUMNS, *passthrough)}
    return pa.table(output, metadata=questions.schema.metadata)


def _answered(answer: FinishedRequest) -> dict[str, Any]:
    return {
        "answer": answer.text,
        "status": answer.status,
        "error": answer.error,
        "request_id": answer.request_id,
        "submitted_at": _moment(answer.ended_at - answer.seconds),
        "completed_at": _moment(answer.ended_at),
        "seconds": answer.latency,
        "seconds_source": answer.latency_source,
        "seconds_error": answer.latency_error,
        "noticed_after": answer.noticed_after,
        "confidence_level": answer.confidence_level,
        "confidence_score": answer.confidence_score,
        "polls": answer.polls,
        "raw": answer.raw,
    }


def _unanswered(request_id: str | None, submitted_at: datetime | None, error: str | None) -> dict[str, Any]:
    row = {"request_id": request_id, "submitted_at": submitted_at}
    if request_id:
        error = "it did not end before the deadline, and may still complete"
        return {**row, "status": "timed_out", "error": error}
    return {**row, "status": "not_submitted", "error": error or "not sent: the task had stopped", "polls": 0}


def reason_of_stop(table: pa.Table) -> str | None:
    """Return why the last of the questions that were not submitted was not; None if that is not known."""
    found = None
    for status, error in zip(table["status"].to_pylist(), table["error"].to_pylist(), strict=True):
        if status == "not_submitted" and error and error.startswith(NOT_SUBMITTED):
            found = error.removeprefix(NOT_SUBMITTED)
    return found


def publish(table: pa.Table, path: ObjectStoragePath, scope: str, metadata: Mapping[bytes, bytes]) -> None:
    """
    Replace the output file as a whole.

    :param scope: Scope of the task, for the file's metadata.
    :param metadata: Further metadata of the file.
    """
    replace(table.replace_schema_metadata({SCOPE: scope.encode(), **metadata}), path)


def check_owner(path: StoragePath, run: RunRef) -> None:
    """
    Check that the output file is not that of another instance of a mapped task, which must not be replaced.

    :param run: The task instance.
    :raises AssistantInputError: Another instance of the same task in the same DAG run wrote it.
    """
    import pyarrow.parquet as pq

    if run.map_index < 0 and run.region is None:
        return
    try:
        with path.open("rb") as file:
            metadata = pq.read_schema(file).metadata or {}
    except (FileNotFoundError, ValueError):  # ValueError: not a Parquet file, so not written by this task
        return
    task = f"{run.dag_id}/{run.run_id}/{run.task_id}/"
    # Cleared tasks have a number after "#".
    owner = metadata.get(SCOPE, b"").decode().partition("#")[0]
    if owner.startswith(task) and owner != str(run):
        raise AssistantInputError(
            f"output_path {str(path)!r} has the answers of the task instance {owner!r}, which this one would replace",
            todo=OWN_PATH.format(name="output_path"),
            field="output_path",
        )


def read_published(path: ObjectStoragePath, scope: str, columns: Sequence[str]) -> pa.Table | None:
    """Return columns of the output file that an earlier attempt of the same task wrote; None if there is none."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return None
    with path.open("rb") as file:
        try:
            parquet = pq.ParquetFile(file)
        except ValueError:  # not a Parquet file, so not written by this task; publish() replaces it
            return None
        if (parquet.schema_arrow.metadata or {}).get(SCOPE) != scope.encode():
            return None
        return parquet.read(list(columns))


def published(
    path: ObjectStoragePath, scope: str, rows: Iterable[tuple[str, tuple[Any, ...]]]
) -> list[FinishedRequest]:
    """
    Return the complete answers in an output file that an earlier attempt of the same task wrote.

    :param rows: The ``question_id`` of each current question, with its values of the columns ``IDENTIFYING``.
    :return: Answers of the current questions; empty if there is no such file or another task wrote it.
    """
    output = read_published(path, scope, COLUMNS)
    if output is None:
        return []
    row_by_question = {}
    for row in output.to_pylist():
        if row["status"] == "complete":
            row_by_question[tuple(row[name] for name in IDENTIFYING)] = row
    answers = []
    for question_id, identifying_values in rows:
        if identifying_values in row_by_question:
            answers.append(_published(question_id, row_by_question[identifying_values]))
    return answers


def _published(question_id: str, row: Mapping[str, Any]) -> FinishedRequest:
    seconds = (row["completed_at"] - row["submitted_at"]).total_seconds()
    return FinishedRequest(
        question_id=question_id,
        request_id=row["request_id"],
        status="complete",
        text=row["answer"],
        error=None,
        raw=row["raw"],
        ended_at=row["completed_at"].timestamp(),
        seconds=round(seconds, 6),
        polls=row["polls"],
        latency=row["seconds"],
        noticed_after=row["noticed_after"],
        latency_source=row["seconds_source"],
        latency_error=row["seconds_error"],
        confidence_level=row["confidence_level"],
        confidence_score=row["confidence_score"],
    )


def rows_of_dataset(table: pa.Table) -> Iterator[dict[str, Any]]:
    """
    Yield the rows of the dataset ``answers``, one per question that was asked.

    Equal rows of the source share a chat request, so they are one row: otherwise each rating of the request would
    count several times.
    """
    request_ids = set()
    for row in table.select(DATASET).to_pylist():
        request_id = row["request_id"]
        if request_id is None or request_id not in request_ids:
            request_ids.add(request_id)
            yield {**row, "question": row["message"] or "", "asked_at": row["submitted_at"]}


def site_of(path: ObjectStoragePath | Path) -> dict[str, str | None]:
    """Return ``service``, ``tenant_id`` and ``site_id`` of an output file; empty if it is not one."""
    import pyarrow.parquet as pq

    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        metadata = pq.read_schema(file).metadata or {}
        return dict(json.loads(metadata.get(SITE, b"{}")))
    return {}


def counts(table: pa.Table) -> dict[str, Any]:
    """
    Return the counts, latency percentiles and submission facts of a batch.

    :return: ``rows``; one count per status of ``STATUSES``; ``seconds_p50``, ``_p95``, ``_p99`` and
        ``noticed_after_p50``, ``_p95``, ``_p99`` of the complete questions, in seconds, or None;
        ``seconds_measured`` and ``seconds_unknown``, the number of complete questions whose latency was
        measured by this package or is not known; ``low_confidence``, the number of complete questions
        with the confidence level ``low``, or None if no reply has a confidence; and the facts of
        :func:`questions_table`.
    """
    import pyarrow.compute as pc

    statuses = Counter(table["status"].to_pylist())
    complete = table.filter(pc.equal(table["status"], "complete"))
    summary: dict[str, Any] = {"rows": table.num_rows}
    summary |= {status: statuses[status] for status in STATUSES}
    for name in ("seconds", "noticed_after"):
        summary |= _percentiles(name, complete[name].drop_null().to_pylist())
    sources = Counter(complete["seconds_source"].to_pylist())
    summary["seconds_measured"] = sources["measured"]
    summary["seconds_unknown"] = complete["seconds"].null_count
    summary["low_confidence"] = _low_confidence(complete)
    submission_facts, _ = facts_of(table)
    return summary | submission_facts


def has_own_sessions(table: pa.Table) -> bool:
    """Return whether the session ids were generated for the questions."""
    return bool(json.loads((table.schema.metadata or {}).get(OWN_SESSIONS, b"false")))


def _low_confidence(complete: pa.Table) -> int | None:
    """Return the number of answers with low confidence; None if no answer has a confidence."""
    columns = [complete["confidence_level"], complete["confidence_score"]]
    if all(column.null_count == complete.num_rows for column in columns):
        return None
    return sum(is_low(level) for level in complete["confidence_level"].to_pylist())


def _percentiles(name: str, seconds: list[float]) -> dict[str, float | None]:
    """Return the percentiles of a column, such as ``seconds_p50``; each is None without values."""
    value_by_name: dict[str, float | None] = {f"{name}_p{percent}": None for percent in _PERCENTS}
    if seconds:
        for percent, value in zip(_PERCENTS, percentiles(seconds, _PERCENTS), strict=True):
            value_by_name[f"{name}_p{percent}"] = round(value, 3)
    return value_by_name


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _typed(name: str, values: Sequence[Any]) -> pa.Array:
    """Return one of the columns ``COLUMNS``, with the same type whatever its values are."""
    import pyarrow as pa

    if name in {"submitted_at", "completed_at"}:
        return pa.array(values, pa.timestamp("us", tz="UTC"))
    if name in {"seconds", "seconds_error", "noticed_after", "confidence_score"}:
        return pa.array(values, pa.float64())
    if name in {"attempts", "polls", "repetition", "turn"}:
        return pa.array(values, pa.int32())
    return pa.array([None if text is None else storable(text) for text in values], pa.string())


def _column(values: Sequence[Any]) -> pa.Array:
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
