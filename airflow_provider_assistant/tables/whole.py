"""Read a whole source at once, such as a golden set."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.tables.batches import Part
from airflow_provider_assistant.texts import cell_text, counted, shortened

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
            first = position * times
            repeated.problems |= dict.fromkeys(range(first, first + times), problem)
        return repeated


def read_columns(parts: Iterable[Part], texts: Iterable[str] = ()) -> SourceColumns:
    """
    Read all rows of a source, and log what the source left out.

    Where a batch lacks a column of another, its values are None.

    :param parts: The batches and notes of the source.
    :param texts: Columns that are sent.
    """
    result = SourceColumns()
    for part in parts:
        if isinstance(part, Note):
            level = logging.INFO if part.is_expected else logging.WARNING
            what = f"{counted(part.count, part.unit)} left out: {part.reason} ({part.name})"
            log.log(level, "Source: %s", shortened(what, 400))
            continue
        for name, values in part.columns.items():
            # No earlier batch may have this column.
            result.columns.setdefault(name, [None] * result.count).extend(values)
        for position, problem in part.problems_of(texts, part.columns).items():
            result.problems[result.count + position] = f"{part.place(position)}: {problem}"
        result.count += len(part)
        for values in result.columns.values():
            # This batch may lack a column of an earlier one.
            values.extend([None] * (result.count - len(values)))
    return result


def table_of(parts: Iterable[Part]) -> pa.Table:
    """
    Return all rows of a source as one table.

    :param parts: The batches and notes of the source.
    :raises AssistantInputError: A row cannot be read, or is not text in the encoding of its file; or a
        column has values of several types.
    """
    import pyarrow as pa

    rows = read_columns(parts)
    if rows.problems:
        first = next(iter(rows.problems.values()))
        others = f" ({counted(len(rows.problems) - 1, 'more row')} cannot be read)" if len(rows.problems) > 1 else ""
        raise AssistantInputError(f"source: {first}{others}", field="source")
    try:
        return pa.table({name: _array(values) for name, values in rows.columns.items()})
    except UnicodeEncodeError as error:
        character = error.object[error.start : error.end]
        raise AssistantInputError(
            f"source: a text has the character {character!r}, which no encoding has", field="source"
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
