"""Sources of a load: the same rows as every supported type of source."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.texts import storable

Container: TypeAlias = Literal[
    "dicts", "generator", "callable", "pandas", "polars", "arrow", "csv", "json lines", "parquet"
]
KeyType: TypeAlias = Literal["int", "float", "str", "Decimal", "Int64"]

COLUMNS = ("id", "title", "question", "answer", "category")
# Longer than a page of a row group, and than the csv module's default limit of a cell.
LARGE = 1_100_000


@dataclass(frozen=True)
class Row:
    """
    One row of a source.

    :param number: Number that makes the content of the row unique.
    :param key: Key of the row; None or blank text if it is missing.
    :param flaw: ``no question`` if the question is missing, ``large`` if the answer is longer than a megabyte.
    """

    number: int
    key: int | str | None
    flaw: Literal["", "no question", "large"] = ""

    @property
    def title(self) -> str:
        """The title, which identifies the document on the service."""
        return f"T{self.number}"

    @property
    def key_text(self) -> str | None:
        """The key as text without surrounding whitespace; minus zero equals zero."""
        text = "" if self.key is None else str(self.key).strip()
        return "0" if text == "-0" else text or None

    @property
    def is_bad(self) -> bool:
        """Whether the row is rejected without a request."""
        return self.key_text is None or self.flaw == "no question"

    def cells(self, key_type: KeyType) -> dict[str, Any]:
        """Return the cells of the row; a numeric key has the given type."""
        answer = "x" * LARGE if self.flaw == "large" else f"A{self.number}"
        question = None if self.flaw == "no question" else "Q"
        values = (_typed(self.key, key_type), self.title, question, answer, "c")
        return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True)
class Form:
    """
    The type of a source.

    :param container: Type of the container.
    :param key_type: Type of numeric keys.
    """

    container: Container = "dicts"
    key_type: KeyType = "int"


class Rows:
    """
    Rows, with the expected result of their load.

    :param rows: The rows.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        by_key: dict[str | None, set[tuple[int, str]]] = defaultdict(set)
        self.titles_of: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            by_key[row.key_text].add((row.number, row.flaw))
            self.titles_of[_label(row)].add(row.title)
        self.is_contradictory = any(len(contents) > 1 for key, contents in by_key.items() if key is not None)
        """Whether rows with the same key have different content, so that the load is refused."""
        self.titles = {row.title for row in rows if not row.is_bad}
        """The documents that must exist after the load."""
        without_key = sum(row.key_text is None for row in rows)
        self.bad = without_key + len({row.key_text for row in rows if row.is_bad} - {None})
        """Number of rows rejected without a request; the second of two equal rows counts as unchanged."""

    def __len__(self) -> int:
        return len(self._rows)

    def offered(self, form: Form, folder: Path) -> Any:
        """Return the rows as a source; files are written to the folder."""
        cells = [row.cells(form.key_type) for row in self._rows]
        container = form.container
        if not cells or not all(_is_text(row.key) for row in self._rows):
            # Only Python's own types can contain lone surrogates, or no columns.
            container = "dicts"
        return _offered(cells, container, form.key_type, folder)


def _typed(key: int | str | None, key_type: KeyType) -> Any:
    if not isinstance(key, int):
        return key
    match key_type:
        case "float":
            return float(key)
        case "str":
            return str(key)
        case "Decimal":
            return Decimal(f"{key}.00")
    return key


def _is_text(key: int | str | None) -> bool:
    return not isinstance(key, str) or key.isascii() or not any("\ud800" <= char <= "\udfff" for char in key)


def _label(row: Row) -> str:
    return storable(key_label(["id"], [row.key_text]))


def _offered(cells: list[dict[str, Any]], container: Container, key_type: KeyType, folder: Path) -> Any:
    match container:
        case "dicts":
            return cells
        case "generator":
            return iter(cells)
        case "callable":
            return lambda: _halves(cells)
        case "pandas":
            return _pandas(cells, key_type)
        case "polars":
            import polars

            return polars.DataFrame({name: [row[name] for row in cells] for name in COLUMNS}, strict=False)
        case "arrow":
            return _arrow(cells)
        case "csv":
            return _csv(cells, folder / "source.csv")
        case "json lines":
            return _json_lines(cells, folder / "source.jsonl")
        case "parquet":
            import pyarrow.parquet as pq

            pq.write_table(_arrow(cells), folder / "source.parquet")
            return str(folder / "source.parquet")


def _halves(cells: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    middle = len(cells) // 2
    yield from filter(None, (cells[:middle], cells[middle:]))


def _pandas(cells: list[dict[str, Any]], key_type: KeyType) -> Any:
    import pandas as pd

    # A missing value turns a column of integers into one of floats.
    frame = pd.DataFrame(cells, columns=COLUMNS)
    if key_type == "Int64" and all(isinstance(row["id"], int | None) for row in cells):
        frame["id"] = frame["id"].astype("Int64")
    return frame


def _arrow(cells: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.table({name: [row[name] for row in cells] for name in COLUMNS})


def _csv(cells: list[dict[str, Any]], path: Path) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(cells)
    return str(path)


def _json_lines(cells: list[dict[str, Any]], path: Path) -> str:
    path.write_text("".join(json.dumps(row, default=float) + "\n" for row in cells))
    return str(path)
