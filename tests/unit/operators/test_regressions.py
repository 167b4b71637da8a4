"""Regression tests of the operators, one per defect."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pyarrow.parquet as pq

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from tests.task_runs.context import task_context

REGION = UUID(int=7)


def execute(operator, iteration=None):
    loop = {"loop": SimpleNamespace(index=iteration)}
    operator.render_template_fields(loop)
    if iteration is None:
        return operator.execute(task_context())
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
    chat = execute(AssistantSubmitChatOperator(task_id="chat", session_id="s", message="Hello?", deferrable=False))
    fields = {"session_id": "s", "request_id": chat["request_id"], "feedback": "good"}
    sent = [execute(AssistantFeedbackOperator(task_id="rate", **fields), number)["sent"] for number in range(2)]
    assert sent == [True, False]
