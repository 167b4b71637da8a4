"""Read CSV files strictly: what cannot be read is refused or reported, never guessed."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO, Self, TextIO

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
    rows = _Rows(text_file, options, delimiter)
    first = next((row for row in rows if "".join(row[0]).strip()), None)
    if first is None:
        yield Note("file", "is empty", str(path), expected=False)
        return
    cells, line, size = first
    if options.header is True:
        # Spreadsheets export empty columns.
        header = cells[: _length_without_blanks(cells)]
        if "\0" in "".join(header) or not is_encodable("".join(header)):
            raise ValueError(f"its first line is not a list of column names in {text_file.encoding}; {ADVICE}")
    else:
        header = options.header or [str(number + 1) for number in range(len(cells))]
    _check_delimiter(header, delimiter, path)
    columns.check(header, repr(str(path)))
    remaining = rows if options.header is True else itertools.chain([first], rows)
    yield from batches_of_text(
        _named_rows(remaining, header, columns, options, delimiter), path, text_file.encoding, columns
    )


def _check_delimiter(header: list[str], delimiter: str, path: StoragePath) -> None:
    """Refuse a header that another delimiter separates."""
    for other in _OTHER_DELIMITERS:
        if len(header) == 1 and other in header[0]:
            raise AssistantInputError(
                f"the column names of {str(path)!r} are not separated by {delimiter!r}; the line looks "
                f"like {other!r}: {header[0]!r}",
                todo=f"Set csv_options={{'delimiter': {other!r}}} (--delimiter {other!r}).",
                field="csv_options",
            )


class _Rows:
    """Read the rows of a CSV file: cells, number of the line that they begin on, and characters."""

    def __init__(self, text_file: TextIO, options: CsvOptions, delimiter: str) -> None:
        self._text_file = text_file
        self._options = options
        self._line = 1 + options.skip_lines
        # Characters that were read since the last row ended.
        self._size = 0
        # The length of rows is limited below.
        csv.field_size_limit(max(csv.field_size_limit(), ROW_LIMIT))
        self._reader = options.reader(itertools.islice(self._lines(), options.skip_lines, None), delimiter)

    def _lines(self) -> Iterator[str]:
        while line := self._text_file.readline(ROW_LIMIT + 1):
            self._size += len(line)
            if self._size > ROW_LIMIT:
                raise too_long(self._line)
            yield line

    def __iter__(self) -> Iterator[tuple[list[str], int, int]]:
        """
        Yield the rows that are left. An empty line is not a row.

        :raises ValueError: It is not certain where a row ends.
        """
        reader = self._reader
        blank_quote = f" {self._options.quotechar}"
        try:
            for row in reader:
                line, size = self._line, self._size
                self._line = 1 + self._options.skip_lines + reader.line_num
                self._size = 0
                # Python's reader takes a quote after a blank for text.
                if blank_quote in (cell[:2] for cell in row) and self._has_open_quote(row):
                    raise csv.Error("blanks precede it")
                if row:
                    yield row, line, size
        except csv.Error as error:
            cause = f"a quote is in the wrong place ({error})"
            if "unexpected end" in str(error):
                cause = "a quote is opened and not closed"
            raise ValueError(f"line {self._line}: {cause}; {QUOTE_ADVICE}") from error
