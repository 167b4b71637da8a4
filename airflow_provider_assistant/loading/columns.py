"""Batches of columns from dataframes and lists of rows in memory."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import NOT_TEXT, is_encodable

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
    :param bad_cells: Why a text cannot be sent, by its column and its position.
    :param bad_text: What is wrong with a text that has characters without an encoding.
    :param file: Path of the text file that the rows come from. Empty for other sources.
    :param lines: Line number of each row in that file.
    """

    columns: dict[str, list[Any]]
    start: int = 1
    problems: Mapping[int, str] = field(default_factory=dict)
    bad_cells: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    bad_text: str = NOT_TEXT
    file: str = ""
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, position: int) -> str:
        """Return the file and line, or the row number, of the row at this position in the batch."""
        if self.lines:
            return f"{self.file}, line {self.lines[position]}"
        return f"row {self.start + position}"

    def all_problems(self) -> dict[int, str]:
        """Return why a row, or a text of it, cannot be read, by its position."""
        problems: dict[int, str] = {}
        for problems_of_column in self.bad_cells.values():
            problems |= problems_of_column
        return problems | dict(self.problems)


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """
    Name the columns to read.

    :param text: Required columns with text.
    :param any: Required columns of any type, such as key columns.
    :param rest: Whether to read all other columns as well.
    :param optional: Columns with text that the source may lack.
    :param partition: Values of columns that are the same in all rows, for a source that lacks the columns.
    """

    text: tuple[str, ...]
    any: tuple[str, ...] = ()
    rest: bool = False
    optional: tuple[str, ...] = ()
    partition: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Required columns, without repetitions."""
        return tuple(dict.fromkeys(self.text + self.any))

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that every batch contains, without repetitions."""
        return tuple(dict.fromkeys(self.names + self.optional))

    @property
    def text_names(self) -> set[str]:
        """Columns with text, required or optional."""
        return {*self.text, *self.optional}

    def among(self, present: Iterable[str]) -> tuple[str, ...]:
        """Return the columns to read of those that are present in the source."""
        present_names = dict.fromkeys(present)
        if self.rest:
            return tuple(present_names)
        return tuple(name for name in self.read if name in present_names)

    def complete(self, columns: dict[str, list[Any]], length: int) -> dict[str, list[Any]]:
        """Return the columns, with those that the source lacks: of one value, or of None."""
        missing_names = [name for name in self.read if name not in columns]
        return columns | {name: [self.partition.get(name)] * length for name in missing_names}

    def check(self, present: Iterable[Any], where: str = "source") -> None:
        """
        Check that a source has the required columns, each once.

        :param where: Name of the source for the error message.
        :raises AssistantInputError: A required column is missing, or a column to read occurs more than once.
        """
        count_by_name = Counter(list(present))
        present_names = ", ".join(map(_shown, count_by_name)) or "none"
        missing = [name for name in self.names if name not in {*count_by_name, *self.partition}]
        if missing:
            raise AssistantInputError(
                f"{where} has no column {', '.join(map(_shown, missing))}; it has {present_names}",
                todo=_similar_names(missing, count_by_name)
                + "If a field's column has another name, pass columns={field: column} (--column "
                "FIELD=COLUMN); if a field has the same value in all rows, pass constants={field: value} "
                "(--constant FIELD=VALUE).",
                field="columns",
            )
        repeated = [name for name in self.read if count_by_name[name] > 1]
        if repeated:
            raise AssistantInputError(
                f"{where} has more than one column {', '.join(repeated)}; it has {present_names}",
                todo="Rename or drop one of them.",
                field="columns",
            )


def _shown(name: Any) -> str:
    """Return the name of a column, in quotes and with escapes if it has characters that cannot be seen."""
    text = str(name)
    is_plain = text.isprintable() and text == text.strip() and bool(text)
    return text if is_plain else repr(text)


def _similar_names(missing: Iterable[str], present: Iterable[Any]) -> str:
    """Return sentences about names that look like missing ones."""
    sentences = ""
    present_names = {_seen(str(name)): str(name) for name in present}
    for name in missing:
        similar = present_names.get(_seen(name))
        if similar is not None:
            sentences += f"The name {similar!r} looks like {name!r}, but has other characters: rename one of them. "
    return sentences


def _seen(name: str) -> str:
    """Return what people see of a name: without white space and invisible characters, and without case."""
    letters = [char for char in unicodedata.normalize("NFKC", name) if char.isprintable() and not char.isspace()]
    return "".join(letters).casefold()


def number(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the non-empty batches, with the number of their first row and their bad cells."""
    start = 1
    for batch in batches:
        if len(batch) > 0:
            yield replace(batch, start=start, bad_cells=_bad_cells(batch))
            start += len(batch)


def _bad_cells(batch: Batch) -> dict[str, dict[int, str]]:
    """Return why a text cannot be sent, by its column and its position."""
    bad_cells = {}
    for name, values in batch.columns.items():
        texts = [value for value in values if isinstance(value, str)]
        # One check of the whole column is faster than one of each value.
        if is_encodable("".join(texts)):
            continue
        problem = f"column {name!r} {batch.bad_text}"
        bad_cells[name] = {
            position: problem
            for position, value in enumerate(values)
            if isinstance(value, str) and not is_encodable(value)
        }
    return bad_cells


def batches_of(source: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of a dataframe, a list of mappings or one mapping.

    :param source: A dataframe or any other provider of Arrow data, a list of mappings, or a mapping.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: The source is of another type or lacks a required column.
    """
    if hasattr(source, "__arrow_c_stream__"):
        yield from _batches_of_stream(source, wanted)
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
    parts_by_kind = itertools.groupby(parts, key=lambda part: isinstance(part, Mapping))
    for are_rows, consecutive_parts in parts_by_kind:
        if are_rows:
            yield from batches_of_rows(consecutive_parts, wanted)
        else:
            for part in consecutive_parts:
                yield from batches_of(part, wanted)


def is_rows(source: Any) -> bool:
    """Return whether a source is a list of mappings."""
    return isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source)


