"""Plain text as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A tag, a comment or an entity.
MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
# The start of a line that begins a heading, a block of code, a rule or the definition of a link.
_BLOCK_START = re.compile(r"^( {0,3})(?=#{1,6}(?:[ \t]|$)|`{3}|~{3}|[*_]{3}|\[[^\]\n]{1,999}\]:)", re.MULTILINE)
# A line of these below another one makes it a heading.
_UNDERLINE = re.compile(r"^(?=[ \t]*(?:-+|=+)[ \t]*$)", re.MULTILINE)
# A bar without a backslash ends the cell of a table.
_BAR = re.compile(r"(?<!\\)\|")
# What cannot be part of the target of a link.
_QUOTED = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", "\n": None, "\t": None})


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows the same text."""
    text = MARKUP.sub(r"\\\g<0>", text)
    text = _BLOCK_START.sub(r"\1\\", text)
    return _UNDERLINE.sub(r"\\", text)


def target(address: str) -> str:
    """Return an address as the target of a link."""
    return address.strip().translate(_QUOTED)


def heading(text: str, level: int) -> str:
    """
    Return a heading.

    :param text: Plain text; may be empty.
    :param level: More than 6 is 6.
    """
    marks = "#" * min(level, 6)
    words = " ".join(text.split())
    return f"{marks} {escaped(words)}".rstrip()


def table(rows: Sequence[Sequence[str]], *, has_header: bool = True) -> str:
    """
    Return a table.

    :param rows: Texts of the cells, as Markdown. Blank rows are left out.
    :param has_header: Whether the first row is the header. Otherwise, the header is empty.
    """
    lines = [[_BAR.sub(r"\|", " ".join(cell.split())) for cell in row] for row in rows]
    lines = [cells for cells in lines if any(cells)]
    if not lines:
        return ""
    width = max(number for cells in lines for number, cell in enumerate(cells, 1) if cell)
    if not has_header:
        lines.insert(0, [])
    lines.insert(1, ["---"] * width)
    padded = [[*cells, *[""] * width][:width] for cells in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)
