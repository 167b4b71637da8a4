"""Markdown from plain text, headings and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# At the start of a line, these begin a heading or a block of code.
# The first group is the indentation, the second one the mark.
_BLOCK_MARK = re.compile(r"^( {0,3})(#{1,6}(?=[ \t]|$)|`{3}|~{3})", re.MULTILINE)


def escaped(text: str) -> str:
    """Return plain text as Markdown in which no line begins a heading or a block of code."""
    # A backslash between the indentation and the mark.
    return _BLOCK_MARK.sub(r"\1\\\2", text)


def heading(text: str, level: int) -> str:
    """
    Return a heading.

    :param text: May be empty.
    :param level: More than 6 is 6.
    """
    marks = "#" * min(max(level, 1), 6)
    words = " ".join(text.split())
    return f"{marks} {words}".rstrip()


def table(rows: Iterable[Sequence[str]]) -> str:
    """
    Return a table whose first row is the header.

    :param rows: Empty rows, and empty cells at the end of a row, are left out.
    """
    filled_rows = []
    for row in rows:
        cells = _cells_without_empty_end(row)
        if cells:
            filled_rows.append(cells)
    if not filled_rows:
        return ""
    header, *body = filled_rows
    rule = ["---"] * len(header)
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, rule, *body]]
    return "\n".join(lines)


def _cells_without_empty_end(row: Sequence[str]) -> list[str]:
    cells = [" ".join(cell.split()).replace("|", "\\|") for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells
