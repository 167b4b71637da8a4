"""Read files of rows: Parquet, CSV and JSON, also in folders of Hive partitions."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO
from urllib.parse import unquote

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.source_account import ACCOUNT, SourceAccount
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import StoragePath, open_inside, reading, usable_path
from airflow_provider_assistant.tables.batches import BATCH, Columns, Part
from airflow_provider_assistant.tables.csv_files import CsvOptions, read_csv
from airflow_provider_assistant.tables.frames import batches_of_arrow
from airflow_provider_assistant.tables.json_files import read_json
from airflow_provider_assistant.tables.text import COMPRESSIONS
from airflow_provider_assistant.texts import counted

# Bytes of a batch of rows.
BATCH_BYTES = 32 << 20
# Bytes of a column of a row group, or of its average value, that no people or programs write.
LARGEST_COLUMN = 256 << 20
LARGEST_AVERAGE = 64 << 10
# Bytes of a column of a row group up to which its texts are shared: writers keep dictionaries of about 1 MB.
LARGEST_DICTIONARY = 8 << 20

FORMATS = {
    ".parquet": "parquet",
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
}
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

# Name of the partition of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# What the folder of a table has, and the line that reads the table.
_TABLES = {
    "Delta": ("_delta_log", "deltalake.DeltaTable({0!r}).to_pyarrow_table()"),
    "Hudi": (
        ".hoodie",
        "pyarrow.Table.from_batches(hudi.HudiTableBuilder.from_base_uri({0!r}).build().read_snapshot())",
    ),
    "Iceberg": (
        "metadata/[v0-9]*.metadata.json",
        "pyiceberg.table.StaticTable.from_metadata({1!r}).scan().to_arrow()",
    ),
}


def read_files(
    paths: Sequence[Any], columns: Columns, options: CsvOptions, allowed_root: str | None, *, allow_empty: bool
) -> Iterator[Part]:
    """
    Yield the columns of files.

    :param paths: Paths, object storage URLs, globs and folders.
    :param allowed_root: Folder that must contain all files. None allows every folder.
    :param allow_empty: Whether a folder or glob may match no files.
    :raises AssistantInputError: A file cannot be read, is outside ``allowed_root``, lacks a required
        column, or belongs to a table that only its own library reads.
    """
    account = SourceAccount()
    files = storage_files(paths, allowed_root, allow_empty=allow_empty, account=account)
    yield from account.notes()
    _check_no_tables([path for _name, path in files])
    given = {str(usable_path(path)) for path in paths}
    for name, path in files:
        # Folders above what the user gave have no meaning.
        folders = [] if str(path) in given else name.split("/")[:-1]
        here = replace(columns, known=_partition_values(folders, columns))
        file_format = _format_of(path)
        with reading(path), ExitStack() as stack:
            file = stack.enter_context(open_inside(path, allowed_root))
            if file_format == "parquet":
                yield from _read_parquet(stack, file, path, here)
            elif file_format == "csv":
                yield from read_csv(stack, file, path, options, here)
            else:
                yield from read_json(stack, file, path, options.encoding, here)


def _format_of(path: StoragePath) -> str:
    """Return the format that the suffix of a file says, regardless of case."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSIONS]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in FORMATS:
        return FORMATS[suffix]
    reader = "read_excel" if suffix in _WORKBOOKS else "read_csv"
    raise AssistantInputError(
        f"{str(path)!r} does not have the suffix of a Parquet, CSV or JSON file ({', '.join(FORMATS)})",
        todo="Rename it, or let a library read it: "
        f"source=lambda: pandas.{reader}({str(path)!r}, dtype=str, keep_default_na=False).",
        field="source",
    )


