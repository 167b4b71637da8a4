"""Read CSV files strictly: what cannot be read is refused or reported, never guessed."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO, NamedTuple, NoReturn, Self, TextIO

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.tables.batches import Columns, Part, Row, batches_of_rows
from airflow_provider_assistant.tables.text import ROW_LIMIT, open_text, too_long
from airflow_provider_assistant.texts import counted, is_encodable

# No table that people or programs write has more.
MOST_COLUMNS = 10_000
ADVICE = "if the file has another format, set csv_options (--csv-option NAME=VALUE, --encoding)"
QUOTE_ADVICE = (
    "where it ends is not certain, nor where later rows do. Double each quote inside of a cell, or set csv_options "
    "(--csv-option NAME=VALUE): escapechar if quotes are escaped, quotechar='' if cells have no quotes around them, "
    "skipinitialspace=True if blanks precede them"
)
# Delimiters that files without a comma have.
_OTHER_DELIMITERS = ";\t|,\x01\x1f^~"
# White space, the end mark of old files, and a byte order mark.
_BLANKS = " \t\r\n\v\f\u00a0\x1a\ufeff"


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
    :param quotechar: Character around cells with a delimiter or a line break. Empty: cells have no quotes. Default:
        double quote.
    :param escapechar: Character that takes away the meaning of the next one. Default: none.
    :param doublequote: Whether a quote inside of a cell is doubled. Default: True.
    :param skipinitialspace: Whether blanks at the beginning of a cell do not count. Default: False.
    :param encoding: Python name of the encoding of CSV and JSON files, such as ``cp1252``. A byte order mark counts
        more. Default: UTF-8.
    :param header: Names of the columns of files without a line of names, or False to name them ``1``, ``2`` and so on.
        Default: True, the first row has the names.
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
            options.reader(iter(()), options.delimiter or ",")
        except ValidationError as error:
            problem = "; ".join(dict.fromkeys(map(_problem_of, error.errors())))
        except (TypeError, ValueError) as error:
            problem = str(error)
        else:
            return options
        raise AssistantInputError(
            f"csv_options cannot be used: {problem}",
            todo=f"The options are {', '.join(cls.model_fields)}.",
            field="csv_options",
        )

    def reader(self, lines: Iterator[str], delimiter: str) -> Iterator[list[str]]:
        """Return Python's strict reader."""
        if self.escapechar and any(text.startswith(self.escapechar) for text in self.null_texts):
            raise ValueError("a text of null_texts begins with escapechar, so it is never found")
        if delimiter in {self.quotechar, self.escapechar}:
            raise ValueError("delimiter, quotechar and escapechar must differ")
        return csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=self.quotechar or None,
            quoting=csv.QUOTE_MINIMAL if self.quotechar else csv.QUOTE_NONE,
            escapechar=self.escapechar or None,
            doublequote=self.doublequote,
            skipinitialspace=self.skipinitialspace,
            strict=True,
        )


class _Record(NamedTuple):
    """
    A row of a file.

    :param line: Number of the line on which it begins.
    :param height: Number of its lines.
    :param text: Its lines as they stand in the file.
    """

    line: int
    height: int
    text: str
    cells: list[str]

    @property
    def is_blank(self) -> bool:
        return not "".join(self.cells).strip(_BLANKS)


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
    delimiter = options.delimiter or ("\t" if is_tsv else ",")
    records = _records(text_file, options, delimiter)
    first = next((record for record in records if not record.is_blank), None)
    if first is None:
        yield Note("file", "is empty", is_expected=False, name=str(path))
        return
    if options.header is not True:
        records = itertools.chain([first], records)
    header = _header(first, options, path, text_file.encoding, delimiter)
    columns.check(header, repr(str(path)))
    table = _Table(header, path, options, delimiter)
    yield from batches_of_rows(table.rows(records), columns, str(path), text_file.encoding)
    yield from table.left_out.notes()


