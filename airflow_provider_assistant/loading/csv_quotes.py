"""
Doubts about quotes in CSV files.

After a quote that is missing or one too many, no line break of the file certainly ends a row. A reader that goes on
takes lines of a cell as rows, or rows as a part of a cell. So such a file is refused as a whole.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LINE_BREAK = re.compile(r"\r\n|\r|\n")
# Characters of a cell that may be an id or a category.
_LONGEST_ID = 100


@dataclass(frozen=True, slots=True)
class Quoting:
    """
    Say how a CSV file separates and quotes cells.

    :param delimiter: One character.
    :param quote: One character; empty if cells have no quotes.
    :param escape: One character; empty for none.
    """

    delimiter: str
    quote: str
    escape: str = ""
    skips_blanks: bool = False


def doubt_about_row(record: str, cells: Sequence[str], width: int, quoting: Quoting) -> str:
    """
    Return why the end of a row is not certain, or an empty text.

    :param record: The row as it is in the file.
    :param cells: Its cells.
    :param width: Number of cells that it should have.
    """
    quote = quoting.quote
    texts = _unquoted_cells(record, quoting)
    has_quoted_cells = None in texts
    for text in texts:
        if text is None or quote not in text:
            continue
        if text.lstrip().startswith(quote):
            return "a quote follows a blank at the beginning of a cell, so it does not count as one"
        if _has_odd_quote(text, quote, may_end=not has_quoted_cells):
            return "a quote is opened or closed in the middle of a cell"
    if len(cells) == width:
        return ""
    line = record.rstrip("\r\n")
    if LINE_BREAK.search(line):
        return f"a row with line breaks has {len(cells)} cells, but the first line has {width}"
    # A quote before or after a line break may be inside of a longer cell.
    if len(cells) < width and (line.startswith(quote) or line.endswith(quote)):
        return f"a row that begins or ends with a quote has {len(cells)} cells, but the first line has {width}"
    return ""


def _unquoted_cells(record: str, quoting: Quoting) -> list[str | None]:
    """Return the cells of a row without escaped characters, and None for each cell with quotes around it."""
    texts: list[str | None] = [match.group(1) for match in _cell_pattern(quoting).finditer(record)]
    if not quoting.escape:
        return texts
    escaped = re.compile(rf"{re.escape(quoting.escape)}.", re.DOTALL)
    return [text and escaped.sub("", text) for text in texts]


@functools.lru_cache(maxsize=16)
def _cell_pattern(quoting: Quoting) -> re.Pattern[str]:
    """Return a pattern of one cell and what follows it; an unquoted cell is its group."""
    quote, delimiter = re.escape(quoting.quote), re.escape(quoting.delimiter)
    escape = re.escape(quoting.escape)
    escaped = rf"|{escape}." if escape else ""
    blanks = " *" if quoting.skips_blanks else ""
    quoted = rf"{blanks}{quote}(?:[^{quote}{escape}]|{quote}{quote}{escaped})*+{quote}"
    unquoted = rf"((?:[^{delimiter}{escape}\r\n]{escaped})*+)"
    return re.compile(rf"(?:{quoted}|{unquoted})(?:{delimiter}|\r\n?|\n|\Z)", re.DOTALL)


def _has_odd_quote(text: str, quote: str, *, may_end: bool) -> bool:
    """
    Return whether a text has a quote without its counterpart that is neither an inch mark nor an apostrophe.

    :param may_end: Whether an inch mark may be the last character.
    """
    if text.count(quote) % 2 == 0:
        return False
    escaped_quote = re.escape(quote)
    after_inch_mark = rf"(?!{escaped_quote})" if may_end else rf"(?=[^{escaped_quote}])"
    return not re.search(rf"(?<=\d){escaped_quote}{after_inch_mark}|(?<=\w){escaped_quote}(?=\w)", text)


def embedded_rows(cells: Sequence[str], quoting: Quoting) -> list[dict[int, str]]:
    """
    Return the rows that the lines of a cell would be: a quote that is missing joins rows in a cell.

    :param cells: A row with the right number of cells.
    :return: For each line that would have this number of cells, those that are inside of the cell, by column.
    """
    broken_columns = [column for column, cell in enumerate(cells) if LINE_BREAK.search(cell)]
    if len(broken_columns) != 1:
        return []
    (column,) = broken_columns
    lines = [line.split(quoting.delimiter) for line in LINE_BREAK.split(cells[column])]
    rows = []
    for number, line in enumerate(lines):
        before = cells[:column] if number == 0 else []
        after = cells[column + 1 :] if number == len(lines) - 1 else []
        if len(before) + len(line) + len(after) != len(cells) or _has_prose_delimiter(line):
            continue
        row = dict(enumerate(line, start=len(before)))
        if number in {0, len(lines) - 1}:
            # Only a part of this cell is inside.
            row.pop(column)
        if row:
            rows.append(row)
    return rows


def _has_prose_delimiter(pieces: Sequence[str]) -> bool:
    """Return whether a delimiter is one of a text, such as a comma before a blank or in a number."""
    for left, right in itertools.pairwise(pieces):
        is_in_number = left[-1:].isdigit() and right[:1].isdigit()
        if right.startswith(" ") or is_in_number:
            return True
    return False


class Neighbours:
    """
    Compare rows with others of the same file.

    :param rows: The other rows.
    """

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        self._rows = rows
        self._columns: dict[int, tuple[list[str], set[str]]] = {}

    def have_like(self, embedded: Sequence[Mapping[int, str]]) -> bool:
        """
        Return whether one of these rows has a value like those of the same column in the others.

        :param embedded: Cells by column.
        """
        return any(self._has_like(column, cell) for row in embedded for column, cell in row.items())

    def _has_like(self, column: int, cell: str) -> bool:
        """Return whether a cell has the shape of others, such as an id, or is one of a few values, as a category."""
        if not cell.strip() or len(cell) > _LONGEST_ID:
            return False
        if column not in self._columns:
            cells = [row[column][: _LONGEST_ID + 1] for row in self._rows]
            self._columns[column] = cells, set(map(_shape, cells))
        cells, shapes = self._columns[column]
        shape = _shape(cell)
        if "9" in shape:
            return shape in shapes
        return cell in cells and len(set(cells)) <= len(cells) // 3


def _shape(text: str) -> str:
    """Return a text with 9 for each number and a for each word."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
