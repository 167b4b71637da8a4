"""Task loops of Airflow 3.4: all iterations have the same DAG, run, task and map index."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, task_group
from fastapi.testclient import TestClient

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from tests.task_runs.context import task_context
from tests.versions import needs

ITERATIONS, QUESTIONS = 3, 2
QA = [{"title": "T", "question": "Q?", "answer": "A", "category": "c"}]


def build(folder):
    answers = f"{folder}/{{{{ ti.region_index }}}}.parquet"

    @task_group
    def body():
        submit = AssistantSubmitChatOperator(task_id="submit", session_id="loop", message="When?")
        load = AssistantLoadQAOperator(task_id="load", source=QA)
        ask = AssistantChatBatchOperator(
            task_id="ask",
            source=[{"message": f"Question {number}?"} for number in range(QUESTIONS)],
            output_path=answers,
            poll_interval=0.05,
            deferrable=False,
        )
        evaluate = AssistantEvaluateOperator(
            task_id="evaluate",
            answers=answers,
            output_path=f"{folder}/evaluations",
            name="loop-{{ ti.region_index }}",
            scorers=["latency"],
        )
        submit >> load >> ask >> evaluate

    body.loop(max_iterations=ITERATIONS)


@pytest.fixture
def run(service, connection, run_dag, tmp_path):
    with DAG("looped", schedule=None) as dag:
        build(tmp_path)
    run = run_dag(dag)
    assert run.state == "success", run.errors
    return run


@needs("task loops")
def test_every_iteration_has_its_own_effects_and_report(run, service, tmp_path, monkeypatch):
    from airflow_provider_assistant.ui.access import may_see_task
    from airflow_provider_assistant.ui.app import app

    submitted = [run.xcom("body.submit", index)["request_id"] for index in range(ITERATIONS)]
    asked = [
        row["request_id"]
        for index in range(ITERATIONS)
        for row in pq.read_table(tmp_path / f"{index}.parquet").to_pylist()
    ]
    assert len({*submitted, *asked}) == ITERATIONS * (1 + QUESTIONS)
    assert service.posts("/chat/async$") == ITERATIONS * (1 + QUESTIONS)
    # A document is not an effect of an iteration: the first creates it, the others find it unchanged.
    loads = [run.xcom("body.load", index, key="created") for index in range(ITERATIONS)]
    assert (loads, service.posts("/documents/qa$")) == ([1, 0, 0], 1)

    monkeypatch.setitem(app.dependency_overrides, may_see_task, lambda: None)
    client = TestClient(app)
    for index in range(ITERATIONS):
        link = run.xcom("body.evaluate", index, key="_link_AssistantReportLink")
        shown = client.get(link.removeprefix("/assistant"))
        assert shown.status_code == 200, shown.text
        assert [number for number in range(ITERATIONS) if f"loop-{number}" in shown.text] == [index]


REGION = UUID(int=7)


def execute(operator, iteration):
    """Execute an operator as an iteration of a loop, in any version of Airflow."""
    loop = {"loop": SimpleNamespace(index=iteration)}
    operator.render_template_fields(loop)
    context = task_context(region_id=REGION, region_index=iteration)
    return operator.execute({**context, **loop})


def test_every_iteration_of_a_loop_asks_its_batch_once(service, connection, tmp_path):
    def asked(number):
        ask = AssistantChatBatchOperator(
            task_id="ask",
            source=[{"message": f"{one}?"} for one in range(3)],
            output_path=f"{tmp_path}/{{{{ loop.index }}}}.parquet",
            poll_interval=0.05,
            deferrable=False,
        )
        execute(ask, number)
        return pq.read_table(tmp_path / f"{number}.parquet")["request_id"].to_pylist()

    first = [asked(number) for number in range(3)]
    assert len({one for ids in first for one in ids}) == service.posts("chat/async") == 9
    assert [asked(number) for number in range(3)] == first
    assert service.posts("chat/async") == 9


def test_an_iteration_of_a_loop_does_not_load_again_what_another_loaded(service, connection):
    rows = [{"title": "T", "question": f"{one}?", "answer": "A", "category": "c"} for one in range(3)]
    results = [execute(AssistantLoadQAOperator(task_id="load", source=rows), number) for number in range(3)]
    assert [(one["created"], one["unchanged"]) for one in results] == [(3, 0), (0, 3), (0, 3)]
    assert len(service.documents()) == 3


def test_an_iteration_of_a_loop_rates_once(service, connection):
    chat = execute(AssistantSubmitChatOperator(task_id="chat", session_id="s", message="Hello?"), 0)
    fields = {"session_id": "s", "request_id": chat["request_id"], "feedback": "good"}
    sent = [execute(AssistantFeedbackOperator(task_id="rate", **fields), number)["sent"] for number in range(2)]
    assert sent == [True, False]
