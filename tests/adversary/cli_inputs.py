"""Files for the load command: rows in files with odd names, and files that cannot be loaded."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.adversary.load_inputs import COLUMNS, KeyType, Row

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]
RunDirectory: TypeAlias = Literal["file", "folder", "glob"]

NAMES = (
    *("faq", "Größe", "a b", "q'\"", "a#b%20c", "a=b", "{{ x }}", "~", "$HOME", "[x]", "a:b", "x" * 240),
    *("line\nbreak", "\x1b[31m", "\u202ename", "\udcff", "a*b", "a?b", ".hidden", "_hidden", "a.csv.b"),
)


@dataclass(frozen=True)
class Form:
    """
    How rows are written to a file.

    :param suffix: Format of the file.
    :param key_type: Type of numeric keys.
    :param place: Whether the command gets the path of the file, of its folder, or a glob.
    """

    suffix: Format = "csv"
    key_type: KeyType = "int"
    place: RunDirectory = "file"


def written(rows: Sequence[Row], form: Form, name: str, folder: Path) -> str:
    """
    Write rows to a file in a new folder, and return the argument of the command.

    :param rows: The rows.
    :param form: How they are written.
    :param name: Name of the file without its suffix.
    :param folder: Folder of the night.
    """
    if not all(row.key_text is None or row.key_text.encode("utf-8", "ignore").decode() == row.key_text for row in rows):
        # Of the formats, only JSON can contain lone surrogates.
        form = Form("jsonl", form.key_type, form.place)
    place = folder / f"input-{len(list(folder.glob('input-*')))}"
    place.mkdir()
    path = place / f"{name}.{form.suffix}"
    cells = [row.cells(form.key_type) for row in rows]
    if form.suffix == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(cells)
    elif form.suffix == "jsonl":
        path.write_text("".join(json.dumps(row, default=float) + "\n" for row in cells))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({column: [row[column] for row in cells] for column in COLUMNS})
        with path.open("wb") as opened:
            pq.write_table(table, opened)
    return {"file": str(path), "folder": str(place), "glob": str(place / f"*.{form.suffix}")}[form.place]


GOOD = b"id,title,question,answer,category\n1,T1,Q,A,c\n"
# Files that cannot be loaded as a whole: name and content.
UNUSABLE: dict[str, tuple[str, bytes]] = {
    "empty": ("faq.csv", b""),
    "empty, JSON": ("faq.jsonl", b"\n\n"),
    "header only": ("faq.csv", b"id,title,question,answer,category\n"),
    "no column": ("faq.csv", b"id,title,answer\n1,T1,A\n"),
    "no key": ("faq.csv", b"title,question,answer\nT1,Q,A\n"),
    "no field, JSON": ("faq.jsonl", b'{"id": 1, "answer": "A"}\n'),
    "bad JSON": ("faq.jsonl", b'{"id": 1, "title\n'),
    "a list, JSON": ("faq.jsonl", b'[{"id": 1}]\n'),
    "deep JSON": ("faq.jsonl", b"[" * 5_000 + b"\n"),
    "binary": ("faq.csv", bytes(range(256)) * 4),
    "NUL": ("faq.csv", b"\0" * 100),
    "not UTF-8": ("faq.csv", "id;título;question\n".encode("cp1252")),
    "open quote": ("faq.csv", GOOD + b'2,"T2,Q,A,c\n'),
    "not Parquet": ("faq.parquet", GOOD),
    "cut Parquet": ("faq.parquet", b"PAR1" + bytes(100) + b"PAR1"),
    "empty Parquet": ("faq.parquet", b""),
    "not gzip": ("faq.csv.gz", GOOD),
    "cut gzip": ("faq.csv.gz", gzip.compress(GOOD, mtime=0)[:-9]),
    "other suffix": ("faq.xlsx", GOOD),
    "no suffix": ("faq", GOOD),
    "one key, two rows": ("faq.csv", GOOD + b"1,T2,Q,A,c\n"),
    "two columns of a name": ("faq.csv", b"id,id,title,question\n1,2,T1,Q\n"),
}
# Paths without a file that can be read.
ABSENT = ("absent", "folder", "hidden", "no match", "a file as folder", "dangling link", "loop", "blank", "long")


def unusable(kind: str, folder: Path) -> str:
    """Create a file that cannot be loaded, and return the argument of the command."""
    if kind in UNUSABLE:
        name, content = UNUSABLE[kind]
        (folder / name).write_bytes(content)
        return str(folder / name)
    path = folder / "faq.csv"
    match kind:
        case "folder":
            path.mkdir()
        case "hidden":
            path.mkdir()
            (path / ".faq.csv").write_bytes(GOOD)
        case "no match":
            return str(folder / "*.csv")
        case "a file as folder":
            path.write_bytes(GOOD)
            return str(path / "faq.csv")
        case "dangling link" | "loop":
            path.symlink_to(path if kind == "loop" else folder / "absent")
        case "blank":
            return " "
        case "long":
            return str(folder / ("x" * 300 + ".csv"))
    return str(path)
