"""Readers of Parquet, CSV and JSON lines files."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import lzma
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import strict_json
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import (
    BATCH,
    Batch,
    ColumnSelection,
    batches_of_arrow,
    columns_of_rows,
)
from airflow_provider_assistant.source_account import ACCOUNT, SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import is_encodable

SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json lines", ".ndjson": "json lines"}
COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
# The longest CSV cell, in characters: a quote that is never closed would otherwise read the whole file into memory.
CELL_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class CsvOptions:
    r"""
    Describe the format of CSV files.

    :param delimiter: Character between cells; ``\t`` is a tab. Default: comma.
    :param encoding: Python name of the encoding, such as ``utf-8``, ``cp1252`` or ``utf-16``. Default: ``utf-8``.
    :param quote: Character around cells that contain the delimiter or a line break. Default: double quote.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    quote: str = '"'

    @classmethod
    def of(cls, given: Mapping[str, str] | CsvOptions | None) -> Self:
        """
        Build the options from a mapping, and validate them.

        :param given: Mapping with any of ``delimiter``, ``encoding`` and ``quote``; None for the defaults.
        :raises AssistantInputError: An option is unknown or its value is invalid.
        """
        if isinstance(given, cls):
            return given
        names = [field.name for field in fields(cls)]
        if given is not None and (not isinstance(given, Mapping) or set(given) - set(names)):
            raise AssistantInputError(
                f"csv_options must be a mapping with some of {', '.join(names)}, not {given!r}", field="csv_options"
            )
        given = given or {}
        # The command line passes None for an option that is not given.
        values = {name: value for name, value in given.items() if value is not None}
        if values.get("delimiter") == "\\t":
            values["delimiter"] = "\t"
        return cls(**values).checked()

    def checked(self) -> Self:
        """Validate the options and return them."""
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) != 1 or value in "\r\n":
                raise AssistantInputError(f"csv_options: {name} must be one character, not {value!r}", field=name)
        if self.delimiter == self.quote:
            raise AssistantInputError("csv_options: delimiter and quote must differ", field="quote")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise AssistantInputError(
                f"csv_options: Python has no encoding {self.encoding!r}", field="encoding"
            ) from None
        return self


def read_file(
    path: StoragePath,
    wanted: ColumnSelection,
    options: CsvOptions,
    account: SourceAccount,
    row_groups: list[int] | None = None,
) -> Iterator[Batch]:
    """
    Yield the wanted columns of a file.

    :param path: Path of the file. Its suffix determines the format; a second suffix may name a compression.
    :param account: Counts what is left out.
    :param row_groups: Row groups of a Parquet file to read. None reads all.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: The file cannot be read or lacks a required column.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in COMPRESSED]
    file_format = None
    if suffixes:
        file_format = SUFFIXES.get(suffixes[-1])
    if file_format is None:
        raise AssistantInputError(
            f"{str(path)!r} does not have the suffix of a Parquet, CSV or JSON lines file ({', '.join(SUFFIXES)})",
            field="source",
        )
    with ExitStack() as stack:
        try:
            if file_format == "parquet":
                yield from _read_parquet(stack, path, row_groups, wanted, account)
            elif file_format == "csv":
                yield from _read_csv(stack, path, options, wanted)
            else:
                yield from _read_json_lines(stack, path, wanted)
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
            # pyarrow's errors are ValueErrors and OSErrors; the others come from decompression.
            raise _unreadable(path, error) from error


def _unreadable(path: StoragePath, why: object) -> AssistantInputError:
    return AssistantInputError(f"{str(path)!r} cannot be read: {why}", field="source")


def _read_parquet(
    stack: ExitStack,
    path: StoragePath,
    row_groups: list[int] | None,
    wanted: ColumnSelection,
    account: SourceAccount,
) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    opened_file = stack.enter_context(path.open("rb"))
    # The buffer makes pyarrow read a large row group page by page instead of at once.
    parquet_file = stack.enter_context(
        pq.ParquetFile(opened_file, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    )
    metadata = parquet_file.metadata.metadata or {}
    # A file that write_documents() wrote. Of the tasks that read a part of it each, the first one counts.
    if ACCOUNT in metadata and (row_groups is None or 0 in row_groups):
        account.add(SourceAccount.from_dict(json.loads(metadata[ACCOUNT])))
    present_columns = parquet_file.schema_arrow.names
    wanted.check(present_columns, repr(str(path)))
    columns = list(wanted.among(present_columns))
    batches = parquet_file.iter_batches(BATCH, row_groups=row_groups, columns=columns, use_threads=False)
    yield from batches_of_arrow(batches, wanted)


def _read_csv(stack: ExitStack, path: StoragePath, options: CsvOptions, wanted: ColumnSelection) -> Iterator[Batch]:
    encoding = options.encoding
    if codecs.lookup(encoding).name == "utf-8":
        # Skips the byte order mark that Excel writes.
        encoding = "utf-8-sig"
    binary_file = stack.enter_context(_uncompressed(path))
    text_file = stack.enter_context(
        io.TextIOWrapper(binary_file, encoding=encoding, errors="surrogateescape", newline="")
    )
    csv.field_size_limit(max(csv.field_size_limit(), CELL_LIMIT))
    reader = csv.reader(text_file, delimiter=options.delimiter, quotechar=options.quote, strict=True)
    rows = _csv_rows(path, reader)
    no_row: _CsvRow = (0, [], "")
    _line, header, problem = next(rows, no_row)
    if problem or not header or not is_encodable("".join(header)):
        raise _unreadable(path, f"its first line is not a list of column names in {options.encoding}; {_ADVICE}")
    wanted.check(header, repr(str(path)))
    index_by_column = {name: header.index(name) for name in wanted.among(header)}
    while batch_rows := list(itertools.islice(rows, BATCH)):
        yield _csv_batch(path, batch_rows, len(header), index_by_column, wanted, options)


_ADVICE = "if the file has another format, set csv_options (--delimiter, --encoding, --quote)"


# Number of the row's first line in the file, from 1; its cells; and why it cannot be read, empty if it can. A plain
# tuple, because there is one per row of a load.
_CsvRow: TypeAlias = "tuple[int, list[str], str]"


def _csv_rows(path: StoragePath, reader: Any) -> Iterator[_CsvRow]:
    """Yield every row; skip empty lines."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field larger" in str(error) or "unexpected end" in str(error):
                raise _unreadable(
                    path, f"line {line}: a quote is opened and not closed, or a cell is too large ({error}); {_ADVICE}"
                ) from error
            yield line, [], f"cannot be read: {error}"
        else:
            if cells:
                yield line, cells, ""


