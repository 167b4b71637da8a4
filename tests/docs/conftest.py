"""Fixtures that provide what the examples of the pages need."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.lake import duckdb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FAQ = [
    {"id": 17, "headline": "Refunds", "question": "When are refunds paid?", "answer": "Within five working days."},
    {"id": 18, "headline": "Shipping", "question": "When do parcels leave?", "answer": "Within one day."},
    {"id": 19, "headline": "Returns", "question": "How long may I return goods?", "answer": "For 30 days."},
]

QUESTIONS = [{"id": row["id"], "message": row["question"], "expected": row["answer"], "language": "en"} for row in FAQ]

# Every second answer that a person has seen is the answer to another question.
LABELLED = [
    {
        "id": f"{row['id']}.{number}",
        "message": row["message"],
        "expected": row["expected"],
        "human_answer": row["expected"] if number % 2 else "At any time, if you ask.",
        "human": str(bool(number % 2)),
    }
    for row in QUESTIONS
    for number in range(20)
]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(FAQ[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB file with the views over empty datasets; tests copy it, because creating it takes 0.2 s."""
    folder = tmp_path_factory.mktemp("warehouse")
    duckdb.load(str(folder / "lake.duckdb"), "assistant", str(folder / "lake"), {})
    return folder / "lake.duckdb"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_warehouse: Path) -> None:
    """Files, folders, a warehouse, and the Variables and the connection that name them."""
    handbook = tmp_path / "handbook"
    handbook.mkdir()
    (handbook / "refunds.txt").write_text("Refunds\n\nRefunds are paid within five working days.\n")
    (handbook / "shipping.txt").write_text("Shipping\n\nParcels leave the warehouse within one day.\n")
    (tmp_path / "pages.csv").write_text("key,parent,title,content\noffice#1,office.md,Office,From 9 to 5.\n")
    write_csv(tmp_path / "faq.csv", FAQ)
    parquet, mixed = tmp_path / "parquet", tmp_path / "mixed"
    for folder in (parquet, mixed / "older"):
        folder.mkdir(parents=True)
    for number, row in enumerate(FAQ):
        pq.write_table(
            pa.Table.from_pylist([row, {**row, "id": row["id"] + 100, "headline": f"{row['headline']} 2"}]),
            parquet / f"{number}.parquet",
        )
    pq.write_table(pa.Table.from_pylist(FAQ[:1]), mixed / "a.parquet")
    with gzip.open(mixed / "older" / "b.jsonl.gz", "wt") as file:
        file.write(json.dumps(FAQ[1]) + "\n")
    write_csv(mixed / "older" / "c.csv", FAQ[2:])
    (mixed / "_SUCCESS").touch()
    pq.write_table(pa.Table.from_pylist(QUESTIONS), tmp_path / "questions.parquet")
    pq.write_table(pa.Table.from_pylist(LABELLED), tmp_path / "labelled.parquet")
    with contextlib.closing(sqlite3.connect(tmp_path / "warehouse.db")) as warehouse, warehouse:
        warehouse.execute("CREATE TABLE faq (id, headline, question, answer, published)")
        warehouse.executemany("INSERT INTO faq VALUES (:id, :headline, :question, :answer, 1)", FAQ)
    shutil.copy(empty_warehouse, tmp_path / "lake.duckdb")
    variables = {
        "changed_pages": tmp_path / "pages.csv",
        "assistant_handbook": handbook,
        "handbook": handbook,
        "assistant_safety_site": "acme-docs",
        "assistant_staging_site": "acme-shop",
        "faq": tmp_path / "faq.csv",
        "faq_files": mixed,
        "faq_parquet": parquet,
        "questions": tmp_path / "questions.parquet",
        "labelled_questions": tmp_path / "labelled.parquet",
        "assistant_lake": tmp_path / "lake",
        "assistant_warehouse": tmp_path / "lake.duckdb",
    }
    for name, path in variables.items():
        monkeypatch.setenv(f"AIRFLOW_VAR_{name.upper()}", str(path))
    warehouse_connection = {"conn_type": "sqlite", "host": str(tmp_path / "warehouse.db")}
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(warehouse_connection))
