"""Every task records its try in the ledger: how it ended, its counts, its first findings and its report."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_assistant.exceptions import AssistantGateFailedError, AssistantIncompleteError
from airflow_provider_assistant.ledger import Ledger, queries
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.retention import AssistantRetentionOperator
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from tests.task_runs.context import execute_operator

pytest.importorskip("duckdb")
ASKED = [{"message": "Anything?", "expected": "Nothing."}, {"message": "More?", "expected": "No."}]


def execute(kind, **arguments):
    return execute_operator(kind(task_id="task", **arguments))


def last_try():
    with Ledger.open() as ledger:
        row = ledger.read(queries.page_of_tries).rows[0]
        kinds, rows = ledger.read(queries.findings_of, row["token"])
    return {**row, "kinds": kinds, "rows": rows}


@pytest.fixture
def answers(connection, tmp_path):
    path = str(tmp_path / "answers.parquet")
    execute(
        AssistantChatBatchOperator, source=ASKED, output_path=path, poll_interval=0.05, timeout=30, deferrable=False
    )
    return path


@pytest.mark.promise("pages", "Every task of the package is in the ledger with its counts, from its first try on.")
def test_every_kind_of_task_records_its_try(connection, answers, tmp_path):
    recorded = last_try()
    assert (recorded["task_kind"], recorded["counts"]["complete"], recorded["site_id"]) == (
        "chat_batch",
        2,
        "acme-docs",
    )
    lake = str(tmp_path / "lake")
    execute(AssistantLimitsToParquetOperator, output_path=lake)
    recorded = last_try()
    assert (recorded["task_kind"], recorded["outcome"], recorded["source"]) == ("export", "succeeded", "dag.task")
    assert recorded["counts"]["rows"] > 0
    execute(AssistantParquetToWarehouseOperator, output_path=lake, database=str(tmp_path / "w.duckdb"))
    assert (last_try()["task_kind"], last_try()["counts"]["datasets"].keys()) == ("warehouse", {"limits"})
    execute(AssistantRetentionOperator)
    assert last_try()["task_kind"] == "retention"


def test_an_evaluation_that_fails_its_gate_has_its_figures_and_its_report(answers, tmp_path):
    arguments = {"answers": answers, "output_path": str(tmp_path), "scorers": ["exact_match"], "name": "golden"}
    with pytest.raises(AssistantGateFailedError):
        execute(AssistantEvaluateOperator, **arguments, pass_if="exact_match >= 1", gate=["pass_rate >= 0.9"])
    recorded = last_try()
    assert (recorded["task_kind"], recorded["outcome"], recorded["source"]) == ("evaluation", "failed", "golden")
    assert (recorded["counts"]["verdict"], recorded["counts"]["pass_rate"]) == ("failed", 0)
    assert recorded["report"].endswith("/report.html")
    assert recorded["site_id"] == "acme-docs"
    # If the failed gate does not fail the task, the try is no plain success.
    execute(AssistantEvaluateOperator, **arguments, gate=["exact_match >= 0.9"], on_fail="report")
    assert last_try()["outcome"] == "succeeded with findings"


def test_ratings_that_fail_have_their_counts_and_findings(service, answers, tmp_path):
    rows = pq.read_table(answers).to_pylist()
    scores = {"key": ["a", "b"], "request_id": [row["request_id"] for row in rows], "token_f1": [0.0, 0.0]}
    pq.write_table(pa.table({**scores, "status": ["complete"] * 2}), tmp_path / "scores.parquet")
    service.answer("status:400", path=r"chat/feedback$", times=None)
    with pytest.raises(AssistantIncompleteError):
        execute(
            AssistantRateAnswersOperator,
            answers=answers,
            scores=str(tmp_path / "scores.parquet"),
            rules={"bad": "token_f1 < 0.5"},
        )
    recorded = last_try()
    assert (recorded["task_kind"], recorded["outcome"], recorded["counts"]["failed"]) == ("rating", "failed", 2)
    assert sum(recorded["kinds"].values()) == len(recorded["rows"]) == 2


def test_a_load_has_its_first_findings(connection):
    rows = [{"title": "T", "content": "", "category": "c"}] * 2 + [{"title": "T", "content": "C", "category": "c"}]
    execute(AssistantLoadTextOperator, source=rows, max_rejected=10)
    recorded = last_try()
    assert (recorded["outcome"], recorded["kinds"]) == ("succeeded", {"rejected": 2})
    assert [row["row"] for row in recorded["rows"]] == [1, 2]


def test_a_skip_is_no_failure(ledger_home, tmp_path, monkeypatch):
    def skip(*_):
        raise AirflowSkipException

    monkeypatch.setattr("airflow_provider_assistant.erasure.retention.prune_findings", skip)
    with pytest.raises(AirflowSkipException):
        execute(AssistantRetentionOperator)
    assert last_try()["outcome"] == "succeeded"


@pytest.mark.promise("pages", "A task that can do without the ledger goes on if the ledger cannot be used.")
def test_without_the_ledger_a_task_goes_on_with_a_warning(connection, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "nowhere")
    result = execute(AssistantLimitsToParquetOperator, output_path=str(tmp_path))
    assert result["rows"] > 0
    assert "This try is not recorded" in caplog.text


def test_results_of_the_service_are_kept_as_short_plain_json(service, connection, tmp_path):
    """A result of any operator may have anything that a service has sent."""
    from airflow_provider_assistant.operators.tries import _plain

    value = {"x": float("nan"), "deep": [[[[1]]]], "long": "y" * 5000, "many": list(range(500)), 7: {1}}
    assert _plain(value) == {
        "x": None,
        "deep": [["[[1]]"]],
        "long": "y" * 999 + "…",
        "many": list(range(100)),
        "7": "{1}",
    }
