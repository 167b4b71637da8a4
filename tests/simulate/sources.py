"""What is loaded in a night: rows in every form of a source, and folders of files that change while they are sent."""

from __future__ import annotations

import csv
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import polars
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.texts import storable
from tests.simulate.replies import BLOCKED_WORD

COLUMNS = ("id", "title", "question", "answer", "category")
# Longer than a page of a row group, and than the csv module's default limit of a cell.
LARGE = 1_100_000
# Larger than the buffer of an open file, so that a reader notices when the file shrinks.
SIZE = 20_000


@dataclass(frozen=True)
class Row:
    """
    One row of a source.

    :param number: number that makes the content of the row unique.
    :param key: key of the row; None or blank text if it is missing.
    :param flaw: ``no question`` if the question is missing, ``large`` if the answer is longer than a megabyte,
        ``blocked`` if a firewall does not let it pass.
    :param version: number of the answer's version.
    """

    number: int
    key: int | str | None
    flaw: Literal["", "no question", "large", "blocked"] = ""
    version: int = 0

    @property
    def title(self) -> str:
        """Return the title, which identifies the document at the service."""
        return f"T{self.number}"

    @property
    def answer(self) -> str:
        """Return the answer."""
        if self.flaw == "large":
            return "x" * LARGE
        return f"A{self.number}.{self.version} {BLOCKED_WORD if self.flaw == 'blocked' else ''}"

    @property
    def key_text(self) -> str | None:
        """Return the key as text without surrounding whitespace; minus zero equals zero."""
        text = "" if self.key is None else str(self.key).strip()
        return "0" if text == "-0" else text or None

    @property
    def label(self) -> str:
        """Return what findings and the ledger call the row."""
        return storable(key_label(["id"], [self.key_text]))

    @property
    def is_bad(self) -> bool:
        """Return whether the row is rejected without a request."""
        return self.key_text is None or self.flaw == "no question"

    @property
    def is_text(self) -> bool:
        """Return whether the key has no lone surrogates, which only Python's own types and JSON can hold."""
        return not any("\ud800" <= char <= "\udfff" for char in str(self.key))

    def cells(self, key_type: str) -> dict[str, Any]:
        """Return the cells of the row; a numeric key has the given type."""
        key: Any = self.key
        if isinstance(key, int):
            key = {"float": float, "str": str, "Decimal": lambda n: Decimal(f"{n}.00")}.get(key_type, int)(key)
        question = None if self.flaw == "no question" else "Q"
        return dict(zip(COLUMNS, (key, self.title, question, self.answer, "c"), strict=True))


@dataclass(frozen=True)
class Form:
    """The form of a source, and the type of numeric keys in it."""

    container: str = "dicts"
    key_type: str = "int"


class Rows:
    """Rows, with what their load must lead to."""

    def __init__(self, rows: Sequence[Row], *, are_in_text_file: bool = False) -> None:
        def is_bad(row: Row) -> bool:
            # The keys of a text file must be valid text.
            return row.is_bad or (are_in_text_file and not row.is_text)

        self.rows = rows
        contents: dict[str | None, set[tuple[int, str]]] = defaultdict(set)
        self.titles_of: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            contents[row.key_text].add((row.number, row.flaw))
            self.titles_of[row.label].add(row.title)
        # Rows with the same key have different content, so that the load is refused.
        self.is_contradictory = any(len(contents[key]) > 1 for key in contents if key is not None)
        self.titles = {row.title for row in rows if not is_bad(row)}
        # Rows rejected without a request; the second of two equal rows counts as unchanged.
        without_key = sum(row.key_text is None for row in rows)
        self.bad = without_key + len({row.key_text for row in rows if is_bad(row)} - {None})

    def offered(self, form: Form, folder: Path) -> Any:
        """Return the rows as a source; files are written to the folder."""
        cells = [row.cells(form.key_type) for row in self.rows]
        # Only Python's own types have lone surrogates, or no columns.
        is_plain = not cells or not all(row.is_text for row in self.rows)
        container = "dicts" if is_plain else form.container
        columns = {name: [row[name] for row in cells] for name in COLUMNS}
        match container:
            case "callable":
                return lambda: _halves(cells)
            case "pandas":
                return _pandas(cells, form.key_type)
            case "polars":
                return polars.DataFrame(columns, strict=False)
            case "arrow":
                return pa.table(columns)
            case "csv" | "jsonl" | "parquet":
                path = folder / f"source.{container}"
                write_rows(cells, path)
                return str(path)
        return cells


