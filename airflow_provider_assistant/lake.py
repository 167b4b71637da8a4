"""
Parquet datasets that a warehouse reads: their schemas, and how a partition is published.

A dataset is a folder with Hive-style partitions by date. A partition's file is replaced as a whole, so that
a reader sees the old day or the new day, and a re-run doubles nothing.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.common.compat.sdk import ObjectStoragePath

if TYPE_CHECKING:
    import pyarrow as pa


class Metric(NamedTuple):
    """
    One leaf of a statistics reply.

    :param metric: Dotted path; items of a list are keyed by their position, from 0.
    :param value: The number, or None for anything else.
    :param text: The leaf as text: strings as they are, everything else as JSON.
    :param type: JSON type: ``number``, ``string``, ``boolean``, ``null``, or ``object`` or ``array`` if empty.
    """

    metric: str
    value: float | None
    text: str
    type: str


@dataclass(frozen=True, slots=True)
class Capture:
    """One statistics reply of one site."""

    captured_at: datetime
    site_id: str
    raw: Any


def flatten(raw: Any, path: str = "") -> Iterator[Metric]:
    """Yield every leaf of a JSON value, in its order."""
    if isinstance(raw, Mapping) and raw:
        for name, value in raw.items():
            yield from flatten(value, f"{path}.{name}" if path else str(name))
    elif isinstance(raw, list) and raw:
        for position, value in enumerate(raw):
            yield from flatten(value, f"{path}.{position}" if path else str(position))
    else:
        yield _leaf(storable(path) or "$", raw)


def _leaf(path: str, raw: Any) -> Metric:
    if isinstance(raw, str):
        return Metric(path, None, storable(raw), "string")
    text = json.dumps(raw)
    if isinstance(raw, bool):
        return Metric(path, None, text, "boolean")
    if isinstance(raw, int | float):
        return Metric(path, _double(raw), text, "number")
    kind = "null" if raw is None else "array" if isinstance(raw, list) else "object"
    return Metric(path, None, text, kind)


def storable(text: str) -> str:
    """Return a text that Parquet can hold: JSON may have half a surrogate pair, UTF-8 may not; it becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def statistics_schema() -> pa.Schema:
    """Return the schema of the ``statistics`` dataset: one row per metric of a capture."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("captured_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("site_id", pa.string(), nullable=False),
            pa.field("metric", pa.string(), nullable=False),
            pa.field("value", pa.float64()),
            pa.field("text", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
        ]
    )


def feedback_schema() -> pa.Schema:
    """Return the schema of the ``feedback`` dataset: one row per rating sent."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("sent_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("site_id", pa.string(), nullable=False),
            pa.field("session_id", pa.string(), nullable=False),
            pa.field("request_id", pa.string(), nullable=False),
            pa.field("rating", pa.string(), nullable=False),
            pa.field("answer_seconds", pa.float64()),
            pa.field("attempts", pa.int32(), nullable=False),
            pa.field("dag_id", pa.string()),
            pa.field("run_id", pa.string()),
            pa.field("task_id", pa.string()),
            pa.field("map_index", pa.int32()),
        ]
    )


def statistics_table(captures: Iterable[Capture]) -> pa.Table:
    """Return the rows of the ``statistics`` dataset for these captures."""
    rows = [
        {"captured_at": capture.captured_at, "site_id": capture.site_id, **metric._asdict()}
        for capture in captures
        for metric in flatten(capture.raw)
    ]
    return _table(rows, statistics_schema())


def feedback_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return the rows of the ``feedback`` dataset, from the ledger's."""
    return _table(rows, feedback_schema())


def statistics_raw_table(captures: Iterable[Capture]) -> pa.Table:
    """Return the rows of the ``statistics_raw`` dataset: each reply as the JSON it was."""
    import pyarrow as pa

    schema = pa.schema(
        [
            pa.field("captured_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("site_id", pa.string(), nullable=False),
            pa.field("raw", pa.string(), nullable=False),
        ]
    )
    rows = [
        {
            "captured_at": capture.captured_at,
            "site_id": capture.site_id,
            "raw": storable(json.dumps(capture.raw, ensure_ascii=False)),
        }
        for capture in captures
    ]
    return _table(rows, schema)


def publish(table: pa.Table, root: str, dataset: str, day: date, part: str) -> str:
    """
    Replace one part of one day of a dataset, and return its path.

    On a file system the new file takes the old one's place in one step; on object storage an upload becomes
    visible when it is complete. A failure leaves the old file.

    :param table: All rows of the part; an empty table replaces too.
    :param root: Folder of the datasets: a local path or an object storage URL.
    :param dataset: Name of the dataset, a folder below ``root``.
    :param day: The partition: ``date=2026-11-21``.
    :param part: Name of the part, unique among those who write this day.
    """
    target = ObjectStoragePath(root) / dataset / f"date={day.isoformat()}" / f"{_file_name(part)}.parquet"
    replace(table, target)
    return str(target)


def replace(table: pa.Table, target: ObjectStoragePath) -> None:
    """
    Write a Parquet file in place of what may be there, so that a reader sees the old one or the new one.

    :param table: Its rows.
    :param target: The file.
    """
    import pyarrow.parquet as pq

    target.parent.mkdir(parents=True, exist_ok=True)
    if target.protocol not in {"file", ""}:
        with target.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
        return
    # Readers of a dataset skip names that begin with a dot.
    temporary = target.parent / f".{target.stem}.{uuid.uuid4().hex}"
    try:
        with temporary.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=schema)


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", part)
