"""The Parquet datasets: their columns, and the functions that build their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.lake.flattening import Leaves, as_text, with_digits
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Dataset:
    """
    A dataset: a folder with one partition per UTC day.

    :param name: Name of the dataset, of its folder and of its table in the warehouse.
    :param columns: Type by column name, in the order of the file: ``moment``, ``string``, ``double``, ``int`` or
        ``bool``. A type with an exclamation mark is not nullable.
    :param key: Columns that identify a row: two files of one day must not have the same row. Rows whose last key
        column is null have no identity. Default: none, rows are not compared.
    :param order: Columns by which the rows of a file are sorted. Default: none, the rows keep their order.
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

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
        fields = []
        for name, kind in self.columns.items():
            is_nullable = not kind.endswith("!")
            arrow_type = types[kind.removesuffix("!")]
            fields.append(pa.field(name, arrow_type, nullable=is_nullable))
        return pa.schema(fields)


_CAPTURE_COLUMNS = {"captured_at": "moment!", "logical_date": "moment", "tenant_id": "string"}
_METRIC_COLUMNS = {
    "metric": "string!",
    "value": "double",
    "text": "string!",
    "type": "string!",
    "period": "string",
}
_TASK_COLUMNS = {"dag_id": "string", "run_id": "string", "task_id": "string", "map_index": "int"}

# One row per metric of a reply, on the day of the run.
STATISTICS = Dataset(
    "statistics",
    {**_CAPTURE_COLUMNS, "site_id": "string!", **_METRIC_COLUMNS},
    key=("tenant_id", "site_id"),
    order=("site_id", "metric", "captured_at"),
)
# One row per reply, on the day of the run.
STATISTICS_RAW = Dataset(
    "statistics_raw",
    {**_CAPTURE_COLUMNS, "site_id": "string!", "raw": "string!"},
    key=("tenant_id", "site_id"),
    order=("site_id", "captured_at"),
)
# One row per metric of a reply, on the day of the run.
LIMITS = Dataset(
    "limits",
    {**_CAPTURE_COLUMNS, **_METRIC_COLUMNS},
    key=("tenant_id",),
    order=("metric", "captured_at"),
)
_READ_COLUMNS = {
    **_CAPTURE_COLUMNS,
    "site_id": "string",
    "user_label": "string",
    "email": "string",
    "read": "string!",
    "item": "string",
}
# One row per metric of a record of any other reply, on the day of the run or of the record.
READS = Dataset(
    "reads",
    {**_READ_COLUMNS, **_METRIC_COLUMNS},
    key=("tenant_id", "site_id", "user_label", "read"),
)
# One row per record of any other reply: an item of its list, or the reply without it.
READS_RAW = Dataset(
    "reads_raw",
    {**_READ_COLUMNS, "raw": "string!"},
    key=("tenant_id", "site_id", "user_label", "read"),
)
# One row per rating, on the day when it was sent.
FEEDBACK = Dataset(
    "feedback",
    {
        "sent_at": "moment!",
        "site_id": "string!",
        "session_id": "string!",
        "request_id": "string!",
        "rating": "string!",
        "answer_seconds": "double",
        "attempts": "int!",
        **_TASK_COLUMNS,
    },
    key=("site_id", "rating", "request_id"),
)
# One row per async chat request, on the day when it was submitted.
REQUESTS = Dataset(
    "requests",
    {
        "submitted_at": "moment!",
        "completed_at": "moment",
        "seconds": "double",
        "state": "string!",
        "site_id": "string!",
        "session_id": "string",
        "request_id": "string",
        "attempts": "int!",
        "ambiguous": "int",
        "is_batch": "bool!",
        **_TASK_COLUMNS,
    },
    key=("site_id", "request_id"),
)
# One row per try of a load, on the day when it started.
LOADS = Dataset(
    "loads",
    {
        "started_at": "moment!",
        "ended_at": "moment",
        "outcome": "string!",
        "site_id": "string!",
        "endpoint": "string!",
        "source": "string!",
        "rows": "int",
        "created": "int",
        "unchanged": "int",
        "skipped": "int",
        "rejected": "int",
        "ambiguous": "int",
        "failed": "int",
        "drafts": "int",
        "changed": "int",
        "possibly_duplicated": "int",
        "stale": "int",
        "activated": "int",
        "deactivated": "int",
        "deleted": "int",
        "not_activated": "int",
        "not_removed": "int",
        "left_out": "int",
        "requests": "int",
        "throttled": "int",
        "seconds": "double",
        "error": "string",
        **_TASK_COLUMNS,
    },
    key=("site_id", "endpoint", "source", "run_id", "task_id", "map_index", "started_at"),
)
# One row per document that the ledger and a site disagree about, on the day of the run.
DOCUMENT_DIFFERENCES = Dataset(
    "document_differences",
    {
        "compared_at": "moment!",
        "site_id": "string!",
        "kind": "string!",
        "document_id": "string!",
        "title": "string",
        "state": "string",
        "status": "string",
        "created_at": "moment",
        "source": "string",
        "label": "string",
        "other_id": "string",
        **_TASK_COLUMNS,
    },
    key=("site_id", "document_id"),
)
# One row per evaluation and scorer, on the day of the run.
EVALUATIONS = Dataset(
    "evaluations",
    {
        "name": "string!",
        "tag": "string",
        "dag_id": "string!",
        "run_id": "string!",
        "task_id": "string!",
        "map_index": "int",
        "logical_date": "moment",
        "asked_at": "moment",
        "verdict": "string!",
        "questions": "int!",
        "answered": "int!",
        "coverage": "double!",
        "pass_rate": "double",
        "low_confidence": "int",
        "scorer": "string!",
        "scored": "int!",
        "mean": "double",
        "baseline": "string",
        "difference": "double",
        "difference_low": "double",
        "difference_high": "double",
        "path": "string!",
    },
)
_ALL = (
    STATISTICS,
    STATISTICS_RAW,
    LIMITS,
    READS,
    READS_RAW,
    FEEDBACK,
    REQUESTS,
    LOADS,
    DOCUMENT_DIFFERENCES,
    EVALUATIONS,
)
DATASETS = {dataset.name: dataset for dataset in _ALL}


