"""Search everything below a folder, whatever its format."""

from __future__ import annotations

import base64
import html
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq


def spellings(text: str) -> set[bytes]:
    """Return a text as it may stand in a file."""
    forms = {text, json.dumps(text)[1:-1], repr(text)[1:-1], html.escape(text), quote(text), quote(text, safe="")}
    forms |= {form.replace("/", "\\/") for form in forms} | {form.replace("<", "\\u003c") for form in forms}
    return {form.encode() for form in forms} | {base64.b64encode(text.encode())}


def texts_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what a file says, as it lies there and as its format is read, each with where it is."""
    with suppress(FileNotFoundError):  # Airflow is at work
        yield str(path), path.read_bytes()
    if path.suffix == ".db":
        yield from _cells_of_database(path)
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        yield f"{path}: schema", str(table.schema).encode()
        for name in table.column_names:
            yield f"{path}: {name}", "\n".join(map(str, table[name].to_pylist())).encode()


def _cells_of_database(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every cell: in the file itself, a long text is cut into pages."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
        database.text_factory = bytes
        tables = [row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    if cell is not None:
                        yield f"{path}: {table}", cell if isinstance(cell, bytes) else str(cell).encode()


def places(home: Path, *texts: str) -> set[str]:
    """Return where any of the texts stands below a folder."""
    needles = set().union(*map(spellings, texts))
    return {
        where
        for path in home.rglob("*")
        if path.is_file()
        for where, content in texts_of(path)
        if any(needle in content for needle in needles)
    }
