"""Quote names and texts in SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a quoted SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
