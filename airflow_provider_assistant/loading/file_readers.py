"""Read files of rows: Parquet, CSV and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import BATCH, Batch, ColumnSelection
from airflow_provider_assistant.loading.csv_files import read_csv
from airflow_provider_assistant.loading.csv_options import CsvOptions
from airflow_provider_assistant.loading.dataframes import batches_of_arrow
from airflow_provider_assistant.loading.json_files import read_json
from airflow_provider_assistant.loading.options import FORMATS
from airflow_provider_assistant.loading.text_files import COMPRESSED, ROW_LIMIT
from airflow_provider_assistant.source_account import ACCOUNT, SourceAccount
from airflow_provider_assistant.storage.allowed_root import open_inside
from airflow_provider_assistant.storage.paths import StoragePath, reading
from airflow_provider_assistant.texts import counted

# Bytes of a column of a row group, or of its average value, that are too many for values that people or programs wrote.
LARGEST_COLUMN = 256 << 20
LARGEST_AVERAGE = 64 << 10
# Bytes of a batch of rows.
BATCH_BYTES = 32 << 20

SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
}
# Functions of other libraries that read other formats.
_EXCEL = "pandas.read_excel(path, dtype=str, keep_default_na=False)"
OTHER_READERS = {
    ".xlsx": _EXCEL,
    ".xlsm": _EXCEL,
    ".xlsb": _EXCEL,
    ".xls": _EXCEL,
    ".ods": _EXCEL,
    ".feather": "pyarrow.feather.read_table(path)",
    ".arrow": "pyarrow.feather.read_table(path)",
    ".orc": "pyarrow.orc.read_table(path)",
    ".avro": "polars.read_avro(path)",
    ".xml": "pandas.read_xml(path, dtype=str)",
}


def read_file(
    path: StoragePath,
    wanted: ColumnSelection,
    options: CsvOptions,
    account: SourceAccount,
    row_groups: list[int] | None = None,
    allowed_root: str | None = None,
) -> Iterator[Batch]:
    """
    Yield the wanted columns of a file.

    :param path: Path of the file. Its suffix determines the format; a second suffix may name a compression.
    :param account: Counts what is left out.
    :param row_groups: Row groups of a Parquet file to read. None reads all.
    :param allowed_root: Folder that the file must be inside. None allows every folder.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: The file cannot be read, is outside ``allowed_root`` or lacks a required column.
    """
    file_format = options.format or _format_of(path)
    with reading(path), ExitStack() as stack:
        file = stack.enter_context(open_inside(path, allowed_root))
        if file_format == "parquet":
            yield from _read_parquet(stack, file, path, row_groups, wanted, account)
        elif file_format in {"csv", "tsv"}:
            default_delimiter = "\t" if file_format == "tsv" else ","
            csv_options = dataclasses.replace(options, delimiter=options.delimiter or default_delimiter)
            yield from read_csv(stack, file, path, csv_options, wanted, account)
        else:
            has_lines = file_format == "json lines"
            yield from read_json(stack, file, path, options.encoding, wanted, account, has_lines=has_lines)


def _format_of(path: StoragePath) -> str:
    """
    Return the format that the suffix of a file says.

    :raises AssistantInputError: It does not say one that can be read.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if suffix in OTHER_READERS:
        line = f"source=lambda: {OTHER_READERS[suffix].replace('path', repr(str(path)))}"
        todo = f"Let a library read it: {line}."
    else:
        todo = f"Say what it is with csv_options={{'format': …}} (--format): {', '.join(FORMATS)}."
    raise AssistantInputError(
        f"{str(path)!r} does not have the suffix of a Parquet, CSV or JSON file ({', '.join(SUFFIXES)})",
        todo=todo,
        field="source",
    )


def _read_parquet(
    stack: ExitStack,
    file: BinaryIO,
    path: StoragePath,
    row_groups: list[int] | None,
    wanted: ColumnSelection,
    account: SourceAccount,
) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    # The buffer makes pyarrow read a large row group page by page instead of at once.
    parquet_file = stack.enter_context(
        pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    )
    metadata = parquet_file.metadata.metadata or {}
    # A file that write_documents() wrote. Of the tasks that read a part of it each, the first one counts.
    if ACCOUNT in metadata and (row_groups is None or 0 in row_groups):
        account.add(SourceAccount.from_dict(json.loads(metadata[ACCOUNT])))
    present_columns = parquet_file.schema_arrow.names
    wanted.check(present_columns, repr(str(path)))
    columns = list(wanted.among(present_columns))
    groups = list(range(parquet_file.num_row_groups)) if row_groups is None else row_groups
    batch_size = _batch_size(file, parquet_file.metadata, groups, columns)
    batches = parquet_file.iter_batches(batch_size, row_groups=groups, columns=columns, use_threads=False)
    yield from batches_of_arrow(batches, wanted)


def _batch_size(file: Any, metadata: Any, row_groups: list[int], columns: Sequence[str]) -> int:
    """
    Return how many rows of a Parquet file to read at once.

    :raises ValueError: A column of a row group, or a value that rows share, is too large.
    """
    batch_size = BATCH
    # A group that does not exist is an error of the reader.
    for number in set(row_groups).intersection(range(metadata.num_row_groups)):
        group = metadata.row_group(number)
        size = 0
        shared: list[str] = []
        for position in range(group.num_columns):
            chunk = group.column(position)
            name = chunk.path_in_schema
            if name not in columns and name.partition(".")[0] not in columns:
                continue
            largest = max(LARGEST_COLUMN, LARGEST_AVERAGE * group.num_rows)
            if chunk.total_uncompressed_size > largest:
                raise ValueError(
                    f"column {name!r} of row group {number} has {chunk.total_uncompressed_size:,} bytes in "
                    f"{counted(group.num_rows, 'row')}, more than {largest:,}"
                )
            size += chunk.total_uncompressed_size
            if chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY":
                shared.append(name)
        longest_shared = _longest_shared_value(file, metadata, number, shared)
        if longest_shared > ROW_LIMIT:
            raise ValueError(f"row group {number} has a value of {longest_shared:,} bytes, more than {ROW_LIMIT:,}")
        row_size = max(size // max(group.num_rows, 1), longest_shared, 1)
        batch_size = min(batch_size, BATCH_BYTES // row_size)
    return max(batch_size, 1)


def _longest_shared_value(file: Any, metadata: Any, row_group: int, columns: list[str]) -> int:
    """
    Return the bytes of the longest value in the dictionaries of a row group.

    A dictionary has each value once, so a batch may be much larger than the row group in the file.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    # The first row has the dictionaries of all rows.
    parquet_file = pq.ParquetFile(file, metadata=metadata, read_dictionary=columns, pre_buffer=False)
    longest = 0
    for batch in parquet_file.iter_batches(1, row_groups=[row_group], columns=columns, use_threads=False):
        for column in batch.columns:
            if hasattr(column, "dictionary") and len(column.dictionary):
                longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
        break
    return longest
