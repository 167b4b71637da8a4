"""The table of questions and answers: one row for every question, in the order of the source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_assistant.asking.poller import Ended
from airflow_provider_assistant.lake import replace, storable, storing
from airflow_provider_assistant.quantiles import percentiles

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.loading.source import Path_

STATUSES = ("complete", "failed", "timed_out", "lost", "not_submitted")
COLUMNS = (
    *("key", "message", "answer", "status", "error", "request_id", "session_id"),
    *("submitted_at", "completed_at", "seconds", "noticed_after", "polls", "attempts", "raw"),
)
# Those that are known before there is an answer.
QUESTION = ("key", "message", "error", "request_id", "session_id", "submitted_at", "attempts")
Identity: TypeAlias = tuple[str | None, str | None, str | None]
# What a question is known by in the journal; it stands in the snapshot only.
ASKED_AS = "\0asked_as"
# Whose output it is, in the file's metadata: another task's answers are no answers of this one.
SCOPE = b"assistant.scope"
FACTS = b"assistant.submissions"
# Whether the conversations were made for the questions, in the snapshot's metadata.
OWN_SESSIONS = b"assistant.own_sessions"
_PERCENTS = (50, 95, 99)


def snapshot(
    columns: Mapping[str, Sequence[Any]],
    carried: Mapping[str, Sequence[Any]],
    facts: Mapping[str, Any],
    path: Path_,
    *,
    own_sessions: bool = False,
) -> None:
    """
    Write down what was asked.

    :param columns: The columns of ``QUESTION``, and ``ASKED_AS``.
    :param carried: The columns that are carried along.
    :param facts: What is to be told of the submissions in the end, as JSON types.
    :param path: Where to.
    :param own_sessions: Whether the conversations were made for these questions, and not named by the source.
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


def read_snapshot(path: Path_) -> pa.Table:
    """Return what :func:`snapshot` wrote."""
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        return pq.ParquetFile(file).read()


def joined(asked: pa.Table, answers: Mapping[str, Ended]) -> pa.Table:
    """
    Return questions with their answers.

    :param asked: The snapshot.
    :param answers: What became of the questions, by what they were asked as.
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
    """Write the output, as this task's."""
    replace(table.replace_schema_metadata({SCOPE: scope.encode()}), path)


def published(path: ObjectStoragePath, scope: str) -> dict[Identity, Ended]:
    """Return the complete answers that an earlier try of the same task wrote, by what people know them as."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return {}
    with path.open("rb") as file:
        try:
            parquet = pq.ParquetFile(file)
        except ValueError:  # whatever it is, it is not this task's, and is about to be replaced
            return {}
        if (parquet.schema_arrow.metadata or {}).get(SCOPE) != scope.encode():
            return {}
        # An earlier version of this package wrote no column noticed_after.
        rows = parquet.read([name for name in COLUMNS if name in parquet.schema_arrow.names]).to_pylist()
    return {
        (row["key"], row["message"], row["session_id"]): Ended(
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
    Return how many questions have which status, percentiles of the complete ones, in seconds, and the facts.

    :param table: What :func:`joined` returned.
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
    """Return whether the conversations were made for the questions, and not named by the source."""
    return bool(json.loads((table.schema.metadata or {}).get(OWN_SESSIONS, b"false")))


def _status(end: Ended | None, request_id: str | None) -> str:
    if end:
        return end.status
    return "timed_out" if request_id else "not_submitted"


def _error(end: Ended | None, status: str, error: str | None) -> str | None:
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
    """Return a column of whatever a source held; what Parquet has no one type for becomes text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pa.array(values)
        if pa.types.is_nested(column.type):
            pq.write_table(pa.table({"": column}), pa.BufferOutputStream())
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if value is None else storable(str(value)) for value in values], pa.string())
    return column
