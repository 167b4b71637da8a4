"""Read CSV files strictly: what cannot be read is refused or reported, never guessed."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO, Self, TextIO, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.tables.batches import Columns, Note, Part
from airflow_provider_assistant.tables.text import ROW_LIMIT, TextRow, batches_of_text, open_text, too_long
from airflow_provider_assistant.texts import is_encodable

ADVICE = "if the file has another format, set csv_options (--delimiter, --encoding, --quote, …)"
QUOTE_ADVICE = (
    "where it ends is not certain, nor where later rows do. Double each quote inside of a cell, or "
    "set csv_options: escapechar (--escape) if quotes are escaped, quotechar='' (--quote '') if "
    "cells have no quotes around them, skipinitialspace (--skip-blanks) if blanks precede them"
)
# Delimiters that files without a comma have.
_OTHER_DELIMITERS = ";\t|,\x01\x1f^~"


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


_Character = Annotated[str, BeforeValidator(_typed), Field(max_length=1)]


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

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    delimiter = options.delimiter or ("\t" if is_tsv else ",")
    table = _Table(text_file, options, delimiter)
    rows = table.rows()
    first = next((row for row in rows if "".join(row[0]).strip().strip("\x1a\ufeff")), None)
    if first is None:
        yield Note("file", "is empty", str(path), expected=False)
        return
    cells = first[0]
    if options.header is True:
        # Spreadsheets export empty columns.
        header = cells[: _length_without_blanks(cells)]
        if "\0" in "".join(header) or not is_encodable("".join(header)):
            raise ValueError(f"its first line is not a list of column names in {text_file.encoding}; {ADVICE}")
    else:
        rows = itertools.chain([first], rows)
        header = options.header or [str(number + 1) for number in range(len(cells))]
    for other in _OTHER_DELIMITERS:
        if len(header) == 1 and other in header[0]:
            raise AssistantInputError(
                f"the column names of {str(path)!r} are not separated by {delimiter!r}; the line looks like "
                f"{other!r}: {header[0]!r}",
                todo=f"Set csv_options={{'delimiter': {other!r}}} (--delimiter {other!r}).",
                field="csv_options",
            )
    columns.check(header, repr(str(path)))
    named_rows = table.named(rows, header)
    yield from batches_of_text(named_rows, path, text_file.encoding, columns)


# Cells, the number of the line that the row begins on, and its characters.
_Row: TypeAlias = "tuple[list[str], int, int]"


class _Table:
    """Read the rows of a CSV file."""

    def __init__(self, text_file: TextIO, options: CsvOptions, delimiter: str) -> None:
        self._text_file = text_file
        self._options = options
        self._delimiter = delimiter
        self._line = 1 + options.skip_lines
        # Of the row that is read: its characters, and whether a blank precedes a quote.
        self._size = 0
        self._has_blank_quote = False

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the file, up to a row of too many characters."""
        quote = self._options.quotechar
        while line := self._text_file.readline(ROW_LIMIT + 1):
            self._size += len(line)
            if self._size > ROW_LIMIT:
                raise too_long(self._line)
            if quote and f" {quote}" in line:
                self._has_blank_quote = True
            yield line

    def rows(self) -> Iterator[_Row]:
        """
        Yield the rows. An empty line is not a row.

        :raises ValueError: It is not certain where a row ends.
        """
        options = self._options
        first_line = self._line
        # The length of rows is limited above.
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        lines = self._lines()
        for _ in itertools.islice(lines, options.skip_lines):
            self._size = 0
        reader = options.reader(lines, self._delimiter)
        try:
            for row in reader:
                if self._has_blank_quote and any(map(self._has_open_quote, row)):
                    raise csv.Error("blanks precede it")  # noqa: TRY301
                if row:
                    yield row, self._line, self._size
                self._line = first_line + reader.line_num
                self._size = 0
                self._has_blank_quote = False
        except csv.Error as error:
            cause = f"a quote is in the wrong place ({error})"
            if "unexpected end" in str(error):
                cause = "a quote is opened and not closed"
            raise ValueError(f"line {self._line}: {cause}; {QUOTE_ADVICE}") from error

    def _has_open_quote(self, cell: str) -> bool:
        """Return whether a cell begins with a quote after blanks, which is text, and has no other."""
        quote = self._options.quotechar
        return cell.lstrip(" ").startswith(quote) and cell.startswith(" ") and cell.count(quote) % 2 == 1

    def named(self, rows: Iterable[_Row], header: list[str]) -> Iterator[TextRow]:
        """Yield the values of rows by column, or why a row cannot be read."""
        width = len(header)
        nulls = set(self._options.null_texts)
        for cells, line, size in rows:
            if len(cells) != width:
                # Blank cells after the last column do not count.
                cells[width:] = cells[width : _length_without_blanks(cells)]
            if len(cells) > 2 and self._may_hold_rows(cells):
                yield Note("row", "may be in a cell whose quote is missing", f"line {line}", expected=False)
            if cells[0] in (header[0], f"\ufeff{header[0]}") and cells[1:] == header[1:]:
                yield Note("row", "repeats the line of column names", f"line {line}", expected=False)
            elif len(cells) == width:
                # All columns are text: a category "007" must not become 7.
                row: dict[str, Any] = dict(zip(header, cells, strict=True))
                if nulls:
                    row = {name: None if cell in nulls else cell for name, cell in row.items()}
                yield row, line, size
            elif "".join(cells).strip():
                yield f"has {len(cells)} cells, but there are {width} columns; {ADVICE}", line, size
            else:
                yield {}, line, size

    def _may_hold_rows(self, cells: list[str]) -> bool:
        """
        Return whether a cell may hold the end of its row, other rows, and the beginning of one.

        It does if the quotes at its end and at the beginning of another cell are missing. In prose,
        a blank follows a comma.
        """
        for position, cell in enumerate(cells):
            if "\n" in cell or "\r" in cell:
                lines = cell.splitlines()
                after = len(cells) - 1 - position
                counts = [after, *[len(cells) - 1] * (len(lines) - 2), position]
                is_like_rows = counts == [line.count(self._delimiter) for line in lines]
                if is_like_rows and f"{self._delimiter} " not in cell:
                    return True
        return False


def _length_without_blanks(row: list[str]) -> int:
    """Return the number of cells without the blank ones at the end, at least 1."""
    length = len(row)
    while length > 1 and not row[length - 1].strip():
        length -= 1
    return length
