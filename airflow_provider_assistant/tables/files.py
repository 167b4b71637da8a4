"""Read files of rows: Parquet, CSV and JSON, also in folders of Hive partitions."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO
from urllib.parse import unquote

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.source_account import ACCOUNT, SourceAccount
from airflow_provider_assistant.storage.allowed_root import open_inside
from airflow_provider_assistant.storage.paths import StoragePath, reading, usable_path
from airflow_provider_assistant.storage.source_files import storage_files
from airflow_provider_assistant.tables.batches import BATCH, Columns, Part, notes_of
from airflow_provider_assistant.tables.csv_files import CsvOptions, read_csv
from airflow_provider_assistant.tables.frames import BATCH_BYTES, batches_of_arrow
from airflow_provider_assistant.tables.json_files import read_json
from airflow_provider_assistant.tables.text import COMPRESSIONS
from airflow_provider_assistant.texts import counted

# Bytes of a column of a row group, or of its average value, that no people or programs write.
LARGEST_COLUMN = 256 << 20
LARGEST_AVERAGE = 64 << 10

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
}
_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

# Name of the partition of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# Such as v9.metadata.json and 00009-<UUID>.gz.metadata.json.
_ICEBERG_VERSION = re.compile(r"(v\d+|\d{5,}-[0-9a-f-]{36})(\.\w+)?\.metadata\.json")


def read_files(
    paths: Sequence[Any],
    columns: Columns,
    options: CsvOptions,
    allowed_root: str | None,
    *,
    allow_empty: bool,
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
    yield from notes_of(account)
    _check_no_tables([path for _name, path in files])
    given = {str(usable_path(path)) for path in paths}
    for name, path in files:
        # Folders above what the user gave have no meaning.
        folders = [] if str(path) in given else name.split("/")[:-1]
        values = _partition_values(folders, columns.names)
        yield from _read_file(path, columns, options, allowed_root, values)


def _read_file(
    path: StoragePath,
    columns: Columns,
    options: CsvOptions,
    allowed_root: str | None,
    values: Mapping[str, str | None],
) -> Iterator[Part]:
    file_format = _format_of(path)
    with reading(path), ExitStack() as stack:
        file = stack.enter_context(open_inside(path, allowed_root))
        if file_format == "parquet":
            yield from _read_parquet(stack, file, path, columns, values)
        elif file_format == "csv":
            yield from read_csv(stack, file, path, options, columns, values)
        else:
            has_lines = file_format == "json lines"
            yield from read_json(stack, file, path, options.encoding, columns, values, has_lines=has_lines)


def _format_of(path: StoragePath) -> str:
    """Return the format that the suffix of a file says, regardless of case."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    known = [suffix for suffix in suffixes if suffix not in COMPRESSIONS]
    suffix = known[-1] if known else ""
    if suffix in FORMATS:
        return FORMATS[suffix]
    reader = f"pandas.read_csv({str(path)!r}, sep=',', dtype=str, keep_default_na=False)"
    if suffix in _WORKBOOKS:
        reader = f"pandas.read_excel({str(path)!r}, dtype=str, keep_default_na=False)"
    raise AssistantInputError(
        f"{str(path)!r} does not have the suffix of a Parquet, CSV or JSON file ({', '.join(FORMATS)})",
        todo=f"Rename it, or let a library read it: source=lambda: {reader}.",
        field="source",
    )


def _read_parquet(
    stack: ExitStack,
    file: BinaryIO,
    path: StoragePath,
    columns: Columns,
    values: Mapping[str, str | None],
) -> Iterator[Part]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    custom = metadata.metadata or {}
    # A file that write_documents() wrote.
    if ACCOUNT in custom:
        yield from notes_of(SourceAccount.from_dict(json.loads(custom[ACCOUNT])))
    schema = metadata.schema.to_arrow_schema()
    columns.check(schema.names, repr(str(path)), values)
    names = columns.present(schema.names)
    # A text that is in many rows stays one value until its rows are read.
    texts = [name for name in names if pa.types.is_string(schema.field(name).type)]
    parquet_file = pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=texts,
        # pyarrow reads a large row group page by page instead of at once.
        buffer_size=1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
    )
    stack.enter_context(parquet_file)
    batches = parquet_file.iter_batches(_batch_size(metadata, names), columns=names, use_threads=False)
    yield from batches_of_arrow(batches, columns, values)


