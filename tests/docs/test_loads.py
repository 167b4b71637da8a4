"""The pages on loads: four nights, shards, and the queries on the ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Filter, Ledger, sqlite_engine
from airflow_provider_assistant.ledger.settle import settle
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.sandbox.store import Document
from tests.docs.conftest import FAQ, write_csv
from tests.docs.pages import ROOT, blocks_of, table
from tests.docs.test_code_blocks import dags_of, documents_sent, in_folder

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import DAG

INCREMENTAL, FILES = "docs/load/incremental-loads.md", "docs/load/load-dataframe.md"
LEDGER = "docs/operate/ledger.md"
pytestmark = pytest.mark.usefixtures("files")


def dag_on(page: str, name: str, folder: Path) -> DAG:
    """Return the DAG of this name on a page."""
    (block,) = [block for block in blocks_of(ROOT / page) if f"def {name}(" in block.code]
    (dag,) = dags_of(in_folder(block, folder))
    return dag


def queries(page: str) -> list[str]:
    return [block.code for block in blocks_of(ROOT / page) if block.language == "sql"]


NIGHTS = [
    lambda rows: rows,
    lambda rows: rows,
    lambda rows: [
        {**rows[0], "answer": "Within three working days."},
        *rows[1:],
        {**rows[0], "id": 20, "headline": "Gifts", "question": "Do you wrap gifts?"},
    ],
    lambda rows: [row for row in rows if row["id"] != 18],
]


@pytest.mark.promise("pages", "Counts that the documentation shows of four nights are what a load returns.")
def test_four_nights(connect, run_dag, service, tmp_path, monkeypatch):
    import duckdb

    connect()
    dag = dag_on(INCREMENTAL, "load_faq_nightly", tmp_path)
    rows: list[dict[str, Any]] = FAQ
    text = (ROOT / INCREMENTAL).read_text()
    said = table(text[text.index("\n| Night ") :])
    for night, change in zip(said, NIGHTS, strict=True):
        rows = change(rows)
        write_csv(tmp_path / "faq.csv", rows)
        before = documents_sent(service)
        run = run_dag(dag)
        assert run.state == "success"
        counts = run.xcom("load")
        columns = [name for name in night if name in counts]
        assert len(columns) == 6
        assert {name: str(counts[name]) for name in columns} == {name: night[name] for name in columns}, night
        assert documents_sent(service) - before == counts["requests"]

    monkeypatch.chdir(tmp_path)
    (query,) = queries(INCREMENTAL)
    left = duckdb.sql(query).fetchall()
    ids = {document["title"]: document["id"] for document in service.documents()[:3]}
    assert sorted(left) == [("stale", "18", ids["Shipping"]), ("superseded", "17", ids["Refunds"])]


def test_mapped_tasks_share_a_ledger_and_a_whole_load_judges_them(connect, run_dag, run_operator, service, tmp_path):
    connect()
    run = run_dag(dag_on(FILES, "load_faq_shards", tmp_path))
    counts = [run.xcom("load", map_index=index) for index in range(3)]
    assert [(one["created"], one["stale"]) for one in counts] == [(2, None)] * 3
    (tmp_path / "parquet" / "2.parquet").unlink()
    assert 'source_name="load_faq_shards.load"' in (ROOT / FILES).read_text()
    whole = run_operator(
        AssistantLoadQAOperator,
        source=str(tmp_path / "parquet"),
        columns={"title": "headline"},
        constants={"category": "faq"},
        key_columns=["id"],
        source_name="load_faq_shards.load",
    )
    counts = whole.xcom()
    assert (counts["created"], counts["unchanged"], counts["stale"]) == (0, 4, 2)
    assert documents_sent(service) == 6


def test_queries_on_the_ledger(connect, run_dag, service, ledger_home, tmp_path):
    connect()
    _create, in_doubt, _asked = queries(LEDGER)
    dag = dag_on(INCREMENTAL, "load_faq_nightly", tmp_path)
    run_dag(dag)
    path = ledger_home / "assistant_ledger.db"
    with closing(sqlite3.connect(path)) as ledger, ledger:
        assert ledger.execute(in_doubt).fetchall() == []
        ledger.execute("UPDATE assistant_attempts SET state = 'claimed' WHERE label = '17'")
        assert [row[0] for row in ledger.execute(in_doubt)] == ["load_faq_nightly"]
    with Ledger(sqlite_engine(path)) as opened:
        shown = settle(opened, Filter(which="unresolved"), "not-created")
        assert (shown.settled, shown.labels) == (1, ["17"])
        settle(opened, Filter(which="unresolved"), "not-created", confirmation=shown.confirmation)
    store = service.server.service.store
    (missing,) = [document for document in store.all(Document) if document.title == "Refunds"]
    store.delete(missing)
    counts = run_dag(dag).xcom("load")
    assert (counts["created"], counts["unchanged"], counts["possibly_duplicated"]) == (1, 2, 0)


@pytest.mark.promise("loads", "A renamed file is another document, and two files of one name are refused.")
def test_which_file_is_which(connect, run_operator, service, tmp_path):
    def upload(*folders):
        return run_operator(AssistantUploadFilesOperator, files=[str(one) for one in folders], source_name="handbook")

    connect()
    folder, other = tmp_path / "handbook", tmp_path / "other"
    assert upload(folder).xcom()["created"] == 2
    (folder / "refunds.txt").rename(folder / "money.txt")
    counts = upload(folder).xcom()
    assert (counts["created"], counts["unchanged"], counts["stale"]) == (1, 1, 1)
    other.mkdir()
    (other / "money.txt").write_text("Something else.")
    before = documents_sent(service)
    error = upload(folder, other).error
    assert isinstance(error, AssistantInputError)
    assert all(str(path / "money.txt") in str(error) for path in (folder, other))
    assert documents_sent(service) == before
