"""
Sources of rows: dataframes, lists of mappings, and files, read in batches.

A load reads its source twice: once for the preflight, once to send the rows. A source that can be read only once is
buffered in a temporary file. Neither pass keeps more than one batch in memory.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Self

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import Batch, ColumnSelection, is_rows, number
from airflow_provider_assistant.loading.csv_options import CsvOptions
from airflow_provider_assistant.loading.dataframes import batches_of, batches_of_parts
from airflow_provider_assistant.loading.file_readers import read_file
from airflow_provider_assistant.loading.table_folders import check_no_tables, partition_values
from airflow_provider_assistant.loading.untemplated import Untemplated, is_dataframe
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount
from airflow_provider_assistant.storage.allowed_root import check_inside
from airflow_provider_assistant.storage.paths import StoragePath, storage_path
from airflow_provider_assistant.storage.source_files import listed_paths, storage_files


class Source:
    """
    Provide rows that can be read repeatedly. Use it as a context manager.

    :param read: Function of an account that returns a new iterator over all batches, and counts what they leave out.
    :param close: Releases the resources of the source, such as a temporary file.
    :ivar account: What the last complete pass has read and left out.
    """

    def __init__(
        self, read: Callable[[SourceAccount], Iterator[Batch]], close: Callable[[], None] = lambda: None
    ) -> None:
        self._read = read
        self._close = close
        self.account = SourceAccount()

    def batches(self) -> Iterator[Batch]:
        """Yield all batches."""
        account = SourceAccount()
        yield from number(self._read(account))
        self.account = account

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def open_source(
    source: Any,
    wanted: ColumnSelection,
    allowed_root: str | None = None,
    *,
    csv_options: Mapping[str, Any] | CsvOptions | None = None,
    allow_empty: bool = False,
) -> Source:
    """
    Open a source for reading.

    :param source: One of:

        - a dataframe or any other object with the Arrow C stream interface (pandas, polars, pyarrow, DuckDB)
        - a list of mappings
        - a path, object storage URL, glob or folder of Parquet, CSV or JSON files, or a list of these
        - a mapping with ``path`` and ``row_groups``, see :func:`row_group_shards`
        - several dataframes or lists of mappings, such as the output of a mapped task
        - a callable that returns any of these, or yields batches of them
        - any of these wrapped in :class:`Untemplated`
    :param allowed_root: Folder that must contain all files after symbolic links are resolved. None allows every folder.
    :param allow_empty: Whether a folder or glob may match no files.
    :return: Close it with a ``with`` block.
    :raises AssistantInputError: The source is of another type or lacks a required column, or a file is outside
        ``allowed_root``.
    """
    options = CsvOptions.of(csv_options)
    if isinstance(source, Untemplated):
        source = source.value
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        source = source()
    source = _in_memory(source)
    if is_dataframe(source) or is_rows(source):
        return Source(lambda _account: batches_of(source, wanted))
    listing = SourceAccount()
    files = _files_of(source, allowed_root, allow_empty, listing)
    if files is not None:

        def read_files(account: SourceAccount) -> Iterator[Batch]:
            account.add(listing)
            return _batches_of_files(files, wanted, options, allowed_root, account)

        return Source(read_files)
    if hasattr(source, "__arrow_c_stream__"):
        return _buffered_source(batches_of(source, wanted))
    if isinstance(source, list | tuple) and all(is_dataframe(part) or _is_row_or_rows(part) for part in source):
        return Source(lambda _account: batches_of_parts(source, wanted))
    if isinstance(source, AccountedRows):
        return _buffered_source(batches_of_parts(source, wanted), source.account)
    if isinstance(source, Iterator):
        return _buffered_source(batches_of_parts(source, wanted))
    raise AssistantInputError(
        "source must be a dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, a path of Parquet, CSV "
        f"or JSON, several of these, or a callable that returns one of these, not {type(source).__name__}",
        field="source",
    )


def _in_memory(source: Any) -> Any:
    """
    Convert a lazy sequence, such as the XComs of a mapped task, to a list or an iterator.

    Rows and paths are small and fit into a list. Dataframes and lists of rows are fetched one after the other.
    """
    if not isinstance(source, Sequence) or isinstance(source, str | bytes | list | tuple):
        return source
    parts = iter(source)
    first_part = next(parts, None)
    if first_part is None or isinstance(first_part, Mapping):
        return list(source)
    # Each task of a mapped task may return several paths.
    first = next(iter(first_part), None) if isinstance(first_part, list | tuple) else first_part
    if isinstance(first, str | Path | ObjectStoragePath):
        return listed_paths(source)
    return itertools.chain([first_part], parts)


def _is_row_or_rows(part: Any) -> bool:
    return isinstance(part, Mapping) or (isinstance(part, list | tuple) and is_rows(part))


def row_group_shards(path: str, rows: int = 100_000) -> list[dict[str, Any]]:
    """
    Split Parquet files into shards of whole row groups, for ``.expand(source=…)``.

    :param path: Path, object storage URL, glob or folder.
    :param rows: Approximate number of rows per shard; row groups are never split. Default: 100,000.
    :return: One mapping per shard, with the keys ``path`` and ``row_groups``.
    :raises AssistantInputError: There are no files.
    """
    import pyarrow.parquet as pq

    shards: list[dict[str, Any]] = []
    for file, _row_groups in _files_of(path) or ():
        with file.open("rb") as opened_file:
            metadata = pq.ParquetFile(opened_file).metadata
        rows_in_shard = 0
        for group in range(metadata.num_row_groups):
            if rows_in_shard == 0:
                shards.append({"path": str(file), "row_groups": []})
            current_shard = shards[-1]
            current_shard["row_groups"].append(group)
            rows_in_shard += metadata.row_group(group).num_rows
            if rows_in_shard >= rows:
                # The shard is full: the next row group begins a new one.
                rows_in_shard = 0
    return shards


def _files_of(
    source: Any,
    allowed_root: str | None = None,
    allow_empty: bool = False,
    account: SourceAccount | None = None,
) -> list[tuple[StoragePath, list[int] | None]] | None:
    """Return pairs of file and row groups to read, or None if the source does not consist of files."""
    if isinstance(source, Mapping) and set(source) == {"path", "row_groups"}:
        path = storage_path(source["path"])
        check_inside(path, allowed_root)
        check_no_tables([path])
        return [(path, list(source["row_groups"]))]
    paths = source if isinstance(source, list | tuple) else [source]
    is_path_list = all(isinstance(path, str | Path | ObjectStoragePath) for path in paths)
    if not paths or not is_path_list:
        return None
    named_files = storage_files(source, allowed_root, allow_empty=allow_empty, account=account)
    files = [path for _name, path in named_files]
    check_no_tables(files)
    return [(path, None) for path in files]


def _batches_of_files(
    files: Sequence[tuple[StoragePath, list[int] | None]],
    wanted: ColumnSelection,
    options: CsvOptions,
    allowed_root: str | None,
    account: SourceAccount,
) -> Iterator[Batch]:
    for path, row_groups in files:
        values = partition_values(path, wanted.read)
        wanted_here = replace(wanted, partition=values)
        yield from read_file(path, wanted_here, options, account, row_groups, allowed_root)


def _buffered_source(batches: Iterator[Batch], source_account: SourceAccount | None = None) -> Source:
    """
    Buffer a source that can be read only once in a temporary file.

    :param source_account: Account of the source, complete after the last batch.
    """
    file: BinaryIO = tempfile.TemporaryFile(prefix="assistant-source-")  # noqa: SIM115
    try:
        for batch in batches:
            pickle.dump(batch, file, protocol=pickle.HIGHEST_PROTOCOL)
    except BaseException:
        file.close()
        raise

    def buffered_batches(account: SourceAccount) -> Iterator[Batch]:
        if source_account is not None:
            account.add(source_account)
        file.seek(0)
        # pickle.load() raises an EOFError at the end of the file.
        with contextlib.suppress(EOFError):
            while True:
                yield pickle.load(file)  # noqa: S301 (written above, to an unnamed file)

    return Source(buffered_batches, file.close)
