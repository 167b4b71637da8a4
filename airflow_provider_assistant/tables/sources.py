"""Read the rows of any source once, as a stream of batches and notes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.source_account import AccountedRows
from airflow_provider_assistant.storage.listing import listed_paths
from airflow_provider_assistant.tables.batches import Columns, Part, batches_of_mappings, numbered
from airflow_provider_assistant.tables.csv_files import CsvOptions
from airflow_provider_assistant.tables.files import read_files
from airflow_provider_assistant.tables.frames import batches_of_frame, is_frame
from airflow_provider_assistant.tables.untemplated import Untemplated


def read_rows(
    source: Any,
    columns: Columns,
    *,
    csv_options: Mapping[str, Any] | None = None,
    allowed_root: str | None = None,
    allow_empty: bool = False,
) -> Iterator[Part]:
    """
    Yield the rows of a source, once, and notes about what it left out. Nothing is read before that.

    :param source: One of:

        - a dataframe or any other object with the Arrow C stream interface (pandas, polars, pyarrow,
          DuckDB)
        - a list of mappings
        - a path, object storage URL, glob or folder of Parquet, CSV or JSON files
        - a list, a generator or any other sequence of these, such as the output of a mapped task
        - a callable that returns any of these
    :param columns: The columns to read.
    :param csv_options: Format of text files, see
        :class:`~airflow_provider_assistant.tables.csv_files.CsvOptions`.
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. None
        allows every folder.
    :param allow_empty: Whether a folder or glob may match no files.
    :return: Batches of at most 1,000 rows, in the order of the source.
    :raises AssistantInputError: The source is of another type, cannot be read, or lacks a required
        column.
    """
    read_paths = partial(
        read_files,
        columns=columns,
        options=CsvOptions.of(csv_options),
        allowed_root=allowed_root,
        allow_empty=allow_empty,
    )
    if isinstance(source, Untemplated):
        source = source.value
    if callable(source) and not is_frame(source):
        source = source()
    if isinstance(source, Mapping):
        raise _refused(source)
    yield from numbered(_read(source, columns, read_paths))


def _read(source: Any, columns: Columns, read_paths: Callable[[list[Any]], Iterator[Part]]) -> Iterator[Part]:
    """
    Yield the rows of a source, or of a part of one.

    Of several parts, consecutive mappings are read together, and so are consecutive paths.
    """
    if is_frame(source):
        yield from batches_of_frame(source, columns)
    elif _is_path(source):
        yield from read_paths([source])
    elif isinstance(source, Iterator | Sequence) and not isinstance(source, bytes):
        for kind, parts in itertools.groupby(source, key=_kind_of):
            if kind == "rows":
                yield from batches_of_mappings(parts, columns)
            elif kind == "paths":
                yield from read_paths(listed_paths(list(parts)))
            else:
                for part in parts:
                    yield from _read(part, columns, read_paths)
        if isinstance(source, AccountedRows):
            # Complete after the last row.
            yield from source.account.notes()
    else:
        raise _refused(source)


def _kind_of(part: Any) -> str:
    if isinstance(part, Mapping):
        return "rows"
    # A task of a mapped task may return several paths.
    is_list = isinstance(part, list | tuple) and bool(part) and all(map(_is_path, part))
    return "paths" if is_list or _is_path(part) else "other"


def _is_path(source: Any) -> bool:
    return isinstance(source, str | Path | ObjectStoragePath)


def _refused(source: Any) -> AssistantInputError:
    return AssistantInputError(
        "source must be a dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, a path of "
        "Parquet, CSV or JSON, several of these, or a callable that returns one of these, not "
        f"{type(source).__name__}",
        field="source",
    )