@dataclass(frozen=True)
class Capture:
    """
    One reply, or one record of it, and its origin.

    :param captured_at: Time at which the reply arrived, with a time zone.
    :param raw: The reply as JSON text, with every digit; None if it was empty.
    :param site_id: Required for statistics.
    :param user_label: Label of the user whose record it is.
    :param email: E-mail address of this user, if it may be stored.
    :param read: Name of what was read.
    :param item: Name of an item of the reply's list; None for the reply itself.
    """

    captured_at: datetime
    raw: str | None
    tenant_id: str | None = None
    site_id: str | None = None
    logical_date: datetime | None = None
    user_label: str | None = None
    email: str | None = None
    read: str | None = None
    item: str | None = None

    @cached_property
    def value(self) -> Any:
        """Value of ``raw``; its numbers with a fraction are :class:`.Digits`."""
        if self.raw is None:
            return None
        return with_digits(self.raw)

    @property
    def period(self) -> str | None:
        """The reply's ``period`` field as text; None if it has none."""
        if not isinstance(self.value, Mapping):
            return None
        period = self.value.get("period")
        if period is None:
            return None
        return as_text(period)


def metrics_table(
    dataset: Dataset, captures: Iterable[Capture], list_keys: Mapping[str, str] | None = None
) -> pa.Table:
    """
    Return rows of ``statistics``, ``limits`` or ``reads``: one per metric of each reply.

    :param captures: Replies, or records of replies.
    :param list_keys: See :func:`~airflow_provider_assistant.lake.flattening.flatten`.
    """
    import pyarrow as pa

    captures = list(captures)
    leaves = Leaves(list_keys)
    # The number of the capture that each row comes from.
    capture_numbers: list[int] = []
    for number, capture in enumerate(captures):
        row_count = leaves.add(capture.value)
        capture_numbers += [number] * row_count
    columns: dict[str, Any] = {
        "metric": leaves.metrics,
        "value": leaves.values,
        "text": leaves.texts,
        "type": leaves.types,
    }
    # Columns with one value per capture are converted once per capture and then repeated for its rows.
    capture_of_rows = pa.array(capture_numbers, pa.int32())
    for field in dataset.schema():
        if field.name in columns:
            columns[field.name] = pa.array(columns[field.name], field.type)
        else:
            # Captures have an attribute for each of these columns.
            values = [_storable_value(getattr(capture, field.name)) for capture in captures]
            columns[field.name] = pa.array(values, field.type).take(capture_of_rows)
    return _sorted(columns, dataset)


def replies_table(captures: Iterable[Capture], dataset: Dataset = STATISTICS_RAW) -> pa.Table:
    """Return rows of ``statistics_raw`` or ``reads_raw``: one per reply, with its JSON."""
    import pyarrow as pa

    captures = list(captures)
    columns: dict[str, Any] = {}
    for field in dataset.schema():
        if field.name == "raw":
            # An empty reply is stored as the JSON value null.
            values = [storable(capture.raw or "null") for capture in captures]
        else:
            values = [_storable_value(getattr(capture, field.name)) for capture in captures]
        columns[field.name] = pa.array(values, field.type)
    return _sorted(columns, dataset)


def rows_table(dataset: Dataset, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """
    Return the table of a dataset from its rows.

    :param rows: A missing column of a row is null.
    """
    import pyarrow as pa

    storable_rows = []
    for row in rows:
        storable_row = {name: _storable_value(value) for name, value in row.items()}
        storable_rows.append(storable_row)
    return pa.Table.from_pylist(storable_rows, schema=dataset.schema())


def _storable_value(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return value


def _sorted(columns: Mapping[str, pa.Array], dataset: Dataset) -> pa.Table:
    import pyarrow as pa

    schema = dataset.schema()
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    if not dataset.order:
        return table
    return table.sort_by([(name, "ascending") for name in dataset.order])
