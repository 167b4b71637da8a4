"""Read CSV files strictly: what cannot be read is refused or reported, never guessed."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, BinaryIO, Self, TextIO

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.tables.batches import BATCH, Batch, Columns, Note, Part
from airflow_provider_assistant.tables.text import BATCH_CHARACTERS, ROW_LIMIT, open_text, too_long
from airflow_provider_assistant.texts import counted, is_encodable

# No table that people or programs write has more.
MOST_COLUMNS = 10_000
ADVICE = "if the file has another format, set csv_options (--csv-option NAME=VALUE, --encoding)"
QUOTE_ADVICE = (
    "where it ends is not certain, nor where later rows do. Double each quote inside of a cell, or set "
    "csv_options (--csv-option NAME=VALUE): escapechar if quotes are escaped, quotechar='' if cells have no "
    "quotes around them, skipinitialspace=True if blanks precede them"
)
# Delimiters that files without a comma have.
_OTHER_DELIMITERS = ";\t|,\x01\x1f^~"
# What a blank row may have: white space, the end mark of old files, and a byte order mark.
_NO_TEXT = " \t\r\n\x1a\ufeff"


def _typed(value: Any) -> Any:
    r"""Return the character that somebody typed as ``\t`` or ``\x01``; an empty text for None."""
    is_escape = isinstance(value, str) and re.fullmatch(r"\\(?:t|x[0-9a-fA-F]{2})", value)
    return value.encode().decode("unicode_escape") if is_escape else value or ""


def _checked_encoding(name: str) -> str:
    try:
        # Unlike codecs.lookup(), this refuses codecs that are not for text, such as rot13.
        "a".encode(name or "utf-8")
    except (LookupError, ValueError):
        raise ValueError("Python has no encoding of this name for text") from None
    return name


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_Character = Annotated[str, BeforeValidator(_typed), Field(max_length=1, pattern=r"^[^\r\n]?$")]


class CsvOptions(BaseModel):
    r"""
    Describe the format of text files. The first five options are those of Python's :mod:`csv`.

    :param delimiter: Character between cells. Default: comma; a tab in ``.tsv`` and ``.tab`` files.
    :param quotechar: Character around cells with a delimiter or a line break. Empty: cells have no
        quotes. Default: double quote.
    :param escapechar: Character that takes away the meaning of the next one. Default: none.
    :param doublequote: Whether a quote inside of a cell is doubled. Default: True.
    :param skipinitialspace: Whether blanks at the beginning of a cell do not count. Default: False.
    :param encoding: Python name of the encoding of CSV and JSON files, such as ``cp1252``. A byte
        order mark counts more. Default: UTF-8.
    :param header: Names of the columns of files without a line of names, or False to name them
        ``1``, ``2`` and so on. Default: True, the first row has the names.
    :param skip_lines: Number of lines before the line of names. Default: 0.
    :param null_texts: Text, or texts, that mean "no value", such as ``\N``. Default: none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    delimiter: _Character = ""
    quotechar: _Character = '"'
    escapechar: _Character = ""
    doublequote: bool = True
    skipinitialspace: bool = False
    encoding: Annotated[str, BeforeValidator(_typed), AfterValidator(_checked_encoding)] = ""
    header: bool | Annotated[list[str], Field(min_length=1)] = True
    skip_lines: Annotated[int, Field(ge=0)] = 0
    null_texts: Annotated[list[str], BeforeValidator(_as_list)] = []

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Self:
        """
        Build the options from a mapping, whose numbers and flags may be text.

        :raises AssistantInputError: An option is unknown or its value is invalid.
        """
        try:
            options = cls.model_validate(given or {})
            options.reader(iter(()))
        except ValidationError as error:
            problems = [f"{one['loc'][0] if one['loc'] else ''}: {one['msg']}" for one in error.errors()]
            problem = "; ".join(dict.fromkeys(problems))
        except (TypeError, ValueError) as error:
            problem = str(error)
        else:
            return options
        raise AssistantInputError(
            f"csv_options cannot be used: {problem}",
            todo=f"The options are {', '.join(cls.model_fields)}.",
            field="csv_options",
        )

    def reader(self, lines: Iterator[str], delimiter: str = ",") -> Any:
        """
        Return Python's strict reader.

        :param delimiter: Used if the options have none.
        """
        if self.escapechar and any(text.startswith(self.escapechar) for text in self.null_texts):
            raise ValueError("escapechar hides the beginning of a text of null_texts")
        if self.delimiter and self.delimiter in {self.quotechar, self.escapechar}:
            raise ValueError("delimiter, quotechar and escapechar must differ")
        return csv.reader(
            lines,
            delimiter=self.delimiter or delimiter,
            quotechar=self.quotechar or None,
            quoting=csv.QUOTE_MINIMAL if self.quotechar else csv.QUOTE_NONE,
            escapechar=self.escapechar or None,
            doublequote=self.doublequote,
            skipinitialspace=self.skipinitialspace,
            strict=True,
        )


