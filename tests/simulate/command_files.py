"""Files for the load command: rows in files with odd names, and files that cannot be loaded."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.simulate.sources import Row, write_rows

NAMES = (
    *("faq", "Größe", "a b", "q'\"", "a#b%20c", "a=b", "{{ x }}", "~", "$HOME", "[x]", "a:b", "x" * 240),
    *("line\nbreak", "\x1b[31m", "\u202ename", "\udcff", "a*b", "a?b", ".hidden", "_hidden", "a.csv.b"),
)


@dataclass(frozen=True)
class FileForm:
    """How rows are written, and whether the command gets the path of the file, of its folder, or a glob."""

    suffix: Literal["csv", "jsonl", "parquet"] = "csv"
    key_type: str = "int"
    place: Literal["file", "folder", "glob"] = "file"


def written(rows: Sequence[Row], form: FileForm, name: str, folder: Path) -> str:
    """Write rows to a file of a new folder below this one, and return the argument of the command."""
    # Of the formats, only JSON can contain lone surrogates.
    suffix = form.suffix if all(row.is_text for row in rows) else "jsonl"
    place = folder / f"input-{len(list(folder.glob('input-*')))}"
    place.mkdir()
    path = place / f"{name}.{suffix}"
    write_rows([row.cells(form.key_type) for row in rows], path)
    return {"file": str(path), "folder": str(place), "glob": str(place / f"*.{suffix}")}[form.place]


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
