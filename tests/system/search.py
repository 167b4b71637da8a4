"""Search all files below a folder, in any format, and databases."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import sqlalchemy as sa


def spellings(text: str) -> set[bytes]:
    """Return a text in the encodings in which a file may contain it."""
    forms = {text, json.dumps(text)[1:-1], repr(text)[1:-1], html.escape(text), quote(text), quote(text, safe="")}
    forms |= {form.replace("/", "\\/") for form in forms} | {form.replace("<", "\\u003c") for form in forms}
    return {form.encode() for form in forms} | {base64.b64encode(text.encode())}


def texts_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the content of a file, raw and decoded by its format, each with its location."""
    with suppress(FileNotFoundError):  # Airflow may delete files meanwhile
        yield str(path), path.read_bytes()
    if path.suffix == ".db":
        yield from _cells_of_database(f"sqlite:///{path}")
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        yield f"{path}: schema", str(table.schema).encode()
        for name in table.column_names:
            yield f"{path}: {name}", "\n".join(map(str, table[name].to_pylist())).encode()


def _cells_of_database(url: str) -> Iterator[tuple[str, bytes]]:
    """Yield every cell of a database, because its files split long texts into pages or compress them."""
    engine = sa.create_engine(url)
    with closing(engine.raw_connection()) as database:
        cursor = database.cursor()
        for table in sa.inspect(engine).get_table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            for cell in chain.from_iterable(cursor):
                if cell is not None:
                    yield f"{engine.url.database}: {table}", _bytes(cell)
    engine.dispose()


def _bytes(cell: Any) -> bytes:
    if isinstance(cell, bytes | memoryview):
        return bytes(cell)
    return (cell if isinstance(cell, str) else json.dumps(cell, default=str)).encode()


def places(home: Path, *texts: str, database: str | None = None) -> set[str]:
    """Return the locations of any of the texts below a folder or in a database."""
    needles = set().union(*map(spellings, texts))
    files = (path for path in home.rglob("*") if path.is_file())
    contents = chain(chain.from_iterable(map(texts_of, files)), _cells_of_database(database) if database else ())
    return {where for where, content in contents if any(needle in content for needle in needles)}
