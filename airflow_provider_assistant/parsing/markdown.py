"""Markdown from plain text, headings and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# At the start of a line, these begin a heading or a block of code.
_MARKUP = re.compile(r"^( {0,3})(#{1,6}(?=[ \t]|$)|`{3}|~{3})", re.MULTILINE)


def escaped(text: str) -> str:
    """Return plain text as Markdown in which no line begins a heading or a block of code."""
    return _MARKUP.sub(r"\1\\\2", text)


def heading(text: str, level: int) -> str:
    """
    Return a heading.

    :param text: May be empty.
    :param level: More than 6 is 6.
    """
    return f"{'#' * min(max(level, 1), 6)} {' '.join(text.split())}".rstrip()


def table(rows: Iterable[Sequence[str]]) -> str:
    """
    Return a table whose first row is the header.

    :param rows: Empty rows, and empty cells at the end of a row, are left out.
    """
    lines = [cells for row in rows if (cells := _cells(row))]
    if not lines:
        return ""
    rule = ["---"] * max(len(lines[0]), 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))


def _cells(row: Sequence[str]) -> list[str]:
    cells = [" ".join(cell.split()).replace("|", "\\|") for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells
