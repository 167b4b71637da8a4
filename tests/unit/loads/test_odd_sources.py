"""Sources with problems of production: mixed types, cut files, growing files, empty files, spreadsheet exports."""

from __future__ import annotations

import csv
import io
import json

import fsspec
import pandas as pd
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, task
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
)
from tests.unit.loads.loads import ROWS, counts, load, loaded, loaded_titles, many

QA = "/documents/qa$"
NAMES = list(ROWS[0])


def findings(home, run_id="run"):
    table = pq.read_table(home / "assistant_loads" / "dag" / "load" / f"{run_id}.parquet")
    return [(row["row"], row["reason"]) for row in table.to_pylist() if row["kind"] == "rejected"]


def write_csv(path, rows, **options):
    encoding = options.pop("encoding", "utf-8")
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, NAMES, **options)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("bad", [3, b"x", {"a": 1}, object()], ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize("kind", [list, pd.DataFrame, lambda rows: lambda: iter([pd.DataFrame(rows)])])
def test_one_bad_cell_costs_its_row(kind, bad, service, connection, ledger_home):
    rows = [*many(2), dict(ROWS[0], answer=bad)]
    with pytest.raises(AssistantInputError, match="1 row was rejected"):
        load(kind(rows))
    assert loaded(service) == rows[:2]
    ((number, reason),) = findings(ledger_home)
    assert number == 3
    assert reason.startswith("column 'answer' must be text, not ")


def test_csv_rows_that_cannot_be_read_are_rejected_alone_with_their_line(service, connection, tmp_path, ledger_home):
    path = tmp_path / "faq.csv"
    path.write_bytes(
        b"title,question,answer,category\n"
        b'A,Q,"two\nlines",c\n'
        b"B,Q,too,many,cells\n"
        b"\n"
        b"C,Q\n"
        b'D,5" pipe,"a ""quote"" inside",c,,\n'
        b"E,Q,\xff\xfe,c\n"
        b"F,Q,,c\n"
        b"G,Q,A,c\n"
    )
    with pytest.raises(AssistantInputError, match="4 rows were rejected"):
        load(str(path))
    assert loaded_titles(service) == ["A", "D", "G"]
    lines = {2: "line 4", 3: "line 6", 5: "line 8", 6: "line 9"}
    found = findings(ledger_home)
    assert [number for number, _ in found] == list(lines)
    assert all(f"{path}, {lines[number]}: " in reason for number, reason in found), found


class Changing(MemoryFileSystem):
    """A storage whose files change after they have been read."""

    protocol = ("changing",)
    change = None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("changing://", "memory://"))

    def _open(self, path, mode="rb", **options):
        opened = super()._open(path, mode, **options)
        if "r" not in mode or not (change := self.change):
            return opened
        # The first read is the preflight; later reads belong to sending.
        self.change, content = None, opened.read()
        change()
        return io.BytesIO(content)


STORAGE = Changing()
fsspec.register_implementation("changing", Changing)
attach("changing", fs=STORAGE)


@pytest.mark.parametrize("kind", ["rows", "one row each", "paths"])
def test_the_output_of_a_mapped_task(kind, service, connection, run_dag, tmp_path):
    paths = [write_csv(tmp_path / f"{number}.csv", [row]) for number, row in enumerate(many(3))]
    with DAG(f"mapped_source_{kind.replace(' ', '_')}", schedule=None) as dag:

        @task
        def extract(number):
            row = dict(ROWS[0], title=f"T{number}", answer="{{ not_a_template }}")
            return {"rows": [row], "frames": pd.DataFrame([row]), "one row each": row, "paths": paths[number]}[kind]

        AssistantLoadQAOperator(task_id="task", source=extract.expand(number=[0, 1, 2]))
    run = run_dag(dag, stored=True)
    assert run.state == "success", run.errors
    assert run.xcom()["created"] == 3
    assert loaded_titles(service) == ["T0", "T1", "T2"]


def made(folder):
    folder.mkdir()
    return str(folder)


EMPTY = {
    "list": lambda _: [],
    "frame": lambda _: pd.DataFrame(columns=NAMES),
    "generator": lambda _: lambda: iter(()),
    "csv": lambda folder: write_csv(folder / "faq.csv", []),
    "json": lambda folder: write_json(folder / "faq.jsonl", []),
    "folder": lambda folder: made(folder / "none"),
    "glob": lambda folder: f"{folder}/*.csv",
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_source_is_an_error_unless_it_is_allowed(kind, service, connection, tmp_path):
    load(ROWS, run_id="before")
    source = EMPTY[kind](tmp_path)
    with pytest.raises(AssistantInputError, match=r"Nothing was sent.*allow_empty=True"):
        load(source)
    result = load(source, allow_empty=True)
    assert counts(result) == {}
    assert (result["rows"], result["stale"], service.posts()) == (0, None, 2)


@pytest.mark.parametrize("kind", [list, pd.DataFrame])
def test_a_category_need_not_be_there(kind, service, connection):
    rows = [{name: value for name, value in row.items() if name != "category"} for row in ROWS]
    assert counts(load(kind(rows))) == {"created": 2}
    for value in ("", " ", None):
        assert counts(load(kind([row | {"category": value} for row in rows]), run_id="2")) == {"unchanged": 2}
    assert [document["category"] for document in service.documents()] == [None, None]