def _records(text_file: TextIO, options: CsvOptions, delimiter: str) -> Iterator[_Record]:
    """
    Yield the rows of a file.

    :raises ValueError: A row is too long, or it is not certain where it ends.
    """
    # The length of rows is limited here.
    csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
    number = 1
    lines: list[str] = []

    def read_lines() -> Iterator[str]:
        size = 0
        while line := text_file.readline(ROW_LIMIT + 1):
            size = len(line) if not lines else size + len(line)
            if size > ROW_LIMIT:
                raise too_long(number)
            lines.append(line)
            yield line

    for _ in itertools.islice(read_lines(), options.skip_lines):
        lines.clear()
        number += 1
    reader = options.reader(read_lines(), delimiter)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cause = "a quote is opened and not closed" if "unexpected end" in str(error) else str(error)
            _doubt(number, cause)
        height = len(lines)
        yield _Record(number, height, lines[0] if height == 1 else "".join(lines), cells)
        number += height
        lines.clear()


def _doubt(line: int, cause: str) -> NoReturn:
    raise ValueError(f"line {line}: {cause}; {QUOTE_ADVICE}")


def _problem_of(error: Mapping[str, Any]) -> str:
    option = error["loc"][0] if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        return f"there is no option {option!r}"
    return f"{option}: {error['msg'].removeprefix('Value error, ')}"


def _header(first: _Record, options: CsvOptions, path: StoragePath, encoding: str, delimiter: str) -> list[str]:
    """
    Return the names of the columns, from the first row or from the options.

    :raises ValueError: The first row cannot be names.
    :raises AssistantInputError: Another delimiter separates the names, or the first line only names the delimiter.
    """
    # Spreadsheets export empty columns.
    header = first.cells[: _length_without_blanks(first.cells)]
    if header[0].lstrip().lower().startswith(("<!doctype html", "<html")):
        raise AssistantInputError(
            f"{str(path)!r} is a web page, such as one that asks to sign in, and not a table", field="source"
        )
    if options.header is True:
        text = "".join(header)
        if "\0" in text or not is_encodable(text):
            raise ValueError(f"its first line is not a list of names in {encoding}; {ADVICE}")
    else:
        header = options.header or [str(number) for number, _cell in enumerate(first.cells, start=1)]
    if len(header) > MOST_COLUMNS:
        raise ValueError(f"its first line has more than {MOST_COLUMNS:,} columns; {ADVICE}")
    if len(header) == 1 and header[0].lower().startswith("sep=") and options.header is True:
        right = header[0][4:] or delimiter
        raise AssistantInputError(
            f"the first line of {str(path)!r} is {header[0]!r}: it tells spreadsheets the delimiter, and has no names",
            todo=f"Set csv_options={{'delimiter': {right!r}, 'skip_lines': 1}} "
            f"(--csv-option {f'delimiter={right}'!r} --csv-option skip_lines=1).",
            field="csv_options",
        )
    for other in _OTHER_DELIMITERS:
        if len(header) == 1 and other in header[0]:
            raise AssistantInputError(
                f"the column names of {str(path)!r} are not separated by {delimiter!r}; "
                f"the line looks like {other!r}: {header[0]!r}",
                todo=f"Set csv_options={{'delimiter': {other!r}}} (--csv-option {f'delimiter={other}'!r}).",
                field="csv_options",
            )
    return header


def _length_without_blanks(row: list[str]) -> int:
    """Return the number of cells without the blank ones at the end, at least 1."""
    length = len(row)
    while length > 1 and not row[length - 1].strip():
        length -= 1
    return length