def read_csv(
    stack: ExitStack, file: BinaryIO, path: StoragePath, options: CsvOptions, columns: Columns
) -> Iterator[Part]:
    """
    Yield the columns of a CSV file.

    :param stack: Closes what is opened.
    :raises ValueError: The file cannot be read, or it is not certain where a row ends.
    """
    text_file = open_text(stack, file, path, options.encoding)
    is_tsv = {".tsv", ".tab"} & {suffix.lower() for suffix in path.suffixes}
    table = _Table(text_file, path, options, "\t" if is_tsv else ",")
    if not table.read_header():
        yield Note("file", "is empty", str(path), expected=False)
        return
    columns.check(table.header, repr(str(path)))
    while batch := table.read(columns):
        yield batch
    yield from table.notes.values()


class _Table:
    """Read the rows of a CSV file."""

    def __init__(self, text_file: TextIO, path: StoragePath, options: CsvOptions, delimiter: str) -> None:
        self.header: list[str] = []
        self.notes: dict[str, Note] = {}
        self._text_file = text_file
        self._path = path
        self._options = options
        self._delimiter = options.delimiter or delimiter
        # The line that the next row begins on.
        self._line = self._first_line = 1 + options.skip_lines
        # Of the row that is read: its characters, and the quotes among them.
        self._size = 0
        self._quotes = 0
        # The length of rows is limited below.
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        lines = itertools.islice(self._lines(), options.skip_lines, None)
        self._reader = options.reader(lines, delimiter)
        self._rows: Iterator[list[str]] = self._reader

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the file, up to a row of too many characters."""
        quote = self._options.quotechar or "\0"
        read_line = self._text_file.readline
        while line := read_line(ROW_LIMIT + 1):
            self._size += len(line)
            if self._size > ROW_LIMIT:
                raise too_long(self._line)
            self._quotes += line.count(quote)
            yield line

    def _begin_row(self) -> None:
        self._line = self._first_line + self._reader.line_num
        self._size = 0
        self._quotes = 0

    def read_header(self) -> bool:
        """
        Take the names of the columns from the first row that is not blank, or from the options.

        :return: False if there is no such row.
        :raises ValueError: The first row cannot be names.
        :raises AssistantInputError: Another delimiter separates the names.
        """
        first: list[str] | None = []
        while first is not None and not "".join(first).strip(_NO_TEXT):
            self._begin_row()
            try:
                first = next(self._reader, None)
            except csv.Error as error:
                raise self._doubt(self._line, str(error)) from error
        if first is None:
            return False
        header = self._options.header
        if header is True:
            # Spreadsheets export empty columns.
            self.header = first[: _length_without_blanks(first)]
            self._begin_row()
            text = "".join(self.header)
            if "\0" in text or not is_encodable(text):
                raise ValueError(f"its first line is not a list of names in {self._text_file.encoding}; {ADVICE}")
        else:
            self._rows = itertools.chain([first], self._reader)
            self.header = header or [str(number) for number, _cell in enumerate(first, start=1)]
        if len(self.header) > MOST_COLUMNS:
            raise ValueError(f"its first line has more than {MOST_COLUMNS:,} columns; {ADVICE}")
        for other in _OTHER_DELIMITERS:
            if len(self.header) == 1 and other in self.header[0]:
                raise AssistantInputError(
                    f"the column names of {str(self._path)!r} are not separated by {self._delimiter!r}; "
                    f"the line looks like {other!r}: {self.header[0]!r}",
                    todo=f"Set csv_options={{'delimiter': {other!r}}} (--csv-option {f'delimiter={other}'!r}).",
                    field="csv_options",
                )
        return True

    def read(self, columns: Columns) -> Batch | None:
        """
        Read the next rows: 1,000, or fewer if they are long. None at the end of the file.

        :raises ValueError: It is not certain where a row ends.
        """
        rows: list[list[str]] = []
        lines: list[int] = []
        quotes: list[int] = []
        problems: dict[int, str] = {}
        width = len(self.header)
        odd = {"", "\ufeff", "\x1a", self.header[0].strip(), f"\ufeff{self.header[0]}".strip()}
        is_end = True
        block_size = 0
        try:
            for row in itertools.islice(self._rows, BATCH):
                is_end = False
                if len(row) != width or row[0].strip() in odd:
                    problem = self._check_odd(row)
                    if problem:
                        problems[len(rows)] = problem
                if row:
                    rows.append(row)
                    lines.append(self._line)
                    quotes.append(self._quotes)
                block_size += self._size
                # As _begin_row(), without a call for each row.
                self._line = self._first_line + self._reader.line_num
                self._size = self._quotes = 0
                if block_size > BATCH_CHARACTERS:
                    break
        except csv.Error as error:
            raise self._doubt(self._line, str(error)) from error
        if is_end:
            return None
        self._check_cells(rows, lines, quotes)
        return self._batch(rows, lines, problems, columns)

    def _batch(self, rows: list[list[str]], lines: list[int], problems: dict[int, str], columns: Columns) -> Batch:
        # All columns are text: a category "007" must not become 7.
        cells = list(zip(*rows, strict=True)) or [()] * len(self.header)
        read: dict[str, list[Any]] = {}
        for name in columns.present(self.header):
            read[name] = list(cells[self.header.index(name)])
            if self._options.null_texts:
                read[name] = [None if cell in self._options.null_texts else cell for cell in read[name]]
        return Batch(
            columns.complete(read, len(rows)),
            problems=problems,
            encoding=self._text_file.encoding,
            file=str(self._path),
            lines=lines,
        )

    def _doubt(self, line: int, cause: str) -> ValueError:
        if "unexpected end" in cause:
            cause = "a quote is opened and not closed"
        return ValueError(f"line {line}: {cause}; {QUOTE_ADVICE}")

    def _check_odd(self, row: list[str]) -> str | None:
        """
        Look at a row of another width, or whose first cell is blank or the first name.

        A row that is left out becomes empty, and one that cannot be read gets placeholders.

        :return: Why the row cannot be read.
        """
        width = len(self.header)
        # Blank cells after the last column do not count.
        is_longer = len(row) > width
        row[width:] = row[width : _length_without_blanks(row)]
        count = len(row)
        has_lines = self._first_line + self._reader.line_num > self._line + 1
        if not "".join(row).strip().strip(_NO_TEXT):
            # An empty line is not a row.
            if row:
                self._leave_out("is blank", self._line, expected=True)
            row.clear()
        elif [row[0].removeprefix("\ufeff"), *row[1:]] == self.header:
            self._leave_out("repeats the line of column names", self._line, expected=False)
            row.clear()
        elif self._quotes and (count < width or (is_longer and has_lines) or self._is_torn(row, self._quotes)):
            # Python's reader takes what follows a quote that ends a cell and a line for a row.
            raise self._doubt(self._line, f"the row has {count} cells instead of {width}, and quotes")
        elif count != width:
            row[:] = [""] * width
            return f"has {counted(count, 'cell')} in {counted(width, 'column')}; {ADVICE}"
        return None

    def _is_torn(self, row: list[str], quotes: int) -> bool:
        """
        Return whether a quote ends a cell of a row and does not begin it, as in ``the end of a text",next``.

        :param quotes: Number of quotes in the record. One that is written by the rules has an even number, and
            two for each quote inside of a cell.
        """
        quote = self._options.quotechar
        ends = [cell for cell in row if cell.endswith(quote) and cell.count(quote) % 2]
        return bool(ends) and (quotes % 2 == 1 or quotes < 2 * sum(cell.count(quote) for cell in row))

    def _check_cells(self, rows: Sequence[list[str]], lines: Sequence[int], quotes: Sequence[int]) -> None:
        """
        Look for quotes that Python's reader takes for text, and for rows inside of a cell.

        :raises ValueError: It is not certain where a row ends.
        """
        quote = self._options.quotechar
        # One search of all cells is faster than one of each.
        text = "\0".join(itertools.chain([""], *rows, [""]))
        marks = ["\n", "\r"] if not quote else ["\n", "\r", f"\0 {quote}", f"{quote}\0"]
        if not any(mark in text for mark in marks):
            return
        for row, line, count in zip(rows, lines, quotes, strict=True):
            if count and self._is_torn(row, count):
                raise self._doubt(line, "a quote ends a cell and does not begin it")
            for position, cell in enumerate(row):
                if quote and cell.startswith(f" {quote}") and cell.count(quote) % 2:
                    raise self._doubt(line, "blanks precede a quote")
                rows_inside = self._rows_inside(cell, position) if "\n" in cell or "\r" in cell else 0
                if rows_inside:
                    reason = "may be in a cell whose quote is missing"
                    self._leave_out(reason, line, expected=False, count=rows_inside)

    def _rows_inside(self, cell: str, position: int) -> int:
        """
        Return the number of rows that a cell may hold: the end of its own, others, and the beginning of one.

        It does if the quotes at its end and at the beginning of another cell are missing. In prose,
        a blank follows a comma.
        """
        last = len(self.header) - 1
        total = cell.count(self._delimiter)
        in_first_line = cell.splitlines()[0].count(self._delimiter)
        if last < 2 or total % last or in_first_line != last - position or f"{self._delimiter} " in cell:
            return 0
        return total // last

    def _leave_out(self, reason: str, line: int, *, expected: bool, count: int = 1) -> None:
        first = self.notes.get(reason) or Note("row", reason, f"{self._path}, line {line}", expected, 0)
        self.notes[reason] = replace(first, count=first.count + count)


def _length_without_blanks(row: list[str]) -> int:
    """Return the number of cells without the blank ones at the end, at least 1."""
    length = len(row)
    while length > 1 and not row[length - 1].strip():
        length -= 1
    return length
