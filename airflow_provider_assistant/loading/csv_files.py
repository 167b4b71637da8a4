"""Read CSV files."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TextIO, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.columns import BATCH, Batch, ColumnSelection
from airflow_provider_assistant.loading.csv_options import CsvOptions
from airflow_provider_assistant.loading.csv_quotes import Neighbours, Quoting, doubt_about_row, embedded_rows
from airflow_provider_assistant.loading.text_files import (
    BATCH_CHARACTERS,
    ROW_LIMIT,
    bounded_lines,
    open_text,
    too_long,
)
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.texts import is_encodable

# No table that people or programs write has more.
MOST_COLUMNS = 10_000
ADVICE = "if the file has another format, set csv_options (--delimiter, --encoding, --quote, …)"
QUOTE_ADVICE = (
    "where it ends is not certain, nor where later rows do. Double each quote inside of a cell, or set csv_options: "
    "escape (--escape) if quotes are escaped, quote='' (--quote '') if cells have no quotes around them, "
    "skip_blanks_after_delimiter (--skip-blanks) if blanks precede them"
)
# The first line of some files of spreadsheets says the delimiter.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
# Delimiters that files without a comma have.
_OTHER_DELIMITERS = ";\t|,\x01\x1f^~"
# Characters that no text has. Python's reader takes only one character as the delimiter, and it would read \N as N if
# the backslash escapes.
_ONE_DELIMITER, _NULL = "\ufdd0", "\ufdd1"
# What a blank row may have besides white space: the end mark of old files, and a byte order mark.
_NO_TEXT = " \t\x1a\ufeff"

Cells: TypeAlias = "list[str]"


def read_csv(
    stack: ExitStack,
    file: BinaryIO,
    path: StoragePath,
    options: CsvOptions,
    wanted: ColumnSelection,
    account: SourceAccount,
) -> Iterator[Batch]:
    """
    Yield the wanted columns of a CSV file.

    :param stack: Closes what is opened.
    :param file: The opened file.
    :param options: With the delimiter of the file.
    :param account: Counts the rows that are left out.
    :raises ValueError: The file cannot be read, or it is not certain where a row ends.
    """
    reader = _Reader(path, open_text(stack, file, path, options.encoding), options)
    first_block = reader.first_row()
    if not first_block.rows:
        account.leave_out("file", "is empty", str(path), is_expected=False)
        return
    first_row = first_block.rows[0]
    if options.header is True:
        header = _without_blank_end(first_row)
        reader.check_header(header)
    elif options.header is False:
        header = [str(number) for number in range(1, len(first_row) + 1)]
    else:
        header = list(options.header)
    _check_columns(header, wanted, reader)
    if options.header is not True:
        yield reader.batch(first_block, header, wanted, account)
    while (block := reader.read(BATCH)).rows:
        yield reader.batch(block, header, wanted, account)


@dataclass(frozen=True, slots=True)
class _Block:
    """
    Hold consecutive rows of a file.

    :param rows: The cells of each row; an empty line has none.
    :param file_lines: The lines of the file that these rows are made of.
    :param first_line: Number of the first of these lines.
    """

    rows: list[Cells]
    file_lines: list[str]
    first_line: int

    def rows_with(self, *marks: str) -> set[int]:
        """Return the positions of the rows that have one of these characters in a cell."""
        positions: set[int] = set()
        # One search in a whole column is faster than one in each cell.
        for column in itertools.zip_longest(*self.rows, fillvalue=""):
            text = "".join(column)
            for mark in marks:
                if mark in text:
                    positions.update([position for position, cell in enumerate(column) if mark in cell])
        return positions

    def line_numbers(self, positions: Iterable[int]) -> list[int]:
        """
        Return the number of the first line of each row.

        :param positions: Positions of all rows that have line breaks.
        """
        lengths = [1] * len(self.rows)
        for position in positions:
            lengths[position] += _line_breaks(self.rows[position])
        return list(itertools.accumulate(lengths[:-1], initial=self.first_line))

    def record(self, line_numbers: Sequence[int], position: int) -> str:
        """Return a row as it is in the file."""
        start, *following = line_numbers[position : position + 2]
        end = following[0] if following else self.first_line + len(self.file_lines)
        return "".join(self.file_lines[start - self.first_line : end - self.first_line])


class _Reader:
    """Read the rows of a CSV file."""

    def __init__(self, path: StoragePath, text_file: TextIO, options: CsvOptions) -> None:
        self.path = path
        self.encoding = text_file.encoding
        # Characters that were read since the last row ended.
        self._row_size = 0
        lines = self._bounded_rows(text_file)
        self.line = 1 + options.skip_lines
        self.delimiter = options.delimiter
        if options.skip_lines:
            for _ in itertools.islice(lines, options.skip_lines):
                self._row_size = 0
        else:
            first_line = next(lines, "")
            separator = _SEPARATOR_LINE.fullmatch(first_line)
            if separator:
                self.delimiter = separator[1]
                self.line = 2
            elif first_line:
                lines = itertools.chain([first_line], lines)
        self.quoting = Quoting(self.delimiter, options.quote, options.escape, options.skip_blanks_after_delimiter)
        if len(self.delimiter) > 1:
            lines = self._with_one_delimiter(lines)
            self.quoting = replace(self.quoting, delimiter=_ONE_DELIMITER)
        self.nulls = set(options.null_texts)
        escaped_nulls = [text for text in self.nulls if options.escape and text.startswith(options.escape)]
        if escaped_nulls:
            lines = self._with_marked_nulls(lines, escaped_nulls)
            self.nulls = self.nulls.difference(escaped_nulls) | {_NULL}
        # The length of rows is limited below.
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        self._file_lines, parsed_lines = itertools.tee(lines)
        self._reader = csv.reader(
            parsed_lines,
            delimiter=self.quoting.delimiter,
            quotechar=options.quote or None,
            quoting=csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
            escapechar=options.escape or None,
            skipinitialspace=options.skip_blanks_after_delimiter,
            strict=True,
        )

    def _bounded_rows(self, text_file: TextIO) -> Iterator[str]:
        """Yield the lines of a text; raise an error for a row of too many characters in several lines."""
        row_lines = 0
        for number, line in enumerate(bounded_lines(text_file), start=1):
            row_lines = row_lines + 1 if self._row_size else 1
            self._row_size += len(line)
            if self._row_size > ROW_LIMIT:
                raise too_long(number - row_lines + 1)
            yield line

    def _with_one_delimiter(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if _ONE_DELIMITER in line:
                raise ValueError("it has the character U+FDD0; with it, a delimiter can have only one character")
            yield line.replace(self.delimiter, _ONE_DELIMITER)

    def _with_marked_nulls(self, lines: Iterable[str], nulls: Iterable[str]) -> Iterator[str]:
        delimiter = re.escape(self.quoting.delimiter)
        cell = re.compile(rf"(?:^|(?<={delimiter}))(?:{'|'.join(map(re.escape, nulls))})(?={delimiter}|[\r\n]|\Z)")
        return (cell.sub(_NULL, line) for line in lines)

    def read(self, count: int) -> _Block:
        """
        Read the next rows.

        :return: Fewer rows if they are long, and at the end of the file.
        :raises ValueError: It is not certain where a row ends.
        """
        first_line = self.line
        lines_before = self._reader.line_num
        rows: list[Cells] = []
        try:
            size = 0
            for row in itertools.islice(self._reader, count):
                rows.append(row)
                size += self._row_size
                self._row_size = 0
                if size > BATCH_CHARACTERS:
                    break
        except csv.Error as error:
            # The rows before the error are in the list.
            line = first_line + sum(1 + _line_breaks(row) for row in rows)
            raise self._doubt(line, _cause(error)) from error
        file_lines = list(itertools.islice(self._file_lines, self._reader.line_num - lines_before))
        self.line += len(file_lines)
        return _Block(rows, file_lines, first_line)

    def first_row(self) -> _Block:
        """Read up to the first row that is not blank, which alone is in the block if there is one."""
        while (block := self.read(1)).rows and _is_blank(block.rows[0]):
            pass
        return block

    def _doubt(self, line: int, cause: str) -> ValueError:
        return ValueError(f"line {line}: {cause}; {QUOTE_ADVICE}")

    def check_header(self, header: Cells) -> None:
        """
        Refuse what cannot be names of columns.

        :raises ValueError: The names are not text in the encoding of the file.
        """
        if len(header) > MOST_COLUMNS:
            raise ValueError(f"its first line has {len(header):,} cells, more than {MOST_COLUMNS:,} columns; {ADVICE}")
        text = "".join(header)
        if "\0" in text or not is_encodable(text):
            raise ValueError(f"its first line is not a list of column names in {self.encoding}; {ADVICE}")

    def batch(self, block: _Block, header: Cells, wanted: ColumnSelection, account: SourceAccount) -> Batch:
        """Return the wanted columns of a block of rows."""
        width = len(header)
        quote = self.quoting.quote
        has_quotes = bool(quote) and quote in "".join(block.file_lines)
        marked: set[int] = set()
        if has_quotes or len(block.rows) != len(block.file_lines):
            marked = block.rows_with("\n", "\r", quote or "\n")
        lines = block.line_numbers(marked)
        has_width = set(map(len, block.rows)) == {width}
        if not has_width:
            block = replace(block, rows=[_without_surplus(row, width) for row in block.rows])
        if has_quotes:
            wrong = [position for position, row in enumerate(block.rows) if len(row) != width]
            self._check_quotes(block, lines, sorted(marked.union(wrong)), width, account)
        rows = block.rows
        problems: dict[int, str] = {}
        if not has_width or _may_have_blank_row_or_header(rows, header):
            rows, lines, problems = self._sorted_out(rows, lines, header, account)
        # Keep every column as text: a category "007" must not become 7.
        cells_by_column = list(zip(*rows, strict=True)) or [()] * width
        columns: dict[str, list[Any]] = {}
        for name in wanted.among(header):
            values = list(cells_by_column[header.index(name)])
            columns[name] = self._values(values)
        return Batch(
            wanted.complete(columns, len(rows)),
            problems=problems,
            # Bytes that cannot be decoded are surrogates.
            bad_text=f"is not text in {self.encoding}; {ADVICE}",
            is_decoded=True,
            file=str(self.path),
            lines=lines,
        )

    def _check_quotes(
        self, block: _Block, lines: Sequence[int], positions: Iterable[int], width: int, account: SourceAccount
    ) -> None:
        """
        Check that it is certain where each row ends.

        :param positions: Positions of the rows that have a quote, a line break, or another width.
        :raises ValueError: It is not certain.
        """
        quote = self.quoting.quote
        neighbours: Neighbours | None = None
        for position in positions:
            row = block.rows[position]
            text = "\0".join(row)
            has_width = len(row) == width
            if quote in text or not has_width:
                record = block.record(lines, position)
                doubt = quote in record and doubt_about_row(record, row, width, self.quoting)
                if doubt and not _is_blank(row):
                    raise self._doubt(lines[position], doubt)
            has_breaks = "\n" in text or "\r" in text
            embedded = has_width and has_breaks and embedded_rows(row, self.quoting)
            if embedded:
                neighbours = neighbours or Neighbours([other for other in block.rows if len(other) == width][:50])
                self._check_breaks(row, embedded, lines[position], neighbours, account)

    def _check_breaks(
        self,
        row: Cells,
        embedded: Sequence[Mapping[int, str]],
        line: int,
        neighbours: Neighbours,
        account: SourceAccount,
    ) -> None:
        """Check that a cell with line breaks has no rows in it, because the quote at its end is missing."""
        if neighbours.have_like(embedded):
            raise self._doubt(line, "a line of a cell looks like a row: a quote before or after it may be missing")
        # Two cells in one line are common in texts.
        if len(row) > 2 and len(embedded) > _line_breaks(row):
            place = f"{self.path}, line {line}"
            account.leave_out("row", "may be in a cell whose quote is missing", place, is_expected=False)

    def _sorted_out(
        self, rows: Sequence[Cells], lines: Sequence[int], header: Cells, account: SourceAccount
    ) -> tuple[list[Cells], list[int], dict[int, str]]:
        """Return the rows without blank ones and repeated headers, their lines, and the problems of rows."""
        kept_rows: list[Cells] = []
        kept_lines: list[int] = []
        problems: dict[int, str] = {}
        for row, line in zip(rows, lines, strict=True):
            place = f"{self.path}, line {line}"
            if not row:
                # An empty line.
                continue
            if _is_blank(row):
                account.leave_out("row", "is blank", place, is_expected=True)
                continue
            if _is_header(row, header):
                account.leave_out("row", "repeats the line of column names", place, is_expected=False)
                continue
            if len(row) != len(header):
                problems[len(kept_rows)] = f"has {len(row)} cells, but the first line has {len(header)}; {ADVICE}"
                kept_rows.append([""] * len(header))
            else:
                kept_rows.append(row)
            kept_lines.append(line)
        return kept_rows, kept_lines, problems

    def _values(self, values: list[Any]) -> list[Any]:
        """Return the cells of a column, with its delimiters and nulls."""
        if len(self.delimiter) > 1:
            values = [value.replace(_ONE_DELIMITER, self.delimiter) for value in values]
        if self.nulls:
            values = [None if value in self.nulls else value for value in values]
        return values


def _cause(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "a quote is opened and not closed"
    return f"a quote is in the wrong place ({error})"


def _line_breaks(row: Cells) -> int:
    text = "\0".join(row)
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _without_blank_end(row: Cells) -> Cells:
    """Return a row without the blank cells at its end, which spreadsheets export for empty columns."""
    length = len(row)
    while length > 1 and not row[length - 1].strip():
        length -= 1
    return row[:length]


def _without_surplus(row: Cells, width: int) -> Cells:
    """Return a row without the cells after the last column, if they are blank."""
    if len(row) > width and not "".join(row[width:]).strip():
        return row[:width]
    return row


def _is_blank(row: Cells) -> bool:
    return not "".join(row).strip().strip(_NO_TEXT)


def _is_header(row: Cells, header: Cells) -> bool:
    """Return whether a row repeats the names of the columns, also after the byte order mark of an appended file."""
    return row == header or [row[0].removeprefix("\ufeff"), *row[1:]] == header


def _may_have_blank_row_or_header(rows: Sequence[Cells], header: Cells) -> bool:
    """Return whether the first cell of a row is blank or the first name. The rows have a cell."""
    first_cells = [row[0] for row in rows]
    if header[0] in first_cells or f"\ufeff{header[0]}" in first_cells:
        return True
    return "\x1a" in first_cells or not all(map(str.strip, first_cells))


def _check_columns(header: Cells, wanted: ColumnSelection, reader: _Reader) -> None:
    """
    Check that a file has the required columns, and find its delimiter if it has not.

    :raises AssistantInputError: A column is missing.
    """
    line = reader.delimiter.join(header)
    required = set(wanted.names).difference(wanted.partition)
    if wanted.rest or not required.issubset(header):
        for delimiter in _OTHER_DELIMITERS:
            names = {name.strip(" \"'") for name in line.split(delimiter)}
            is_likely = bool(required) and required.issubset(names)
            if delimiter != reader.delimiter and (is_likely or (len(header) == 1 and len(names) > 1)):
                raise AssistantInputError(
                    f"the column names of {str(reader.path)!r} are not separated by {reader.delimiter!r}; the line "
                    f"looks like {delimiter!r}: {line!r}",
                    todo=f"Set csv_options={{'delimiter': {delimiter!r}}} (--delimiter {delimiter!r}).",
                    field="csv_options",
                )
    wanted.check(header, repr(str(reader.path)))