class _Table:
    """Read the rows of a file, and count what is left out."""

    def __init__(self, header: list[str], path: StoragePath, options: CsvOptions, delimiter: str) -> None:
        self.left_out = SourceAccount()
        self._header = header
        self._path = path
        self._null_texts = options.null_texts
        self._quote = options.quotechar
        self._escape = options.escapechar
        self._delimiter = delimiter

    def rows(self, records: Iterable[_Record]) -> Iterator[Row]:
        """
        Yield the rows, except those that are blank or repeat the header.

        :raises ValueError: It is not certain where a row ends.
        """
        header, width, null_texts = self._header, len(self._header), self._null_texts
        odd = {"", self._header[0].strip(_BLANKS)}
        quote = self._quote
        for record in records:
            line, height, text, cells = record
            if len(cells) != width or cells[0].strip(_BLANKS) in odd:
                if self._is_left_out(record):
                    continue
                # Blank cells after the last column do not count.
                cells = cells[: max(width, _length_without_blanks(cells))]
                problem = self._problem_of_width(record, cells)
                if problem:
                    yield Row({}, line, len(text), problem)
                    continue
            # Most rows have one line, and no cell that ends with a quote.
            if quote and quote in text and (height > 1 or any(cell[-1:] == quote for cell in cells)):
                self._check_quotes(record, cells)
            # All columns are text: a category "007" must not become 7.
            values: dict[str, str | None] = dict(zip(header, cells))  # noqa: B905 (as many cells as names)
            if null_texts:
                values = {name: None if cell in null_texts else cell for name, cell in values.items()}
            yield Row(values, line, len(text))

    def _is_left_out(self, record: _Record) -> bool:
        """Return whether a row is not one, and count it."""
        cells = record.cells
        cells = cells[: _length_without_blanks(cells)]
        if record.is_blank:
            # An empty line is not a row.
            if cells:
                self._leave_out("is blank", record.line, is_expected=True)
            return True
        if [cells[0].removeprefix("\ufeff"), *cells[1:]] == self._header:
            self._leave_out("repeats the line of column names", record.line)
            return True
        return False

    def _problem_of_width(self, record: _Record, cells: list[str]) -> str:
        """Return why a row cannot be read; empty if it has a cell for each column."""
        count, width = len(cells), len(self._header)
        has_quotes = bool(self._quote) and self._quote in record.text
        is_long = len(record.cells) > width and record.height > 1
        # Python's reader takes what follows a quote that ends a cell and a line for a row.
        if has_quotes and (count < width or is_long or self._is_torn(record, cells)):
            _doubt(record.line, f"the row has {count} cells instead of {width}, and quotes")
        if count == width:
            return ""
        return f"has {counted(count, 'cell')} in {counted(width, 'column')}; {ADVICE}"

    def _is_torn(self, record: _Record, cells: Sequence[str]) -> bool:
        """
        Return whether a quote ends a cell of a row and does not begin it, as in ``the end of a text",next``.

        A row that is written by the rules has an even number of quotes, and two for each quote inside of a cell, or one
        that is escaped.
        """
        text = record.text
        if self._escape:
            text = text.replace(self._escape * 2, "").replace(self._escape + self._quote, self._quote * 2)
        quotes = text.count(self._quote)
        inside = [cell.count(self._quote) for cell in cells]
        is_end = any(count % 2 and cell.endswith(self._quote) for cell, count in zip(cells, inside, strict=True))
        return is_end and (quotes % 2 == 1 or quotes < 2 * sum(inside))

    def _check_quotes(self, record: _Record, cells: Sequence[str]) -> None:
        """
        Look for quotes that Python's reader takes for text, and for rows inside of a cell.

        :raises ValueError: It is not certain where the row ends.
        """
        if self._is_torn(record, cells):
            _doubt(record.line, "a quote ends a cell and does not begin it")
        if record.height == 1:
            return
        for position, cell in enumerate(cells):
            count = self._rows_inside(cell, position)
            if count:
                self._leave_out("may be in a cell whose quote is missing", record.line, count=count)

    def _rows_inside(self, cell: str, position: int) -> int:
        """
        Return the number of rows that a cell may hold: the end of its own, others, and the beginning of one.

        It does if the quotes at its end and at the beginning of another cell are missing. In prose, a blank follows a
        comma.
        """
        lines = cell.splitlines()
        last = len(self._header) - 1
        if len(lines) < 2 or last < 2 or f"{self._delimiter} " in cell:
            return 0
        total = cell.count(self._delimiter)
        is_end = lines[0].count(self._delimiter) == last - position
        return total // last if is_end and total % last == 0 else 0

    def _leave_out(self, reason: str, line: int, *, is_expected: bool = False, count: int = 1) -> None:
        self.left_out.leave_out("row", reason, f"{self._path}, line {line}", is_expected=is_expected, count=count)
