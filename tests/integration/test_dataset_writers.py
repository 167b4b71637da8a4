"""What each operator writes is what the datasets say to other programs."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.lake.datasets import DATASETS, dataset_of
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import execute_operator
from tests.wire import Answer, ScriptedService

ODD = 'O\'Neil "größe" \\ 🙂\n{{ x }} -- %s'
REPLY = {"period": {"from": ODD, "days": 1.5}, "a.b": {"": [None, {}, []]}, "huge": 10**400, ODD: [ODD, "0.94", True]}
EXPORTS = (
    AssistantFeedbackToParquetOperator,
    AssistantRequestsToParquetOperator,
    AssistantLoadsToParquetOperator,
)


@pytest.mark.promise(
    "lake and warehouse",
    "Every operator writes the columns and types that its dataset names.",
)
def test_every_dataset_is_written_as_the_contract_says(service, connection, monkeypatch, tmp_path):
    root = str(tmp_path / "lake")

    def run(operator_class, task_id, **arguments):
        return execute_operator(operator_class(task_id=task_id, **arguments))

    rows = [{"title": ODD, "question": ODD, "answer": ODD}, {"title": "Empty", "question": "Q?", "answer": ""}]
    run(AssistantLoadQAOperator, "load", source=rows, key_columns=["title"], max_rejected=1, lake_path=root)
    asked = run(
        AssistantChatBatchOperator,
        "ask",
        source=[{"message": ODD}],
        output_path=str(tmp_path / "answers.parquet"),
        poll_interval=0.02,
        lake_path=root,
    )
    run(
        AssistantEvaluateOperator,
        "evaluate",
        answers=asked["output_path"],
        expectations=[{"key": ODD, "must_include": "zzz"}],
        scorers=["must_include"],
        pass_if="must_include >= 1",
        output_path=str(tmp_path / "evaluations"),
        lake_path=root,
    )
    answered = pq.ParquetFile(asked["output_path"]).read().to_pylist()[0]
    ids = {name: answered[name] for name in ("session_id", "request_id")}
    run(AssistantFeedbackOperator, "rate", feedback="bad", **ids)
    for export in EXPORTS:
        run(export, export.__name__, output_path=root)
    with ScriptedService(Answer(200, json.dumps(REPLY).encode())) as replies:
        fields = {"conn_type": "assistant", "host": replies.url, "password": "key-of-a-test"}
        fields["extra"] = {"tenant_id": ODD.replace("\n", " "), "site_id": "odd"}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        run(AssistantStatisticsToParquetOperator, "statistics", output_path=root)
        run(AssistantLimitsToParquetOperator, "limits", output_path=root)
        run(AssistantReadToParquetOperator, "read", path="/any/thing", dataset="thing", output_path=root)

    for name in (*DATASETS, "thing"):
        files = [path for path in (tmp_path / "lake" / name).rglob("*.parquet") if pq.read_metadata(path).num_rows]
        assert files, name
        for path in files:
            assert pq.read_schema(path).remove_metadata() == dataset_of(name).schema()
            assert path.parent.name.startswith("date=")
    assert {folder.name for folder in (tmp_path / "lake").iterdir()} == {*DATASETS, "thing"}
