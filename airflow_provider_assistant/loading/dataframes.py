"""Read dataframes and other providers of Arrow data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import (
    BATCH,
    Batch,
    ColumnSelection,
    batches_of_rows,
    is_rows,
    texts_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


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
            yield Batch(wanted.complete(columns, len(piece)), is_decoded=True)


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
                values = texts_of(values)
            columns[str(name)] = values
        yield Batch(wanted.complete(columns, len(piece)))
