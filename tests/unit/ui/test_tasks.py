"""The tab of a task instance: real tasks against the embedded service, with what can go wrong with their files."""

from __future__ import annotations

import csv
import io
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.ui import findings
from tests.unit.ui.conftest import HOSTILE

ROWS = [{"title": "T", "question": f"Q {n}?", "answer": f"Answer {n}.", "category": "faq"} for n in range(4)]
BAD = [{**ROWS[0], "question": HOSTILE, "answer": " "}, {**ROWS[0], "question": "=1+1", "answer": ""}]
LOAD = {"source": [*ROWS, *BAD], "key_columns": "question"}


def place(run, task_id="task", map_index=-1):
    return f"/api/tasks/{run.dag_id}/{quote(run.run_id, safe='')}/{task_id}/{map_index}"


@pytest.fixture
def loaded(connection, run_stored):
    """A load that fails because two of six rows are rejected."""
    return run_stored(AssistantLoadQAOperator, **LOAD)


def test_a_failed_load_has_its_tries_and_its_findings(loaded, admin):
    assert loaded.task_state() == "failed"
    found = admin.get(place(loaded)).json()
    assert (found["kind"], found["operator"], found["state"]) == ("load", "AssistantLoadQAOperator", "failed")
    (load,) = found["tries"]
    counts = load["counts"]
    outcomes = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")
    assert sum(counts[name] for name in outcomes) == counts["rows"] == 6
    assert (load["outcome"], counts["rejected"], found["problem"]) == ("failed", 2, None)
    assert (found["has_findings"], found["may_settle"]) == (True, True)
    listed = admin.get(f"{place(loaded)}/findings").json()
    assert listed["kinds"] == [{"kind": "rejected", "count": 2}]
    assert [row["key"] for row in listed["rows"]] == [HOSTILE.replace("\x07", "\x07"), "=1+1"]
    assert all(row["reason"] for row in listed["rows"])


def test_findings_are_filtered_and_paged(loaded, admin):
    url = f"{place(loaded)}/findings"
    page = admin.get(f"{url}?limit=1&offset=1").json()
    assert (page["total"], [row["row"] for row in page["rows"]]) == (2, [6])
    other = admin.get(f"{url}?kind=stale").json()
    assert (other["total"], other["rows"], len(other["kinds"])) == (0, [], 1)


def test_findings_as_csv_are_no_formulas(loaded, admin):
    reply = admin.get(f"{place(loaded)}/findings.csv")
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    assert reply.headers["content-disposition"].startswith("attachment; ")
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert [row["key"] for row in rows] == [HOSTILE, "'=1+1"]
    assert admin.get(f"{place(loaded)}/findings.csv?kind=stale").text.splitlines() == [
        "kind,row,key,reason,document_ids,group"
    ]


def test_the_findings_of_a_failed_load_are_where_the_task_says(connection, run_stored, tmp_path, admin):
    run = run_stored(AssistantLoadQAOperator, **LOAD, findings_path=f"{tmp_path}/{{{{ run_id }}}}.parquet")
    found = admin.get(f"{place(run)}/findings").json()
    assert (found["path"], found["total"]) == (f"{tmp_path}/{run.run_id}.parquet", 2)


def test_a_load_that_succeeds_without_findings(connection, run_stored, admin):
    run = run_stored(AssistantLoadQAOperator, source=ROWS, key_columns="question")
    found = admin.get(f"{place(run)}/findings").json()
    assert (found["path"], found["rows"], found["problem"]) == (None, [], None)
    assert admin.get(f"{place(run)}/findings.csv").status_code == 404
    (load,) = admin.get(place(run)).json()["tries"]
    assert (load["outcome"], load["counts"]["created"]) == ("succeeded", 4)


@pytest.mark.parametrize("content", [b"sesame-1234", b"PAR1sesame-1234", "other columns", None])
def test_a_file_that_is_not_findings_is_not_shown(content, connection, run_stored, tmp_path, admin):
    path = tmp_path / "findings.parquet"
    run = run_stored(AssistantLoadQAOperator, **LOAD, findings_path=str(path))
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(pa.table({"kind": ["sesame-1234"], "row": [1]}), path)
    found = admin.get(f"{place(run)}/findings").json()
    assert (found["problem"]["code"], found["rows"]) == ("unreadable", [])
    assert str(path) in found["problem"]["text"]
    refused = admin.get(f"{place(run)}/findings.csv")
    assert refused.status_code == 404
    assert "sesame" not in str(found) + refused.text


