"""Batches of columns from dataframes and lists of rows in memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Hold a batch of rows by column.

    :param columns: Values of each wanted column; all lists have the same length.
    :param start: Number of the first row in the source, from 1.
    :param problems: Why a row cannot be read, by its position in the batch from 0. The row's values are placeholders.
    :param file: Path of the text file that the rows come from. Empty for other sources.
    :param lines: Line number of each row in that file.
    """

    columns: dict[str, list[Any]]
    start: int = 1
    problems: Mapping[int, str] = field(default_factory=dict)
    file: str = ""
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, position: int) -> str:
        """Return the file and line, or the row number, of the row at this position in the batch."""
        return f"{self.file}, line {self.lines[position]}" if self.lines else f"row {self.start + position}"


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """
    Name the columns to read.

    :param text: Required columns with text.
    :param any: Required columns of any type, such as key columns.
    :param rest: Whether to read all other columns as well.
    :param optional: Columns with text that the source may lack.
    """

    text: tuple[str, ...]
    any: tuple[str, ...] = ()
    rest: bool = False
    optional: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Required columns, without repetitions."""
        return tuple(dict.fromkeys(self.text + self.any))

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that every batch contains, without repetitions."""
        return tuple(dict.fromkeys(self.names + self.optional))

    def among(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the columns to read of those that are present in the source."""
        names = dict.fromkeys(present)
        return tuple(names) if self.rest else tuple(name for name in self.read if name in names)

    def complete(self, columns: dict[str, list[Any]], length: int) -> dict[str, list[Any]]:
        """Return the columns, with columns of None for those that the source lacks."""
        return columns | {name: [None] * length for name in self.read if name not in columns}

    def check(self, present: Iterable[Any], where: str = "source") -> None:
        """
        Check that a source has the required columns, each once.

        :param where: Name of the source for the error message.
        :raises AssistantInputError: A required column is missing, or a column to read occurs more than once.
        """
        count = Counter(list(present))
        listed = ", ".join(map(str, count)) or "none"
        if missing := [name for name in self.names if name not in count]:
            raise AssistantInputError(
                f"{where} has no column {', '.join(missing)}; it has {listed}",
                todo="If a field's column has another name, pass columns={field: column} (--column "
                "FIELD=COLUMN); if a field has the same value in all rows, pass constants={field: value} "
                "(--constant FIELD=VALUE).",
                field="columns",
            )
        if twice := [name for name in self.read if count[name] > 1]:
            raise AssistantInputError(
                f"{where} has more than one column {', '.join(twice)}; it has {listed}",
                todo="Rename or drop one of them.",
                field="columns",
            )


def number(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the non-empty batches, with ``start`` set to the number of their first row."""
    start = 1
    for batch in batches:
        if size := len(batch):
            yield Batch(batch.columns, start, batch.problems, batch.file, batch.lines)
            start += size


def batches_of(source: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of a dataframe, a list of mappings or one mapping.

    :param source: A dataframe or any other provider of Arrow data, a list of mappings, or a mapping.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: The source is of another type or lacks a required column.
    """
    if hasattr(source, "__arrow_c_stream__"):
        yield from _of_stream(source, wanted)
    elif hasattr(source, "__arrow_c_array__"):
        import pyarrow as pa

        yield from batches_of_arrow([pa.record_batch(source)], wanted)
    elif isinstance(source, Mapping):
        yield from batches_of_rows([source], wanted)
    elif is_rows(source):
        yield from batches_of_rows(source, wanted)
    else:
        raise AssistantInputError(
            f"source: a batch must be a dataframe or a list of mappings, not {type(source).__name__}", field="source"
        )


def batches_of_parts(parts: Iterable[Any], wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of several parts, one after the other.

    :param parts: Dataframes, lists of mappings, or mappings. Consecutive mappings are read as one list.
    :return: Batches of at most 1,000 rows.
    """
    for are_rows, some in itertools.groupby(parts, key=lambda part: isinstance(part, Mapping)):
        if are_rows:
            yield from batches_of_rows(some, wanted)
        else:
            yield from itertools.chain.from_iterable(batches_of(part, wanted) for part in some)


def is_rows(source: Any) -> bool:
    """Return whether a source is a list of mappings."""
    return isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source)


def batches_of_arrow(batches: Iterable[pa.RecordBatch], wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of Arrow record batches.

    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: A required column is missing, or a text column has another type.
    """
    checked = None
    for batch in batches:
        if batch.schema is not checked:
            wanted.check(batch.schema.names)
            checked = batch.schema
        selected = batch.select(wanted.among(batch.schema.names))
        for start in range(0, selected.num_rows, BATCH):
            piece = selected.slice(start, BATCH)
            columns = {
                name: _values(name, column, wanted)
                for name, column in zip(selected.schema.names, piece.columns, strict=True)
            }
            yield Batch(wanted.complete(columns, len(piece)))


def batches_of_rows(rows: Iterable[Mapping[str, Any]], wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of mappings.

    :param rows: The rows. A row may lack columns that other rows have.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: No row has a required column.
    """
    present: dict[str, None] = {}
    remaining = iter(rows)
    while piece := list(itertools.islice(remaining, BATCH)):
        names = dict.fromkeys(name for row in piece for name in row)
        present |= names
        yield Batch(columns_of_rows(piece, names, wanted))
    if present:
        wanted.check(present)


def columns_of_rows(
    rows: Sequence[Mapping[str, Any]], present: Iterable[str], wanted: ColumnSelection
) -> dict[str, list[Any]]:
    """
    Return the wanted columns of a list of mappings: values by column.

    :param present: Names of the columns that at least one row has.
    """
    columns = {name: [row.get(name) for row in rows] for name in wanted.among(present)}
    for name in {*wanted.text, *wanted.optional} & set(columns):
        columns[name] = _texts(columns[name])
    return wanted.complete(columns, len(rows))


def _texts(values: list[Any]) -> list[Any]:
    """Convert strings to ``str`` and missing values to None; keep other values, which the row's validation refuses."""
    return [value if type(value) is str else _text(value) for value in values]


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    return None if is_missing(value) else value


def _values(name: str, column: pa.Array, wanted: ColumnSelection) -> list[Any]:
    """Return the values of a column; refuse a column to be sent as text if it has another type."""
    if name in wanted.text or name in wanted.optional:
        # A column of nulls may have any type.
        if column.null_count == len(column):
            return [None] * len(column)
        if not _is_text(column.type):
            raise AssistantInputError(
                f"source column {name} is of type {column.type}, but a document needs text",
                todo="Convert it first.",
                field=name,
            )
    values: list[Any] = column.to_pylist()
    return values


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner))


def _of_stream(source: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    import pyarrow as pa

    kind = type(source)
    is_pandas = kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"
    if is_pandas:
        wanted.check(source.columns)
        source = source[list(wanted.among(source.columns))]
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if not is_pandas:
            raise AssistantInputError(f"source: the dataframe cannot be read: {error}", field="source") from error
        # A column mixes types: validate each row by itself.
        yield from _of_pandas(source, wanted)
    else:
        # Close the stream also after an error, whose traceback keeps it: DuckDB's connection refuses queries meanwhile.
        with reader:
            is_mixed = is_pandas and any(
                source[name].dtype == object and not _is_text(reader.schema.field(name).type)
                for name in source.columns
                if name in wanted.text or name in wanted.optional
            )
            yield from _of_pandas(source, wanted) if is_mixed else batches_of_arrow(reader, wanted)


def _of_pandas(frame: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    for start in range(0, len(frame), BATCH):
        piece = frame.iloc[start : start + BATCH]
        columns = {name: piece[name].tolist() for name in piece.columns}
        texts = {name: _texts(columns[name]) for name in {*wanted.text, *wanted.optional} & set(columns)}
        yield Batch(wanted.complete({str(name): values for name, values in (columns | texts).items()}, len(piece)))
