"""Build the tables of the datasets: from replies of the service, or from rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.lake.datasets import STATISTICS_RAW, Dataset
from airflow_provider_assistant.lake.flattening import Leaves, as_text, with_digits
from airflow_provider_assistant.texts import storable, storable_value

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Capture:
    """
    One reply, or one record of it, and its origin.

    :param captured_at: Time at which the reply arrived, with a time zone.
    :param raw: The reply as JSON text, with every digit; None if it was empty.
    :param service: Name of the service.
    :param site_id: Required for statistics.
    :param user_label: Label of the user whose record it is.
    :param email: E-mail address of this user, if it may be stored.
    :param read: Name of what was read.
    :param item: Name of an item of the reply's list; None for the reply itself.
    """

    captured_at: datetime
    raw: str | None
    service: str = dataclasses.field(kw_only=True)
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
            values = [storable_value(getattr(capture, field.name)) for capture in captures]
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
            values = [storable_value(getattr(capture, field.name)) for capture in captures]
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
        storable_row = {name: storable_value(value) for name, value in row.items()}
        storable_rows.append(storable_row)
    return pa.Table.from_pylist(storable_rows, schema=dataset.schema())


def _sorted(columns: Mapping[str, pa.Array], dataset: Dataset) -> pa.Table:
    import pyarrow as pa

    schema = dataset.schema()
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    if not dataset.order:
        return table
    return table.sort_by([(name, "ascending") for name in dataset.order])
