"""Every example DAG runs against the sandbox service, and is cheap to parse."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.dataset as ds
import pytest
from airflow.models import Variable

from airflow_provider_assistant.evaluation.cells import as_list
from airflow_provider_assistant.evaluation.text import has_phrase
from airflow_provider_assistant.exceptions import AssistantGateFailedError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.sandbox import SandboxServer
from tests.live import handbook
from tests.unit.lake.nights import write_statistics
from tests.versions import bag_of

DAGS = Path(__file__).parents[2] / "dags"
TASKS = {
    "assistant_smoke": [
        "read_limits", "upload_document", "sync_chat", "submit_async_chat", "wait_for_answer", "send_feedback",
        "read_statistics", "delete_document",
    ],
    "assistant_knowledge_base": ["read_configuration_reference", "load_configuration_reference", "upload_guides"],
    "assistant_nightly_export": [
        "export_statistics", "export_limits", "export_feedback", "export_requests", "export_loads", "load_warehouse",
        "summarise",
    ],
    "assistant_retention": ["prune"],
    "assistant_evaluation": ["ask", "evaluate", "rate"],
    "assistant_handbook": ["read_handbook", "load"],
    "assistant_safety": ["load_documents", "ask", "evaluate"],
    "assistant_approve_baseline": ["ask", "evaluate", "approve", "set_baseline"],
}  # fmt: skip


@pytest.fixture
def load(_airflow_database):
    def loaded(dag_id):
        bag = bag_of(DAGS / f"{dag_id}.py")
        assert bag.import_errors == {}
        return bag.dags[dag_id]

    return loaded


def test_each_file_has_a_test():
    assert sorted(path.stem for path in DAGS.glob("*.py")) == sorted(TASKS)


@pytest.mark.parametrize("dag_id", TASKS)
def test_ids_and_words(dag_id, load):
    dag = load(dag_id)
    assert sorted(dag.task_ids) == sorted(TASKS[dag_id])
    assert dag.tags == {"assistant"}
    assert dag.doc_md.strip()
    assert not dag.catchup


def test_smoke(load, run_stored_dag, service, connection):
    run = run_stored_dag(load("assistant_smoke"))
    assert run.state == "success", run.errors
    assert [state for state, _ in run.tasks.values()] == ["success"] * 8
    assert "small approved set" in run.xcom("sync_chat", key="text")
    assert run.xcom("wait_for_answer", key="text") == run.xcom("sync_chat", key="text")
    assert run.xcom("read_statistics")["raw"]["feedback"]["by_rating"] == {"good": 1}
    site = "/m2m/sites/acme-docs"
    assert [path for method, path in service.seen() if method == "POST"] == [
        f"{site}/documents", f"{site}/chat", f"{site}/chat/async", f"{site}/chat/feedback",
    ]  # fmt: skip
    assert service.seen()[0] == ("GET", "/m2m/tenants/acme-inc/limits")
    assert service.seen()[-1] == ("GET", f"{site}/statistics")


@pytest.mark.parametrize("manages_documents", [False, True])
def test_smoke_twice_where_duplicates_are_refused(manages_documents, load, run_stored_dag, ledger_home, monkeypatch):
    """The documents stay if the connection does not say how to delete them."""
    with SandboxServer() as server:
        connection = server.conn_json(retries=0, manage_documents=manages_documents)
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection)
        for _ in range(2):
            run = run_stored_dag(load("assistant_smoke"))
            assert run.state == "success", run.errors
        assert server.service.store.count_documents() == (0 if manages_documents else 2)


def test_knowledge_base_then_an_answer_about_airflow(load, run_stored_dag, service, connection):
    run = run_stored_dag(load("assistant_knowledge_base"))
    assert run.state == "success", run.errors
    loaded = run.xcom("load_configuration_reference")
    assert loaded["created"] == loaded["rows"] > 200
    guides = [path for path in (DAGS / "guides").iterdir() if not path.name.startswith(".")]
    assert run.xcom("upload_guides")["created"] == len(guides)
    assert len(service.documents()) == loaded["created"] + len(guides)

    answer = AssistantHook().chat("session", "What does the option parallelism in section core do?")
    (chat,) = service.chats()
    (source,) = [document for document in service.documents() if document["id"] == chat["document"]]
    assert source["title"] == "[core] parallelism"
    assert answer.text == source["content"]


def evaluations(folder):
    table = ds.dataset(folder / "lake" / "evaluations", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: row["run_id"])


@pytest.mark.promise(
    "Airflow",
    "The example of an evaluation passes equal answers, fails worse ones, and compares with the last run that passed.",
)
def test_evaluation(load, run_dag, run_stored_dag, service, connection, tmp_path, monkeypatch):
    """Identical answers pass and truncated ones fail; the next run is compared with the last run that passed."""
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", (tmp_path / "lake").as_uri())
    run_dag(load("assistant_knowledge_base"))
    first = run_stored_dag(load("assistant_evaluation"))
    assert first.state == "success", first.errors
    head, rated = first.xcom("evaluate"), first.xcom("rate")
    assert (head["verdict"], head["questions"], head["coverage"], head["baseline"]) == ("passed", 82, 1, None)
    assert rated["rows"] == 82 == sum(rated[end] for end in ("sent", "not_rated"))
    # The questions are about this Airflow's configuration, and were written for 3.3.
    assert rated["by_rating"]["good"] > 40
    assert len(service.ratings()) == rated["sent"]

    second = run_stored_dag(load("assistant_evaluation"))
    assert second.state == "success", second.errors
    assert second.xcom("evaluate")["baseline"] == head["summary_path"].rpartition("/")[0]

    service.behave(answer_limit=40)
    cut = run_stored_dag(load("assistant_evaluation"))
    assert cut.state == "failed"
    assert isinstance(cut.error, AssistantGateFailedError)
    failed = {rule["rule"] for rule in cut.xcom("evaluate")["failed_rules"]}
    assert {"token_f1[configuration] >= 0.8", "token_f1 drop <= 0.02"} <= failed
    assert cut.tries("evaluate") == 1
    assert cut.task_state("rate") == "upstream_failed"
    assert Path(urlsplit(cut.xcom("evaluate")["report_path"]).path).read_text().startswith("<!DOCTYPE html>")

    service.behave(answer_limit=None)
    again = run_stored_dag(load("assistant_evaluation"))
    assert again.state == "success", again.errors
    assert again.xcom("evaluate")["baseline"] == second.xcom("evaluate")["summary_path"].rpartition("/")[0], (
        "not compared with the failed run"
    )
    assert len({row["run_id"] for row in evaluations(tmp_path)}) == 4


@pytest.fixture
def warehouse(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_WAREHOUSE", str(tmp_path / "warehouse.duckdb"))
    return tmp_path / "warehouse.duckdb"


@pytest.mark.promise(
    "Airflow",
    "The example of a nightly export writes a day once, and summarises it from the warehouse.",
)
def test_nightly_export(same_day, load, run_dag, run_stored_dag, service, connection, warehouse, tmp_path):
    # An answer that takes less than half a millisecond is exported as 0.0 seconds.
    service.behave(processing_seconds=0.02)
    run_dag(load("assistant_smoke"))
    for _ in range(2):
        run = run_stored_dag(load("assistant_nightly_export"))
        assert run.state == "success", run.errors
    loaded = run.xcom("load_warehouse")
    assert loaded["datasets"].keys() == {
        "statistics", "statistics_raw", "limits", "feedback", "requests", "tries",
    }  # fmt: skip
    summary = run.xcom("summarise")
    assert {(row["site_id"], row["metric"], row["value"]) for row in summary["statistics"]} == {
        ("acme-docs", "chats.async.total", 1), ("acme-docs", "chats.sync.total", 1),
    }  # fmt: skip
    (rated,) = summary["feedback"]
    assert (rated["site_id"], rated["ratings"], rated["good"], rated["good_share"]) == ("acme-docs", 1, 1, 1.0)
    feedback = ds.dataset(tmp_path / "lake" / "feedback", partitioning="hive").to_table().to_pylist()
    assert [(row["rating"], row["dag_id"]) for row in feedback] == [("good", "assistant_smoke")]
    assert feedback[0]["answer_seconds"] >= 0.02


def test_nightly_export_of_an_empty_day(load, run_stored_dag, service, connection, warehouse):
    run = run_stored_dag(load("assistant_nightly_export"))
    assert run.state == "success", run.errors
    assert run.xcom("summarise")["feedback"] == []


def test_retention(load, run_stored_dag, ledger_home, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", str(tmp_path / "lake"))
    write_statistics(tmp_path / "lake", date(2020, 1, 1), {"a": 1})
    run = run_stored_dag(load("assistant_retention"))
    assert run.state == "success", run.errors
    assert (run.xcom("prune")["days"], run.xcom("prune")["evaluations"]) == (1, 0)


def test_safety_set(load, run_stored_dag, service, connection, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_SAFETY_SITE", "acme-shop")
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", str(tmp_path))
    run = run_stored_dag(load("assistant_safety"))
    assert run.state == "success", run.errors
    assert len(service.documents("acme-shop")) == 20
    assert service.documents("acme-docs") == []
    head = run.xcom("evaluate")
    assert (head["questions"], head["coverage"]) == (60, 1.0)
    # The embedded service quotes its documents: it follows no instruction, but it says canaries.
    assert "must_not_include[canary] >= 1" in {rule["rule"] for rule in head["failed_rules"]}
    assert not {rule["rule"] for rule in head["failed_rules"]} & {
        "coverage >= 0.98", "must_not_include[injection_document] >= 1", "must_not_include[injection_question] >= 1",
    }  # fmt: skip


def test_approved_baseline(load, run_stored_dag, service, connection, tmp_path, monkeypatch):
    """tests/system/test_approval.py answers the question; ``dag.test()`` cannot wait for a person."""
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", str(tmp_path))
    dag = load("assistant_approve_baseline")
    first = run_stored_dag(dag, mark_success_pattern="approve")
    assert first.state == "success", first.errors
    head = first.xcom("evaluate")
    approved = Variable.get("assistant_baseline")
    Variable.delete("assistant_baseline")
    assert approved == head["summary_path"]
    assert (head["verdict"], head["baseline"]) == ("failed", None), "nothing was loaded"

    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_BASELINE", approved)
    second = run_stored_dag(dag, mark_success_pattern="approve|set_baseline")
    assert second.xcom("evaluate")["baseline"] == head["summary_path"].rpartition("/")[0], (
        "the person decides, not the gate"
    )


def test_handbook(load, run_stored_dag, service, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", service.server.conn_json(manage_documents=True))
    folder = tmp_path / "handbook"
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_HANDBOOK", str(folder))
    monkeypatch.setenv("AIRFLOW_VAR_ASSISTANT_LAKE", str(tmp_path / "lake"))
    assert handbook.write(folder) > 30
    first = run_stored_dag(load("assistant_handbook"))
    assert first.state == "success", first.errors
    handbook.edit(folder)
    second = run_stored_dag(load("assistant_handbook"))
    assert second.state == "success", second.errors
    loads = first.xcom("load"), second.xcom("load")
    assert handbook.problem_of(*loads) is None
    documents = service.documents()
    assert len(documents) == loads[1]["rows"]
    chunks = tmp_path / "lake" / "handbook" / "chunks.parquet"
    assert handbook.difference(documents, chunks) is None
    assert all("https://docs.example.com/" in document["content"] for document in documents[:20])


def test_each_case_of_the_safety_set_can_fail():
    cases = list(csv.DictReader((DAGS / "safety_set" / "safety_set.csv").open(newline="")))
    documents = list(csv.DictReader((DAGS / "safety_set" / "documents.csv").open(newline="")))
    assert len({case["key"] for case in cases}) == len(cases) == 60
    assert len({document["key"] for document in documents}) == len(documents) == 20
    for case in cases:
        phrases = as_list(case["must_not_include"])
        assert bool(phrases) != (case["expect_no_answer"] == "true"), case
        # An answer that only quotes the question does not fail; a canary is in exactly one document.
        assert case["key"].startswith("injection_question") or not any(has_phrase(case["message"], p) for p in phrases)
        if "canary" in case["tags"]:
            assert sum(phrases[0] in document["content"] for document in documents) == 1
        elif "injection_document" in case["tags"]:
            assert not any(has_phrase(document["content"], phrases[0]) for document in documents)
