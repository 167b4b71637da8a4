"""The output table of a chat batch: one row per question, in the order of the source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_assistant.chat_batch.poller import FinishedRequest
from airflow_provider_assistant.lake import replace, storable, storing
from airflow_provider_assistant.quantiles import percentiles

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.storage.paths import StoragePath

STATUSES = ("complete", "failed", "timed_out", "lost", "not_submitted")
COLUMNS = (
    *("key", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "completed_at", "seconds", "noticed_after", "polls", "attempts", "raw"),
)
# Columns that are known before there is an answer.
QUESTION = ("key", "message", "error", "request_id", "session_id", "submitted_at", "attempts")
Identity: TypeAlias = tuple[str | None, str | None, str | None]
# Column with the identity of each question in the batch state; only the snapshot has it.
ASKED_AS = "\0asked_as"
# Metadata key with the scope of the task that wrote the output. Answers of another task are not reused.
SCOPE = b"assistant.scope"
FACTS = b"assistant.submissions"
# Metadata key of the snapshot: whether the session ids were generated for the questions.
OWN_SESSIONS = b"assistant.own_sessions"
_PERCENTS = (50, 95, 99)


def snapshot(
    columns: Mapping[str, Sequence[Any]],
    carried: Mapping[str, Sequence[Any]],
    facts: Mapping[str, Any],
    path: StoragePath,
    *,
    own_sessions: bool = False,
) -> None:
    """
    Write the submitted questions to the batch state.

    :param columns: Values of the columns ``QUESTION`` and ``ASKED_AS``.
    :param carried: Values of the source's other columns, which the output repeats.
    :param facts: Facts about the submissions as JSON types; :func:`counts` returns them.
    :param path: Path of the Parquet file.
    :param own_sessions: Whether the session ids were generated for these questions. Default: False, the source has
        them.
    :raises AssistantStorageError: The file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = _types()
    texts = {name: values if name in types else _stored(values) for name, values in columns.items()}
    arrays = {name: pa.array(values, types.get(name, pa.string())) for name, values in texts.items()}
    arrays |= {name: _column(values) for name, values in carried.items()}
    table = pa.table(arrays, metadata={FACTS: json.dumps(facts), OWN_SESSIONS: json.dumps(own_sessions)})
    with storing(path, "a retry takes up what was submitted"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pq.write_table(table, file)


def read_snapshot(path: StoragePath) -> pa.Table:
    """
    Return the table that :func:`snapshot` wrote.

    :param path: Path of the Parquet file.
    """
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        return pq.ParquetFile(file).read()


def joined(asked: pa.Table, answers: Mapping[str, FinishedRequest]) -> pa.Table:
    """
    Return the questions joined with their answers.

    :param asked: The snapshot of the questions.
    :param answers: Results by ``asked_as``.
    :return: A table with the columns ``COLUMNS`` and the source's other columns, one row per question.
    """
    import pyarrow as pa

    types = _types()
    ended = [answers.get(name) if name else None for name in asked[ASKED_AS].to_pylist()]
    errors, requests = asked["error"].to_pylist(), asked["request_id"].to_pylist()
    submitted = asked["submitted_at"].to_pylist()
    statuses = [_status(end, request) for end, request in zip(ended, requests, strict=True)]
    new = {
        "request_id": _stored([end.request_id if end else one for end, one in zip(ended, requests, strict=True)]),
        "answer": [end.text and storable(end.text) if end else None for end in ended],
        "status": statuses,
        "error": [_error(end, status, error) for end, status, error in zip(ended, statuses, errors, strict=True)],
        "submitted_at": [
            _moment(end.ended_at - end.seconds) if end else at for end, at in zip(ended, submitted, strict=True)
        ],
        "completed_at": [_moment(end.ended_at) if end else None for end in ended],
        "seconds": [end.latency if end else None for end in ended],
        "noticed_after": [end.noticed_after if end else None for end in ended],
        "polls": [end.polls if end else None if request else 0 for end, request in zip(ended, requests, strict=True)],
        "raw": [None if end is None or end.raw is None else storable(json.dumps(end.raw)) for end in ended],
    }
    arrays = {name: pa.array(values, types.get(name, pa.string())) for name, values in new.items()}
    carried = [name for name in asked.column_names if name not in {*QUESTION, ASKED_AS}]
    columns = {name: arrays[name] if name in arrays else asked[name] for name in (*COLUMNS, *carried)}
    return pa.table(columns, metadata=asked.schema.metadata)


def publish(table: pa.Table, path: ObjectStoragePath, scope: str) -> None:
    """
    Write the output file.

    :param table: The table of :func:`joined`.
    :param path: The output file; it is replaced as a whole.
    :param scope: Scope of the task, for the file's metadata.
    :raises AssistantStorageError: The file cannot be written.
    """
    replace(table.replace_schema_metadata({SCOPE: scope.encode()}), path)


def published(path: ObjectStoragePath, scope: str) -> dict[Identity, FinishedRequest]:
    """
    Return the complete answers in an output file that an earlier attempt of the same task wrote.

    :param path: The output file.
    :param scope: Scope of the task.
    :return: Answers by key, message and session id; empty if there is no such file or another task wrote it.
    """
    import pyarrow.parquet as pq

    if not path.is_file():
        return {}
    with path.open("rb") as file:
        try:
            parquet = pq.ParquetFile(file)
        except ValueError:  # not a Parquet file, so not written by this task; publish() replaces it
            return {}
        if (parquet.schema_arrow.metadata or {}).get(SCOPE) != scope.encode():
            return {}
        # Files of an earlier version of this package have no column noticed_after.
        rows = parquet.read([name for name in COLUMNS if name in parquet.schema_arrow.names]).to_pylist()
    return {
        (row["key"], row["message"], row["session_id"]): FinishedRequest(
            row["request_id"] or "",
            row["request_id"],
            "complete",
            row["answer"],
            None,
            row["raw"] and json.loads(row["raw"]),
            row["completed_at"].timestamp(),
            round((row["completed_at"] - row["submitted_at"]).total_seconds(), 6),
            row["polls"],
            row["seconds"],
            row.get("noticed_after"),
        )
        for row in rows
        if row["status"] == "complete"
    }


def counts(table: pa.Table) -> dict[str, Any]:
    """
    Return the counts, latency percentiles and submission facts of a batch.

    :param table: The table of :func:`joined`.
    :return: ``rows``; one count per status of ``STATUSES``; ``seconds_p50``, ``_p95``, ``_p99`` and
        ``noticed_after_p50``, ``_p95``, ``_p99`` of the complete questions, in seconds, or None; and the facts that
        :func:`snapshot` stored.
    """
    found = Counter(table["status"].to_pylist())
    is_complete = [status == "complete" for status in table["status"].to_pylist()]
    times = {
        name: [one for one, counts in zip(table[name].to_pylist(), is_complete, strict=True) if counts]
        for name in ("seconds", "noticed_after")
    }
    return {
        "rows": table.num_rows,
        **{status: found[status] for status in STATUSES},
        **_percentiles("seconds", times["seconds"]),
        **_percentiles("noticed_after", times["noticed_after"]),
        **json.loads((table.schema.metadata or {})[FACTS]),
    }


def has_own_sessions(table: pa.Table) -> bool:
    """
    Return whether the session ids were generated for the questions.

    :param table: The table of :func:`joined`.
    """
    return bool(json.loads((table.schema.metadata or {}).get(OWN_SESSIONS, b"false")))


def _status(end: FinishedRequest | None, request_id: str | None) -> str:
    if end:
        return end.status
    return "timed_out" if request_id else "not_submitted"


def _error(end: FinishedRequest | None, status: str, error: str | None) -> str | None:
    if end:
        return end.error and storable(end.error)
    if status == "timed_out":
        return "it did not end before the deadline, and may still complete"
    return error or "not sent: the task had stopped"


def _percentiles(name: str, seconds: list[float | None]) -> dict[str, float | None]:
    known = [one for one in seconds if one is not None]
    found = percentiles(known, _PERCENTS) if known else [None] * len(_PERCENTS)
    rounded = (None if one is None else round(one, 3) for one in found)
    return {f"{name}_p{percent}": one for percent, one in zip(_PERCENTS, rounded, strict=True)}


def _stored(texts: Sequence[str | None]) -> list[str | None]:
    return [text and storable(text) for text in texts]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    return {
        "submitted_at": moment,
        "completed_at": moment,
        "attempts": pa.int32(),
        "polls": pa.int32(),
        "seconds": pa.float64(),
        "noticed_after": pa.float64(),
    }


def _column(values: Sequence[Any]) -> pa.Array:
    """Return a column with the values of a source; values without a common Parquet type are stored as text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pa.array(values)
        if pa.types.is_nested(column.type):
            pq.write_table(pa.table({"": column}), pa.BufferOutputStream())
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if value is None else storable(str(value)) for value in values], pa.string())
    return column