def _read_parquet(stack: ExitStack, file: BinaryIO, path: StoragePath, columns: Columns) -> Iterator[Part]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    custom = metadata.metadata or {}
    # A file that write_documents() wrote.
    if ACCOUNT in custom:
        yield from SourceAccount.from_dict(json.loads(custom[ACCOUNT])).notes()
    schema = metadata.schema.to_arrow_schema()
    columns.check(schema.names, repr(str(path)))
    names = columns.present(schema.names)
    texts = {name for name in names if pa.types.is_string(schema.field(name).type)}
    sizes = [_row_size(metadata.row_group(number), names) for number in range(metadata.num_row_groups)]
    parquet_file = stack.enter_context(
        pq.ParquetFile(
            file,
            metadata=metadata,
            # A text that many rows share is in the file, and in memory, once. pyarrow keeps all texts of such a column
            # until the end of the row group.
            read_dictionary=sorted(texts - _large_columns(metadata)),
            # With this buffer, pyarrow reads a large row group page by page instead of at once.
            buffer_size=1 << 20,
            pre_buffer=False,
            page_checksum_verification=True,
        )
    )
    batch_size = min(BATCH, max(BATCH_BYTES // max(sizes, default=1), 1))
    yield from batches_of_arrow(parquet_file.iter_batches(batch_size, columns=names, use_threads=False), columns)


def _large_columns(metadata: Any) -> set[str]:
    """Return the columns whose texts differ too much for a dictionary."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return {chunk.path_in_schema for chunk in chunks if chunk.total_uncompressed_size > LARGEST_DICTIONARY}


def _row_size(group: Any, names: Sequence[str]) -> int:
    """
    Return the average bytes of a row of a row group, at least 1.

    :raises ValueError: A column is too large.
    """
    chunks = [group.column(position) for position in range(group.num_columns)]
    read = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in names]
    sizes: list[int] = [chunk.total_uncompressed_size for chunk in read]
    if max(sizes, default=0) > max(LARGEST_COLUMN, LARGEST_AVERAGE * group.num_rows):
        raise ValueError(f"a column of a row group has {max(sizes):,} bytes in {counted(group.num_rows, 'row')}")
    return int(max(sum(sizes) // max(group.num_rows, 1), 1))


def _partition_values(folders: Iterable[str], columns: Columns) -> dict[str, str | None]:
    """
    Return the values of columns that folders name, as in ``category=returns/part-0.parquet``.

    Other folders with an equals sign have no meaning.
    """
    values: dict[str, str | None] = {}
    for folder in folders:
        encoded_name, equals, value = folder.partition("=")
        name = unquote(encoded_name)
        if equals and name in columns.names:
            values[name] = None if value == _NO_VALUE else unquote(value)
    return values


def _check_no_tables(files: Iterable[StoragePath]) -> None:
    """
    Refuse the Parquet files of a Delta, Hudi or Iceberg table: they also have rows that were deleted.

    :raises AssistantInputError: There is such a file. The message has the line that reads the table.
    """
    folders = {str(folder): folder for file in files if file.suffix.lower() == ".parquet" for folder in file.parents}
    for folder in folders.values():
        # A partition is below the folder of its table.
        table = None if "=" in folder.name else _table_in(folder)
        if table:
            kind, line = table
            raise AssistantInputError(
                f"{str(folder)!r} is a {kind} table: its files also have rows that were deleted or replaced",
                safe=NOTHING_SENT,
                todo=f"Read it with its library: source=lambda: {line}. For the command line, write the result to a "
                "Parquet file.",
                field="source",
            )


def _table_in(folder: StoragePath) -> tuple[str, str] | None:
    """Return the kind of a table in a folder, and the line that reads it."""
    # Folders above the source may be closed.
    with contextlib.suppress(OSError):
        for kind, (mark, line) in _TABLES.items():
            # v10 follows v9.
            found = sorted(map(str, folder.glob(mark)), key=lambda path: (len(path), path))
            if found:
                # Only Airflow knows the connection in a URL.
                table, newest = (re.sub(r"://[^/@]*@", "://", path) for path in (str(folder), found[-1]))
                return kind, line.format(table, newest)
    return None
