"""All rows of a source at once, by column: for questions, answers and golden sets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.tables import Batch, Note
from airflow_provider_assistant.texts import cell_text, counted

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SourceColumns:
    """
    Hold all rows of a source.

    :param problems: Why a row cannot be read, by its position from 0.
    """

    columns: dict[str, list[Any]] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    count: int = 0

    def repeated(self, times: int) -> SourceColumns:
        """Return each row several times, one after the other."""
        repeated = SourceColumns(count=self.count * times)
        for name, values in self.columns.items():
            repeated.columns[name] = [value for value in values for _ in range(times)]
        for position, problem in self.problems.items():
            first_position = position * times
            positions = range(first_position, first_position + times)
            repeated.problems |= dict.fromkeys(positions, problem)
        return repeated


def read_columns(source: Iterator[Batch | Note], texts: Iterable[str] = ()) -> SourceColumns:
    """
    Read all rows of a source, and log what it left out.

    Where a batch lacks a column of another, its values are None.

    :param texts: Columns that are sent.
    """
    result = SourceColumns()
    for batch in source:
        if isinstance(batch, Note):
            level = logging.INFO if batch.expected else logging.WARNING
            log.log(level, "Left out: %s, such as %s, %s.", counted(batch.count, batch.unit), batch.name, batch.reason)
            continue
        rows_before = result.count
        for name, values in batch.columns.items():
            if name not in result.columns:
                # No earlier batch has this column.
                result.columns[name] = [None] * rows_before
            result.columns[name].extend(values)
        for position, problem in batch.problems_of(texts, batch.columns).items():
            result.problems[rows_before + position] = f"{batch.place(position)}: {problem}"
        result.count += len(batch)
        for values in result.columns.values():
            # This batch may lack a column of an earlier one.
            missing_values = result.count - len(values)
            values.extend([None] * missing_values)
    return result


def table_of(source: Iterator[Batch | Note]) -> pa.Table:
    """
    Return all rows of a source as one table.

    :raises AssistantInputError: A row cannot be read, or is not text in the encoding of its file; or a column has
        values of several types.
    """
    import pyarrow as pa

    rows = read_columns(source)
    for problem in rows.problems.values():
        raise AssistantInputError(f"source: {problem}", field="source")
    try:
        return pa.table({name: _array(values) for name, values in rows.columns.items()})
    except UnicodeEncodeError as error:
        raise AssistantInputError(
            f"source: a text has the character {error.object[error.start : error.end]!r}, which no encoding has",
            field="source",
        ) from error
    except (pa.ArrowException, TypeError) as error:
        raise AssistantInputError(f"source: a column holds several types: {error}", field="source") from error


def _array(values: list[Any]) -> pa.Array:
    """Return a column. If it has lists and other values, lists become JSON text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError):
        if not any(isinstance(value, list) for value in values):
            raise
    return pa.array([None if value is None else cell_text(value) for value in values], pa.string())
