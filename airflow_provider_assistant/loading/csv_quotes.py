"""
Doubts about quotes in CSV files.

After a quote that is missing or one too many, no line break of the file certainly ends a row. A reader that goes on
takes lines of a cell as rows, or rows as a part of a cell. So such a file is refused as a whole.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LINE_BREAK = re.compile(r"\r\n|\r|\n")


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
    for text in _unquoted_cells(record, quoting):
        if text.lstrip().startswith(quote):
            return "a quote follows a blank at the beginning of a cell, so it does not count as one"
        if _has_odd_quote(text, quote):
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


def _unquoted_cells(record: str, quoting: Quoting) -> Iterator[str]:
    """Yield the cells that have quotes in them, but not around them; without escaped characters."""
    for match in _cell_pattern(quoting).finditer(record):
        text = match.group(1)
        if text and quoting.escape:
            text = re.sub(rf"{re.escape(quoting.escape)}.", "", text, flags=re.DOTALL)
        if text and quoting.quote in text:
            yield text


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


def _has_odd_quote(text: str, quote: str) -> bool:
    """Return whether a text has a quote without its counterpart that is neither an inch mark nor an apostrophe."""
    if text.count(quote) % 2 == 0:
        return False
    escaped_quote = re.escape(quote)
    return not re.search(rf"(?<=\d){escaped_quote}|(?<=\w){escaped_quote}(?=\w)", text)


def embedded_rows(cells: Sequence[str], quoting: Quoting) -> list[dict[int, str]]:
    """
    Return the rows that a cell with line breaks would be the end, the middle and the beginning of.

    A quote that is opened in one row and closed in a later one gives such a cell.

    :param cells: A row with the right number of cells.
    :return: The cells by column of each of these rows; empty if its lines have other numbers of cells.
    """
    broken_columns = [column for column, cell in enumerate(cells) if LINE_BREAK.search(cell)]
    if len(broken_columns) != 1:
        return []
    (column,) = broken_columns
    if quoting.quote in cells[column]:
        return []
    lines = [line.split(quoting.delimiter) for line in LINE_BREAK.split(cells[column])]
    if not quoting.skips_blanks and any(cell.startswith(" ") for line in lines for cell in line[1:]):
        # A comma in prose.
        return []
    # The cells before the broken one are on its first line, those after it on its last line.
    lines[0] = [*cells[:column], *lines[0]]
    lines[-1] = [*lines[-1], *cells[column + 1 :]]
    if any(len(line) != len(cells) for line in lines):
        return []
    rows = [dict(enumerate(line)) for line in lines]
    # These cells are certain: they are outside of the quotes, or the beginning or end of the broken cell.
    rows[0] = {number: cell for number, cell in rows[0].items() if number > column}
    rows[-1] = {number: cell for number, cell in rows[-1].items() if number < column}
    return [row for row in rows if row]


def are_rows(embedded: Sequence[Mapping[int, str]], neighbours: Sequence[Sequence[str]]) -> bool:
    """
    Return whether each of these rows has a value like those of the same column in other rows.

    :param embedded: Cells by column.
    """
    for row in embedded:
        if not any(_is_like(cell, [other[column] for other in neighbours]) for column, cell in row.items()):
            return False
    return True


def _is_like(cell: str, others: Sequence[str]) -> bool:
    """Return whether one of the other cells is the same, or differs only in its words and numbers, such as an id."""
    if not cell.strip():
        return False
    shape = _shape(cell)
    has_digits = "9" in shape
    return cell in others or (has_digits and shape in map(_shape, others))


def _shape(text: str) -> str:
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))