def _csv_batch(
    path: StoragePath,
    rows: Sequence[_CsvRow],
    width: int,
    index_by_column: Mapping[str, int],
    wanted: ColumnSelection,
    options: CsvOptions,
) -> Batch:
    empty_row = [""] * width
    problems: dict[int, str] = {}
    lines: list[int] = []
    cells_by_row: list[list[str]] = []
    for position, (line, cells, problem) in enumerate(rows):
        lines.append(line)
        if problem:
            problems[position] = problem
            cells_by_row.append(empty_row)
        elif len(cells) != width:
            problems[position] = f"has {len(cells)} cells, but the first line has {width}; {_ADVICE}"
            cells_by_row.append(empty_row)
        else:
            cells_by_row.append(cells)
    # Keep every column as text: a category "007" must not become 7.
    cells_by_column = list(zip(*cells_by_row, strict=True))
    columns = {name: list(cells_by_column[index]) for name, index in index_by_column.items()}
    return Batch(
        wanted.complete(columns, len(rows)),
        problems=problems,
        # Bytes that cannot be decoded become surrogates (``surrogateescape``).
        bad_text=f"is not text in {options.encoding}; {_ADVICE}",
        file=str(path),
        lines=lines,
    )


def _read_json_lines(stack: ExitStack, path: StoragePath, wanted: ColumnSelection) -> Iterator[Batch]:
    binary_file = stack.enter_context(_uncompressed(path))
    numbered_lines = enumerate(_text_lines(stack, binary_file), start=1)
    filled_lines = ((number, line) for number, line in numbered_lines if line.strip())
    # The names of all fields so far, in their order.
    present_names: dict[str, None] = {}
    while batch_lines := list(itertools.islice(filled_lines, BATCH)):
        line_numbers = [number for number, _ in batch_lines]
        rows, problems = _parsed([line for _, line in batch_lines])
        is_all_bad = len(problems) == len(rows)
        if is_all_bad and not present_names:
            raise _unreadable(path, f"line {line_numbers[0]} {problems[0]}")
        batch_names = dict.fromkeys(itertools.chain.from_iterable(rows))
        present_names |= batch_names
        columns = columns_of_rows(rows, batch_names, wanted)
        yield Batch(columns, problems=problems, file=str(path), lines=line_numbers)
    if present_names:
        # Check at the end: a field may be missing in the first lines and present in later ones.
        wanted.check(present_names, repr(str(path)))


def _text_lines(stack: ExitStack, binary_file: Any) -> Iterator[bytes | str]:
    """Return the lines of a file in UTF-8, or in the encoding that its byte order mark says."""
    buffered = stack.enter_context(io.BufferedReader(binary_file))
    mark, encoding = strict_json.encoding_of(buffered.peek(4))
    # Skip the mark, which peek() has not consumed.
    buffered.read(len(mark))
    if encoding == "utf-8":
        return iter(buffered)
    return stack.enter_context(io.TextIOWrapper(buffered, encoding=encoding, newline="\n"))


def _parsed(lines: Sequence[bytes | str]) -> tuple[list[Mapping[str, Any]], dict[int, str]]:
    """Return the row of each line, empty if the line is bad, and the problems by position from 0."""
    rows: list[Mapping[str, Any]] = []
    problems: dict[int, str] = {}
    for position, line in enumerate(lines):
        row: dict[str, Any] = {}
        try:
            # A text that cannot be decoded is a bad cell: the row keeps its key.
            value = strict_json.loads(line, errors="surrogateescape")
        except strict_json.LimitError as error:
            problems[position] = f"is JSON {error}"
        except ValueError as error:
            problems[position] = f"is not JSON: {error}"
        else:
            if isinstance(value, dict):
                row = value
            else:
                problems[position] = "must be a JSON object"
        rows.append(row)
    return rows, problems


def _uncompressed(path: StoragePath) -> Any:
    """Open a file that may be compressed; its suffix says how."""
    import fsspec

    if isinstance(path, ObjectStoragePath):
        return path.open("rb", compression="infer")
    return fsspec.open(str(path), "rb", compression="infer").open()