def batches_of_arrow(batches: Iterable[pa.RecordBatch], wanted: ColumnSelection) -> Iterator[Batch]:
    """
    Yield the wanted columns of Arrow record batches.

    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: A required column is missing, or a text column has another type.
    """
    checked_schema = None
    for batch in batches:
        if batch.schema is not checked_schema:
            wanted.check(batch.schema.names)
            checked_schema = batch.schema
        selected = batch.select(wanted.among(batch.schema.names))
        for start in range(0, selected.num_rows, BATCH):
            piece = selected.slice(start, BATCH)
            columns = {}
            for name, column in zip(selected.schema.names, piece.columns, strict=True):
                columns[name] = _values(name, column, wanted)
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
    for name in wanted.text_names & columns.keys():
        columns[name] = _texts(columns[name])
    return wanted.complete(columns, len(rows))


def _texts(values: list[Any]) -> list[Any]:
    """Convert strings to ``str`` and missing values to None; keep other values, which the row's validation refuses."""
    return [value if type(value) is str else _text(value) for value in values]


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if is_missing(value):
        return None
    return value


def _values(name: str, column: pa.Array, wanted: ColumnSelection) -> list[Any]:
    """
    Return the values of a column.

    :raises AssistantInputError: Its type is not text and it is to be sent, or its values cannot be keys.
    """
    if name in wanted.text_names:
        # A column of nulls may have any type.
        if column.null_count == len(column):
            return [None] * len(column)
        if not _is_text(column.type):
            raise AssistantInputError(
                f"source column {name} is of type {column.type}, but a document needs text",
                todo="Convert it first.",
                field=name,
            )
    elif name in wanted.any and not _has_values(column.type):
        raise AssistantInputError(
            f"source column {name} is of type {column.type}, whose values cannot be read",
            todo="Convert it to text or numbers first.",
            field=name,
        )
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        # Some writers store other encodings as text.
        octets = column.cast("large_binary").to_pylist()
        values = [value and value.decode(errors="surrogateescape") for value in octets]
    return values


def _is_text(column_type: pa.DataType) -> bool:
    from pyarrow import types

    value_type = column_type
    if types.is_dictionary(column_type):
        value_type = column_type.value_type
    if _is_extension(value_type):
        # Such as the type of JSON.
        value_type = value_type.storage_type
    is_text = types.is_string(value_type) or types.is_large_string(value_type) or types.is_string_view(value_type)
    return bool(is_text)


def _is_extension(column_type: pa.DataType) -> bool:
    import pyarrow as pa

    return isinstance(column_type, pa.BaseExtensionType)


def _has_values(column_type: pa.DataType) -> bool:
    """Return whether values of a type are those that people see: an extension may store something else."""
    if not _is_extension(column_type) or _is_text(column_type):
        return True
    return column_type.extension_name in {"arrow.uuid", "arrow.bool8"}


def _is_frame_of(package: str, source: Any) -> bool:
    """Return whether a source is a dataframe of a package, without importing that package."""
    source_type = type(source)
    return source_type.__module__.partition(".")[0] == package and source_type.__name__ == "DataFrame"


def _batches_of_stream(source: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    import pyarrow as pa

    is_pandas, is_polars = _is_frame_of("pandas", source), _is_frame_of("polars", source)
    if is_pandas or is_polars:
        wanted.check(source.columns)
        source = source[list(wanted.among(source.columns))]
    if (is_pandas and _has_object_keys(source, wanted)) or (is_polars and _has_objects(source)):
        yield from _batches_of_objects(source, wanted)
        return
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if not (is_pandas or is_polars):
            raise AssistantInputError(f"source: the dataframe cannot be read: {error}", field="source") from error
        # A column mixes types: validate each row by itself.
        yield from _batches_of_objects(source, wanted)
    else:
        # Close the stream also after an error, whose traceback keeps it: DuckDB's connection refuses queries meanwhile.
        with reader:
            if is_pandas and _has_objects_as_text(source, reader.schema, wanted):
                yield from _batches_of_objects(source, wanted)
            else:
                yield from batches_of_arrow(reader, wanted)


def _has_object_keys(frame: Any, wanted: ColumnSelection) -> bool:
    """Return whether a key column holds Python objects: Arrow gives dates and timestamps the same type."""
    return any(frame[name].dtype == object for name in frame.columns if name in wanted.any)


def _has_objects(frame: Any) -> bool:
    """Return whether a dataframe of polars holds Python objects, of which Arrow gets only the addresses."""
    return any(str(kind) == "Object" for kind in frame.dtypes)


def _has_objects_as_text(frame: Any, schema: pa.Schema, wanted: ColumnSelection) -> bool:
    """Return whether a text column holds Python objects that Arrow does not take as text."""
    for name in frame.columns:
        if name in wanted.text_names and frame[name].dtype == object and not _is_text(schema.field(name).type):
            return True
    return False


def _batches_of_objects(frame: Any, wanted: ColumnSelection) -> Iterator[Batch]:
    """Yield the rows of a dataframe of pandas or polars as Python objects."""
    rows = getattr(frame, "iloc", frame)
    for start in range(0, len(frame), BATCH):
        piece = rows[start : start + BATCH]
        columns: dict[str, list[Any]] = {}
        for name in piece.columns:
            values = list(piece[name])
            if name in wanted.text_names:
                values = _texts(values)
            columns[str(name)] = values
        yield Batch(wanted.complete(columns, len(piece)))
