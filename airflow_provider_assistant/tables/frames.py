"""Read dataframes and other providers of Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.tables.batches import BATCH, Batch, Columns, texts_of

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(source: Any) -> bool:
    """Return whether a source provides Arrow data. A Series counts, although older ones of pandas provide none."""
    kind = type(source)
    is_series = kind.__name__ == "Series"
    return is_series or hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")


def batches_of_frame(source: Any, columns: Columns) -> Iterator[Batch]:
    """
    Yield the columns of a dataframe, in batches.

    :param source: A dataframe of pandas or polars, or any other provider of Arrow data.
    :raises AssistantInputError: It lacks a required column, or a column has a type that cannot be
        read or sent.
    """
    import pyarrow as pa

    names = {base.__name__ for base in type(source).__mro__ if _package(base) in {"pandas", "polars"}}
    if "Series" in names:
        raise AssistantInputError(
            "source is a Series; pass a DataFrame", todo="Such as series.to_frame().", field="source"
        )
    if "DataFrame" in names:
        yield from _batches_of_pandas_or_polars(source, columns)
        return
    if not hasattr(source, "__arrow_c_stream__"):
        yield from batches_of_arrow([pa.record_batch(source)], columns)
        return
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise AssistantInputError(f"source: the dataframe cannot be read: {error}", field="source") from error
    # An error keeps this frame alive, and DuckDB refuses queries while the stream is open.
    with reader:
        yield from batches_of_arrow(reader, columns)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _batches_of_pandas_or_polars(frame: Any, columns: Columns) -> Iterator[Batch]:
    """Yield slices of a dataframe. A column of Python objects is taken as it is, any other as Arrow."""
    index_names = [str(name) for name in getattr(getattr(frame, "index", None), "names", ())]
    advice = ""
    if set(columns.required).difference(frame.columns) & set(index_names):
        advice = "The index of the dataframe has this name: pass df.reset_index()."
    columns.check(frame.columns, advice=advice)
    rows = getattr(frame, "iloc", frame)
    for start in range(0, len(frame), BATCH):
        piece = rows[start : start + BATCH]
        names = columns.present(piece.columns)
        read = {str(name): _values_of_series(str(name), piece[name], columns) for name in names}
        yield Batch(columns.complete(read, len(piece)), encoding="UTF-8")


def _values_of_series(name: str, series: Any, columns: Columns) -> list[Any]:
    import pyarrow as pa

    array = None
    # polars gives Arrow the addresses of objects, and Arrow gives dates and timestamps one type.
    if str(series.dtype).lower() != "object":
        try:
            is_pandas = _package(type(series)) == "pandas"
            array = pa.array(series, from_pandas=True) if is_pandas else pa.chunked_array(series)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # Such as integers of 128 bits, which Arrow does not know.
            array = None
    if array is not None:
        return _values(name, array, columns)
    values = list(series)
    return texts_of(values) if name in columns.texts else values


def batches_of_arrow(batches: Iterable[pa.RecordBatch], columns: Columns) -> Iterator[Batch]:
    """
    Yield the columns of Arrow record batches, in batches of a bounded number of rows.

    :raises AssistantInputError: See :func:`batches_of_frame`.
    """
    checked_schema = None
    for batch in batches:
        if batch.schema is not checked_schema:
            columns.check(batch.schema.names)
            checked_schema = batch.schema
        selected = batch.select(columns.present(batch.schema.names))
        for start in range(0, batch.num_rows, BATCH):
            piece = selected.slice(start, BATCH)
            read = {name: _values(name, piece.column(name), columns) for name in piece.schema.names}
            yield Batch(columns.complete(read, piece.num_rows), encoding="UTF-8")


def _values(name: str, array: Any, columns: Columns) -> list[Any]:
    """
    Return the values of a column.

    :raises AssistantInputError: They are not text and are to be sent, they are stored in a way that
        Python does not know, or they are times that Python does not have.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = array.type
    if array.null_count == len(array):
        # Such a column may have any type.
        return [None] * len(array)
    if name in columns.texts and not _is_text(kind):
        raise _refused(name, f"is of type {kind}, but a document needs text", "Convert it first.")
    if name in columns.required and not _has_values(kind):
        todo = "Convert it to text or numbers first."
        raise _refused(name, f"is of type {kind}, whose values cannot be read", todo)
    try:
        if types.is_dictionary(kind):
            return _shared_values(name, array, columns)
        if types.is_temporal(kind) and getattr(kind, "unit", "") == "ns":
            array = _in_microseconds(array)
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        # Some writers store other encodings as text.
        octets = array.cast("large_binary").to_pylist()
        values = [value and value.decode(errors="surrogateescape") for value in octets]
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise _refused(
            name,
            f"is of type {kind}, and has a value that Python does not have: {error}",
            "Convert the column to text, or round it, first.",
        ) from error
    return values


def _shared_values(name: str, array: Any, columns: Columns) -> list[Any]:
    """Return the values of a dictionary array. Rows share them: a large text of many rows is in memory once."""
    if hasattr(array, "chunks"):
        array = array.unify_dictionaries().combine_chunks()
    used = array.indices.unique()
    # Views cannot be taken from.
    words = array.dictionary
    words = words.cast("large_string") if str(words.type) == "string_view" else words
    values = _values(name, words.take(used), columns)
    value_by_index = dict(zip(used.to_pylist(), values, strict=True))
    return [value_by_index[index] for index in array.indices.to_pylist()]


def _in_microseconds(array: Any) -> Any:
    """Return times as those of Python, which has no nanoseconds; timestamps of pandas keep them."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_timestamp(kind):
        try:
            return array.cast(pa.timestamp("us", kind.tz))
        except pa.ArrowInvalid:
            return array
    return array.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"))


def _refused(name: str, happened: str, todo: str) -> AssistantInputError:
    return AssistantInputError(f"source column {name} {happened}", todo=todo, field=name)


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    # An extension may be text as well, such as the type of JSON.
    kind = getattr(kind, "storage_type", kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _has_values(kind: pa.DataType) -> bool:
    """Return whether values of a type are those that people see: an extension may store others."""
    import pyarrow as pa

    if not isinstance(kind, pa.BaseExtensionType) or _is_text(kind):
        return True
    return kind.extension_name in {"arrow.uuid", "arrow.bool8"}