def _halves(cells: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    middle = len(cells) // 2
    yield from filter(None, (cells[:middle], cells[middle:]))


def _pandas(cells: list[dict[str, Any]], key_type: str) -> Any:
    import pandas as pd

    # A missing value turns a column of integers into one of floats.
    frame = pd.DataFrame(cells, columns=COLUMNS)
    if key_type == "Int64" and all(isinstance(row["id"], int | None) for row in cells):
        frame["id"] = frame["id"].astype("Int64")
    return frame


def write_rows(cells: list[dict[str, Any]], path: Path) -> None:
    """Write rows to a file of the format that its suffix names."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(cells)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, default=float) + "\n" for row in cells))
    else:
        with path.open("wb") as opened:
            pq.write_table(pa.table({name: [row[name] for row in cells] for name in COLUMNS}), opened)


@dataclass(frozen=True)
class File:
    """One file; a number makes its content unique, 0 is for an empty file. A firewall does not let some pass."""

    name: str
    content: int = 1
    is_blocked: bool = False

    @property
    def octets(self) -> bytes:
        """Return the content."""
        repeated = f"{self.content} {BLOCKED_WORD if self.is_blocked else ''}".encode()
        return (repeated * SIZE)[:SIZE] if self.content else b""

    @property
    def title(self) -> str:
        """Return what a night calls the document, see :func:`.transport.title_of`."""
        return f"{self.content} ({SIZE} bytes)"

    @property
    def label(self) -> str:
        """Return what findings and the ledger call the file."""
        return storable(self.name)

    @property
    def is_hidden(self) -> bool:
        """Return whether a load skips the file."""
        return any(part.startswith((".", "_")) for part in self.name.split("/"))

    @property
    def is_bad(self) -> bool:
        """Return whether the file is rejected without a request: it is empty, or its name is not valid text."""
        return not self.content or any("\ud800" <= char <= "\udfff" for char in self.name)


@dataclass(frozen=True)
class Change:
    """A file that changes in the middle of a request, by its number; -1: before the first request."""

    file: int
    how: Literal["grows", "shrinks", "vanishes", "becomes empty", "becomes a folder"]
    request: int = -1


class Folder:
    """Files on the disk."""

    def __init__(self, path: Path, files: Sequence[File]) -> None:
        self.path, self._files = path, files

    def restore(self) -> None:
        """Write all files with their original content."""
        self.path.mkdir(exist_ok=True)
        for file in self._files:
            path = self._of(file)
            if path.is_dir():
                path.rmdir()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.octets)

    def count(self) -> int:
        """Return the number of files that are there and not hidden."""
        return sum(self._of(file).is_file() and not file.is_hidden for file in self._files)

    def change(self, change: Change) -> None:
        """Change a file, if it is there."""
        path = self._of(self._files[change.file % len(self._files)]) if self._files else self.path
        if not path.is_file():
            return
        match change.how:
            case "grows":
                with path.open("ab") as opened:
                    opened.write(b"more")
            case "shrinks":
                os.truncate(path, SIZE // 4)
            case "becomes empty":
                os.truncate(path, 0)
            case "vanishes":
                path.unlink()
            case "becomes a folder":
                path.unlink()
                path.mkdir()

    def _of(self, file: File) -> Path:
        return self.path / os.fsdecode(os.fsencode(file.name))


# -- generation ----------------------------------------------------------------------------------

ODD_KEYS = (
    *("k", "k2", " k3 ", "7", "007", "-0", "true", "nan", "None", "NULL", "a,b", 'q"', "line\nbreak", "\r", "\t"),
    *("\x00", "a\x00b", "\ud800", "ä", "a\u0308", "\u202e", "../../etc", "x" * 251, "y" * 100_000, "Ω" * 300),
)
_KEYS = [*ODD_KEYS, None, "", "   "]


def _numbered(rows: list[tuple[int, int | None, str, bool]]) -> tuple[Row, ...]:
    """Return rows with numeric keys; a repeated number is a duplicate."""
    flaws: dict[int, Any] = {number: flaw for number, _, flaw, _ in rows}
    return tuple(
        Row(number + 100 * is_other, number if key is None else None, flaws[number])
        for number, key, _, is_other in rows
    )


PLAIN_ROWS = st.integers(1, 24).map(lambda count: tuple(Row(number, number) for number in range(count)))
NUMBERED_ROWS = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.sampled_from([None] * 6 + [0]),
        st.sampled_from([""] * 8 + ["no question"]),
        st.sampled_from([False] * 40 + [True]),
    ),
    max_size=16,
).map(_numbered)
TEXT_ROWS = st.lists(st.sampled_from(_KEYS), max_size=8).map(
    lambda keys: tuple(Row(_KEYS.index(key), key) for key in keys)
)
LARGE_ROWS = st.integers(1, 3).map(lambda count: (*(Row(n, n) for n in range(count)), Row(9, 9, "large")))
ROWS = st.one_of(*[PLAIN_ROWS] * 6, *[NUMBERED_ROWS] * 5, *[TEXT_ROWS] * 3, LARGE_ROWS)
FORMS = st.builds(
    Form,
    st.sampled_from(["dicts", "callable", "pandas", "polars", "arrow", "csv", "jsonl", "parquet"]),
    st.sampled_from(["int", "float", "str", "Decimal", "Int64"]),
)
# Names of the first line could become the same file name in the request.
_ALIKE = ("a.txt", "b.txt", "de/a.txt", "en/a.txt", "de-a.txt", "en/de/a.txt", "en-de/a.txt", "c.TXT", "de/c.TXT")
_NAMES = (
    *("Refund policy.txt", 'q"uote.txt', "new\nline.txt", "\r.txt", "grün.txt", "gru\u0308n.txt", "退款.txt"),
    *("💡.txt", "..txt.txt", " .txt", "a;b.txt", "%41.txt", "*.txt", "[a].txt", "\u202egpj.txt", "x" * 246 + ".txt"),
    *("ä" * 120 + ".txt", ".hidden.txt", "_SUCCESS", ".git/config", "_tmp/a.txt", "\udcff.txt", "de/\udc80.txt"),
)
FILES = st.lists(
    st.tuples(st.one_of(st.sampled_from(_ALIKE + _NAMES), st.sampled_from(_ALIKE)), st.sampled_from([1] * 9 + [0])),
    max_size=8,
    unique_by=lambda one: one[0],
).map(lambda chosen: tuple(File(name, number * full) for number, (name, full) in enumerate(chosen, start=1)))
CHANGES = st.lists(
    st.builds(
        Change,
        st.integers(0, 7),
        st.sampled_from(["grows", "shrinks", "vanishes", "becomes empty", "becomes a folder"]),
        st.integers(-1, 5),
    ),
    max_size=2,
).map(tuple)