def test_a_chat_batch_adds_up(connection, run_stored, tmp_path, admin):
    questions = [{"message": f"What is {number}?"} for number in range(3)]
    run = run_stored(
        AssistantChatBatchOperator, source=questions, output_path=f"{tmp_path}/answers.parquet", poll_interval=0.05
    )
    found = admin.get(place(run)).json()
    batch = found["batch"]
    assert (found["kind"], batch["rows"], batch["complete"], batch["submitted"]) == ("chat_batch", 3, 3, 3)
    assert sum(one["count"] for one in batch["histogram"]) == 3
    assert batch["p50"] is not None
    assert batch["output_path"] == f"{tmp_path}/answers.parquet"
    (tmp_path / "answers.parquet").write_bytes(b"damaged")
    batch = admin.get(place(run)).json()["batch"]
    assert (batch["histogram"], batch["problem"]["code"], batch["complete"]) == ([], "unreadable", 3)


def test_a_failed_chat_batch_is_counted_from_its_file(connection, run_stored, tmp_path, admin, service):
    service.answer("status:400", path="/chat/async$")
    questions = [{"message": f"What is {number}?"} for number in range(3)]
    run = run_stored(
        AssistantChatBatchOperator,
        source=questions,
        output_path=f"{tmp_path}/answers.parquet",
        poll_interval=0.05,
        max_concurrency=1,
    )
    assert run.task_state() == "failed"
    batch = admin.get(place(run)).json()["batch"]
    statuses = ("complete", "failed", "timed_out", "lost", "not_submitted")
    assert sum(batch[name] for name in statuses) == batch["rows"] == 3
    assert (batch["not_submitted"], batch["submitted"]) == (1, None)


def test_an_evaluation_has_its_verdict_and_its_report(run_stored, tmp_path, admin, ledger_home):
    answers = pa.table({"key": ["a"], "message": ["?"], "answer": ["no"], "status": ["complete"], "expected": ["yes"]})
    pq.write_table(answers, tmp_path / "answers.parquet")
    run = run_stored(
        AssistantEvaluateOperator,
        answers=str(tmp_path / "answers.parquet"),
        output_path=str(tmp_path / "evaluations"),
        scorers=["exact_match"],
        gate=["exact_match >= 0.5"],
    )
    found = admin.get(place(run)).json()
    evaluation = found["evaluation"]
    assert (found["kind"], evaluation["verdict"], evaluation["means"]) == ("evaluation", "failed", {"exact_match": 0.0})
    (failed,) = evaluation["failed_rules"]
    assert (failed["rule"], failed["verdict"]) == ("exact_match >= 0.5", "failed")
    assert failed["reason"].startswith("exact_match is 0")
    assert admin.get(evaluation["report"].removeprefix("/assistant")).status_code == 200


def test_an_export_has_what_it_wrote(connection, run_stored, tmp_path, admin):
    run = run_stored(AssistantLimitsToParquetOperator, output_path=str(tmp_path / "lake"))
    found = admin.get(place(run)).json()
    (written,) = found["written"]
    assert (found["kind"], written["name"], written["url"]) == ("export", "limits", None)
    assert written["rows"] > 0
    assert written["path"].startswith(str(tmp_path / "lake"))


def test_other_tasks_and_none_at_all(run_stored, admin, ledger):
    from airflow.sdk import task

    @task
    def other():
        return {"rows": 3}

    run = run_stored(other)
    found = admin.get(place(run, "other")).json()
    assert (found["kind"], found["tries"], found["written"], found["has_findings"]) == ("other", [], [], False)
    assert admin.get(place(run, "gone")).json()["kind"] == "unknown"


def test_ratings_are_a_task_of_this_package(result, admin, ledger):
    result.put('{"rows": 2, "sent": 2, "findings": null}')
    result.operator("AssistantRateAnswersOperator")
    found = admin.get(f"/api/tasks/{result.path}").json()
    assert (found["kind"], found["has_findings"], found["problem"]) == ("ratings", True, None)


def test_the_page_of_a_mapped_task_says_so(connection, run_stored, admin):
    def mapped():
        AssistantLoadQAOperator.partial(task_id="task", key_columns="question", multiple_outputs=False).expand(
            source=[ROWS[:2], ROWS[2:]]
        )

    run = run_stored(mapped)
    assert admin.get(place(run)).json()["is_mapped_summary"] is True
    second = admin.get(place(run, map_index=1)).json()
    assert (second["is_mapped_summary"], second["tries"][0]["counts"]["created"]) == (False, 2)


def test_a_histogram_counts_every_value():
    assert findings.histogram([]) == []
    bins = findings.histogram([0.0, 0.5, 1.0, 1.0])
    assert (len(bins), sum(one.count for one in bins), bins[-1].count) == (findings.BINS, 4, 2)
    assert (bins[0].low, bins[-1].high) == (0.0, 1.0)
    assert sum(one.count for one in findings.histogram([0.0, 0.0])) == 2