def _batch_size(metadata: Any, names: Iterable[str]) -> int:
    """
    Return how many rows of a Parquet file to read at once.

    :raises ValueError: A column of a row group is too large.
    """
    batch_size = BATCH
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size = 0
        for position in range(group.num_columns):
            chunk = group.column(position)
            if chunk.path_in_schema.partition(".")[0] not in names:
                continue
            largest = max(LARGEST_COLUMN, LARGEST_AVERAGE * group.num_rows)
            if chunk.total_uncompressed_size > largest:
                raise ValueError(
                    f"column {chunk.path_in_schema!r} of row group {number} has "
                    f"{chunk.total_uncompressed_size:,} bytes in {counted(group.num_rows, 'row')}, "
                    f"more than {largest:,}"
                )
            size += chunk.total_uncompressed_size
        row_size = max(size // max(group.num_rows, 1), 1)
        batch_size = min(batch_size, BATCH_BYTES // row_size)
    return max(batch_size, 1)


def _partition_values(folders: Iterable[str], names: Sequence[str]) -> dict[str, str | None]:
    """
    Return the values of columns that folders name, as in ``category=returns/part-0.parquet``.

    :param names: The columns to look for. Other folders with an equals sign have no meaning.
    :return: Values by column; None for the partition of rows without a value.
    """
    values: dict[str, str | None] = {}
    for folder in folders:
        encoded_name, equals, value = folder.partition("=")
        name = unquote(encoded_name)
        if equals and name in names:
            values[name] = None if value == _NO_VALUE else unquote(value)
    return values


def _check_no_tables(files: Iterable[StoragePath]) -> None:
    """
    Refuse the Parquet files of a Delta, Hudi or Iceberg table: they also have rows that were deleted.

    :raises AssistantInputError: There is such a file. The message has the line that reads the table.
    """
    checked: set[str] = set()
    for file in files:
        if file.suffix.lower() != ".parquet":
            continue
        for folder in file.parents:
            if str(folder) in checked:
                break
            checked.add(str(folder))
            # A partition is below the folder of its table.
            found = None if "=" in folder.name else _table_in(folder)
            if found:
                kind, library, line = found
                raise AssistantInputError(
                    f"{str(folder)!r} is a {kind} table: its files also have rows that were deleted or replaced",
                    safe=NOTHING_SENT,
                    todo=f"Read it with its library (pip install {library}): source=lambda: {line}. For "
                    "the command line, write the result to a Parquet file.",
                    field="source",
                )


def _table_in(folder: StoragePath) -> tuple[str, str, str] | None:
    """Return the kind of a table in a folder, its library, and the line that reads it."""
    # Only Airflow knows the connection in a URL.
    plain = re.sub(r"://[^/@]*@", "://", str(folder))
    # Folders above the source may be closed.
    with contextlib.suppress(OSError):
        if (folder / "_delta_log").is_dir():
            return "Delta", "deltalake", f"deltalake.DeltaTable({plain!r}).to_pyarrow_table()"
        if (folder / ".hoodie").is_dir():
            reader = f"hudi.HudiTableBuilder.from_base_uri({plain!r}).build()"
            return "Hudi", "hudi", f"pyarrow.Table.from_batches({reader}.read_snapshot())"
        metadata = folder / "metadata"
        names = [entry.name for entry in metadata.iterdir()] if metadata.is_dir() else []
        versions = [name for name in names if _ICEBERG_VERSION.fullmatch(name)]
        if versions:
            # v10 follows v9.
            newest = max(versions, key=lambda name: (len(name), name))
            table = f"pyiceberg.table.StaticTable.from_metadata({f'{plain}/metadata/{newest}'!r})"
            return "Iceberg", "pyiceberg", f"{table}.scan().to_arrow()"
    return None
