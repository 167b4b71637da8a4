"""
Execute every operator as if pandas was not installed, on data of other libraries, and print the names of the tasks.

test_without_pandas.py runs this in a process of its own, because other tests have imported pandas.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow.parquet as pq
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.operators.chat import AssistantChatOperator, AssistantCloseSessionOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import AssistantLimitsToParquetOperator
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)
EVERY = [
    {"key": f"q{number}", "message": f"Question {number}?", "expected": f"Answer {number}", "weight": number + 0.5}
    | {"changed_at": NIGHT + timedelta(days=number), "tags": ["all", f"tag {number}"], "about": {"number": number}}
    for number in range(5)
]


class Refusal:
    """Refuse to import pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise if the module is pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
        return None


def context(task_id: str) -> dict[str, Any]:
    """Return what the operators read of Airflow's task context."""
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id=task_id, map_index=-1, max_tries=0, xcom_push=print)
    return {
        "ti": ti,
        "dag_run": SimpleNamespace(run_after=NIGHT, logical_date=NIGHT, run_id="run"),
        "outlet_events": MagicMock(),
        "task": SimpleNamespace(get_direct_relatives=lambda upstream: []),
    }


def run(kind: type, task_id: str, **arguments: Any) -> Any:
    """Execute an operator; if it defers, run its trigger and resume it."""
    operator = kind(task_id=task_id, **arguments)
    operator.render_template_fields({})
    try:
        return operator.execute(context(task_id))
    except TaskDeferred as deferral:
        event = asyncio.run(_event(deferral.trigger))
        resumed = kind(task_id=task_id, **arguments)
        resumed.render_template_fields({})
        return getattr(resumed, deferral.method_name)(context(task_id), event)


async def _event(trigger: Any) -> Mapping[str, Any]:
    async for event in trigger.run():
        return event.payload
    raise RuntimeError("the trigger ended without an event")


def sources(folder: Path) -> dict[str, Any]:
    """Return the questions in every form but that of pandas."""
    files = {path.suffix: str(path) for path in sorted(folder.glob("questions.*"))}
    return {"list": EVERY, "arrow": pq.ParquetFile(files[".parquet"]).read(), **files}


def tasks(folder: Path) -> Iterator[tuple[str, Any]]:
    """Execute every operator, and yield its name and its result."""
    some = sources(folder)
    lake = {"output_path": str(folder / "lake")}
    known = {"columns": {"title": "key", "question": "message", "answer": "expected"}, "constants": {"category": "x"}}
    known |= {"key_columns": ["key"], "adopt": True, "on_missing": "ignore"}
    for form, source in some.items():
        yield f"load {form}", run(AssistantLoadQAOperator, f"load_{form.strip('.')}", source=source, **known)
    bad = {"source": [{"title": "", "question": "", "answer": ""}], "max_rejected": 1, "namespace": "bad"}
    yield "load with findings", run(AssistantLoadQAOperator, "bad", **bad, findings_path=str(folder / "bad.parquet"))
    (folder / "guide.txt").write_text("A guide.")
    yield "upload", run(AssistantUploadFilesOperator, "upload", files=str(folder / "guide.txt"))
    asked = {"key_columns": ["key"], "poll_interval": 0.05, "timeout": 30}
    for form, source in some.items():
        for mode, deferrable in (("sync", False), ("async", False), ("async", True)):
            task_id = f"ask_{form.strip('.')}_{mode}_{deferrable}"
            options = {"mode": mode, "deferrable": deferrable, "output_path": str(folder / f"{task_id}.parquet")}
            yield task_id, run(AssistantChatBatchOperator, task_id, source=source, **asked, **options)
            # The output of the first run has the answers: the second reads them.
            yield f"{task_id} again", run(AssistantChatBatchOperator, task_id, source=source, **asked, **options)
    answers = str(folder / "ask_list_async_True.parquet")
    judged = {"gate": ["coverage >= 0"], "lake_path": lake["output_path"], "scorers": ["token_f1", "chrf", "latency"]}
    judged["pass_if"] = "token_f1 >= 0.5"
    for task_id, given in (("judge", answers), ("judge_rows", [row | {"answer": "Yes"} for row in EVERY])):
        options = {"answers": given, "expectations": EVERY, "output_path": str(folder / task_id), **judged}
        first = run(AssistantEvaluateOperator, task_id, **options, name=task_id)
        yield task_id, first
        options["baseline"] = str(Path(first["scores_path"]).parent)
        yield f"{task_id} again", run(AssistantEvaluateOperator, f"{task_id}_again", **options, name="again")
        if task_id == "judge":
            scores = first["scores_path"]
            rules = {"good": "token_f1 >= 0"}
            yield "rate", run(AssistantRateAnswersOperator, "rate", answers=answers, scores=scores, rules=rules)
    yield "chat", run(AssistantChatOperator, "chat", session_id="s1", message="Yes?")
    for deferrable in (False, True):
        task_id = f"submit_{deferrable}"
        options = {"session_id": task_id, "message": "Yes?", "wait_for_completion": True, "deferrable": deferrable}
        found = run(AssistantSubmitChatOperator, task_id, **options, poll_interval=0.05)
        yield task_id, found
        sensed = {"request_id": found["request_id"], "deferrable": deferrable, "poke_interval": 0.05}
        yield f"sensor {deferrable}", run(AssistantChatRequestSensor, f"sense_{deferrable}", **sensed)
    rating = {"session_id": options["session_id"], "request_id": found["request_id"], "feedback": "good"}
    yield "feedback", run(AssistantFeedbackOperator, "feedback", **rating)
    yield "close", run(AssistantCloseSessionOperator, "close", session_id="s1")
    yield "limits", run(AssistantLimitsOperator, "limits")
    yield "export statistics", run(AssistantStatisticsToParquetOperator, "statistics", **lake)
    yield "export limits", run(AssistantLimitsToParquetOperator, "export_limits", **lake)
    yield "export read", run(AssistantReadToParquetOperator, "export_read", read="statistics", **lake)
    today = {"date": datetime.now(UTC).date().isoformat(), **lake}
    for kind in (
        AssistantFeedbackToParquetOperator,
        AssistantRequestsToParquetOperator,
        AssistantLoadsToParquetOperator,
    ):
        yield kind.__name__, run(kind, kind.__name__, **today)
        yield f"{kind.__name__} again", run(kind, kind.__name__, **today)
    yield "warehouse", run(AssistantParquetToWarehouseOperator, "load", **today, database=str(folder / "lake.duckdb"))


def main(folder: Path) -> None:
    """Run every task, and print their names."""
    if "pandas" in sys.modules:
        raise RuntimeError("a module of Airflow or of this package imports pandas")
    sys.meta_path.insert(0, Refusal())
    print(json.dumps([name for name, _ in tasks(folder)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
