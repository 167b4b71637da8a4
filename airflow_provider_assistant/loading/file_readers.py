"""Readers of Parquet, CSV and JSON lines files."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import lzma
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, Self

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
from airflow_provider_assistant.storage.paths import StoragePath

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
        options = cls(**{name: value for name, value in (given or {}).items() if value is not None})
        return cls("\t" if options.delimiter == "\\t" else options.delimiter, options.encoding, options.quote).checked()

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
    path: StoragePath, wanted: ColumnSelection, options: CsvOptions, row_groups: list[int] | None = None
) -> Iterator[Batch]:
    """
    Yield the wanted columns of a file.

    :param path: Path of the file. Its suffix determines the format; a second suffix may name a compression.
    :param row_groups: Row groups of a Parquet file to read. None reads all.
    :return: Batches of at most 1,000 rows.
    :raises AssistantInputError: The file cannot be read or lacks a required column.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in COMPRESSED]
    kind = SUFFIXES.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise AssistantInputError(
            f"{str(path)!r} does not have the suffix of a Parquet, CSV or JSON lines file ({', '.join(SUFFIXES)})",
            field="source",
        )
    with ExitStack() as stack:
        try:
            if kind == "parquet":
                yield from _parquet(stack, path, row_groups, wanted)
            elif kind == "csv":
                yield from _csv(stack, path, options, wanted)
            else:
                yield from _json_lines(stack, path, wanted)
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
            # pyarrow's errors are ValueErrors and OSErrors; the others come from decompression.
            raise _unreadable(path, error) from error


def _unreadable(path: StoragePath, why: object) -> AssistantInputError:
    return AssistantInputError(f"{str(path)!r} cannot be read: {why}", field="source")


def _parquet(
    stack: ExitStack, path: StoragePath, row_groups: list[int] | None, wanted: ColumnSelection
) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    opened = stack.enter_context(path.open("rb"))
    # The buffer makes pyarrow read a large row group page by page instead of at once.
    file = stack.enter_context(
        pq.ParquetFile(opened, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    )
    wanted.check(file.schema_arrow.names, repr(str(path)))
    columns = list(wanted.among(file.schema_arrow.names))
    batches = file.iter_batches(BATCH, row_groups=row_groups, columns=columns, use_threads=False)
    yield from batches_of_arrow(batches, wanted)


def _csv(stack: ExitStack, path: StoragePath, options: CsvOptions, wanted: ColumnSelection) -> Iterator[Batch]:
    is_utf8 = codecs.lookup(options.encoding).name == "utf-8"
    opened = stack.enter_context(_uncompressed(path))
    text = stack.enter_context(
        io.TextIOWrapper(
            opened, encoding="utf-8-sig" if is_utf8 else options.encoding, errors="surrogateescape", newline=""
        )
    )
    csv.field_size_limit(max(csv.field_size_limit(), CELL_LIMIT))
    reader = csv.reader(text, delimiter=options.delimiter, quotechar=options.quote, strict=True)
    rows = _csv_rows(path, reader)
    _, header, problem = next(rows, (0, [], ""))
    if problem or not header or _is_undecoded("".join(header)):
        raise _unreadable(path, f"its first line is not a list of column names in {options.encoding}; {_ADVICE}")
    wanted.check(header, repr(str(path)))
    positions = {name: header.index(name) for name in wanted.among(header)}
    while some := list(itertools.islice(rows, BATCH)):
        yield _csv_batch(path, some, len(header), positions, wanted, options)


_ADVICE = "if the file has another format, set csv_options (--delimiter, --encoding, --quote)"


def _csv_rows(path: StoragePath, reader: Any) -> Iterator[tuple[int, list[str], str]]:
    """Yield line number, cells and problem of every row; skip empty lines."""
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
    rows: Sequence[tuple[int, list[str], str]],
    width: int,
    positions: Mapping[str, int],
    wanted: ColumnSelection,
    options: CsvOptions,
) -> Batch:
    problems: dict[int, str] = {}
    whole: list[list[str]] = []
    for number, (_, cells, problem) in enumerate(rows):
        if problem or len(cells) != width:
            problems[number] = problem or f"has {len(cells)} cells, but the first line has {width}; {_ADVICE}"
        whole.append([""] * width if number in problems else cells)
    # Keep every column as text: a category "007" must not become 7.
    transposed = list(zip(*whole, strict=True))
    columns = {name: list(transposed[position]) for name, position in positions.items()}
    for name, values in columns.items():
        if _is_undecoded("".join(values)):
            bad = [number for number, value in enumerate(values) if _is_undecoded(value)]
            problems |= dict.fromkeys(bad, f"column {name!r} is not text in {options.encoding}; {_ADVICE}")
    lines = [line for line, _, _ in rows]
    return Batch(wanted.complete(columns, len(rows)), problems=problems, file=str(path), lines=lines)


def _is_undecoded(text: str) -> bool:
    """Return whether a text has bytes that could not be decoded (``surrogateescape``)."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _json_lines(stack: ExitStack, path: StoragePath, wanted: ColumnSelection) -> Iterator[Batch]:
    opened = stack.enter_context(_uncompressed(path))
    lines = ((number, line) for number, line in enumerate(_text_lines(stack, opened), start=1) if line.strip())
    present: dict[str, None] = {}
    while some := list(itertools.islice(lines, BATCH)):
        rows, problems = _parsed([line for _, line in some])
        if len(problems) == len(rows) and not present:
            raise _unreadable(path, f"line {some[0][0]} {problems[0]}")
        names = dict.fromkeys(name for row in rows for name in row)
        present |= names
        columns = columns_of_rows(rows, names, wanted)
        yield Batch(columns, problems=problems, file=str(path), lines=[number for number, _ in some])
    if present:
        # Check at the end: a field may be missing in the first lines and present in later ones.
        wanted.check(present, repr(str(path)))


def _text_lines(stack: ExitStack, opened: Any) -> Iterator[bytes | str]:
    """Return the lines of a file in UTF-8, or in the encoding that its byte order mark says."""
    buffered = stack.enter_context(io.BufferedReader(opened))
    mark, encoding = strict_json.encoding_of(buffered.peek(4))
    buffered.read(len(mark))
    if encoding == "utf-8":
        return iter(buffered)
    return stack.enter_context(io.TextIOWrapper(buffered, encoding=encoding, newline="\n"))


def _parsed(lines: Sequence[bytes | str]) -> tuple[list[Mapping[str, Any]], dict[int, str]]:
    rows: list[Mapping[str, Any]] = []
    problems: dict[int, str] = {}
    for position, line in enumerate(lines):
        row: Any = None
        try:
            row = strict_json.loads(line)
        except strict_json.LimitError as error:
            problems[position] = f"is JSON {error}"
        except ValueError as error:
            problems[position] = f"is not JSON: {error}"
        else:
            if not isinstance(row, dict):
                problems[position] = "must be a JSON object"
        rows.append(row if isinstance(row, dict) else {})
    return rows, problems


def _uncompressed(path: StoragePath) -> Any:
    import fsspec

    if isinstance(path, ObjectStoragePath):
        return path.open("rb", compression="infer")
    return fsspec.open(str(path), "rb", compression="infer").open()
