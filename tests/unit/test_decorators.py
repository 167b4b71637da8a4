"""Task decorators: what a function returns is loaded or asked, in a DAG run."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG, task
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantRateLimitError
from tests.versions import deserialize, read_back, serialize_arguments

ROWS = [
    {"title": "Opening hours", "question": "When are you open?", "answer": "From 9 to 17.", "category": "faq"},
    {"title": "Templates", "question": "Which day?", "answer": "Write {{ ds }}.", "category": "faq"},
]
QUICK = {"poll_interval": 0.05, "timeout": 30}


def returned(rows, shape):
    return {
        "list": lambda: list(rows),
        "pandas": lambda: pd.DataFrame(rows),
        "generator": lambda: (pd.DataFrame([row]) for row in rows),
        "callable": lambda: lambda: rows,
    }[shape]()


@pytest.mark.parametrize("shape", ["list", "pandas", "generator", "callable", "async"])
def test_what_a_function_returns_is_loaded_once(shape, service, connection, run_operator):
    def build():
        def load():
            return returned(ROWS, shape)

        async def load_async():
            return ROWS

        task.assistant_qa(task_id="load")(load_async if shape == "async" else load)()

    run = run_operator(build)
    assert run.state == "success"
    assert run.xcom("load", key="created") == 2
    assert {row["content"] for row in service.documents()} == {row["answer"] for row in ROWS}


def test_arguments_context_and_options_of_the_operator(service, connection, run_operator):
    def build():
        @task
        def rows():
            return pd.DataFrame(ROWS).drop(columns="category")

        @task.assistant_qa(constants={"category": "faq"}, key_columns=["title"], site_id="acme-shop", retries=1)
        def load(frame, least, *, ti):
            assert ti.task_id == "load"
            return frame[frame["answer"].str.len() >= least]

        counts = load(rows(), least=15)

        @task
        def after(created):
            return created

        after(counts["created"])

    run = run_operator(build)
    assert run.state == "success"
    assert run.xcom("after") == 1
    assert [row["title"] for row in service.documents("acme-shop")] == ["Templates"]


@pytest.mark.parametrize("nothing", [None, 5, "missing.csv"])
def test_what_cannot_be_loaded_fails_before_anything_is_sent(nothing, service, connection, run_operator):
    def build():
        @task.assistant_qa
        def load():
            return nothing

        load()

    run = run_operator(build)
    assert run.state == "failed"
    assert isinstance(run.error, AssistantInputError)
    assert service.posts() == 0


def test_a_retry_calls_the_function_again_and_sends_the_rest(service, connect, run_operator):
    connect(max_concurrency=1)
    service.answer("retry-after:3600", path="documents/qa", method="POST")
    calls = []

    def build():
        @task.assistant_qa(retries=1)
        def load():
            calls.append(1)
            return ROWS

        load()

    run = run_operator(build)
    assert isinstance(run.errors[0], AssistantRateLimitError)
    assert (run.state, run.tries("load"), len(calls)) == ("success", 2, 2)
    assert len(service.documents()) == 2


def test_before_it_ran_the_ui_shows_the_function():
    with DAG("parsed", schedule=None) as dag:

        @task.assistant_qa
        def read_faq():
            return ROWS

        read_faq()
    read = read_back(dag).get_task("read_faq")
    assert read.source.endswith("read_faq()")
    assert read.operator_name == "@task.assistant_qa"


# -- after a pause in the triggerer ----------------------------------------------------------------


class Pause:
    """Drive a task as Airflow does: execute, store the deferral, and resume on a new object with what was stored."""

    def __init__(self, build, **values):
        self._build = build
        self._context = {
            "params": values,
            "ti": SimpleNamespace(
                dag_id="paused", run_id="run", task_id="task", map_index=-1, try_number=1, max_tries=0
            ),
            "ds": "2026-11-21",
            "outlet_events": OutletEventAccessors(),
        }

    def _task(self):
        with DAG("paused", schedule=None) as dag:
            self._build()
        (operator,) = dag.tasks
        context = {**self._context, "task": operator}
        operator.render_template_fields(context)
        return operator, context

    def deferred(self):
        operator, context = self._task()
        with pytest.raises(TaskDeferred) as caught:
            operator.execute(context)
        return self._stored(caught.value)

    def resumed(self, stored, event):
        operator, context = self._task()
        method, arguments = stored
        kwargs = deserialize(json.loads(arguments))
        return operator.resume_execution(method, {**kwargs, "event": event}, context)

    @staticmethod
    def _stored(deferral):
        return deferral.method_name, json.dumps(serialize_arguments(deferral.kwargs or {}))


@pytest.mark.promise("Airflow", "A decorated load that pauses calls its function again, and sends the rest.")
@pytest.mark.parametrize("shape", ["list", "generator"])
def test_a_load_that_pauses_calls_the_function_again(shape, service, connect):
    connect(max_concurrency=1)
    calls = []

    def build():
        @task.assistant_qa(task_id="task", key_columns=["title"], deferrable=True)
        def load(prefix, least=7, *, ds):
            calls.append((prefix, least, ds))
            return returned(ROWS, shape)

        load("{{ params.prefix }}", least=3)

    pause = Pause(build, prefix="faq")
    service.answer("retry-after:900", path="documents/qa", method="POST", skip=1, times=2)
    first = pause.deferred()
    with pytest.raises(TaskDeferred) as second:
        pause.resumed(first, None)
    result = pause.resumed(Pause._stored(second.value), None)
    assert calls == [("faq", 3, "2026-11-21")] * 3
    assert (result["unchanged"], result["created"], result["changed"]) == (1, 1, 0)
    assert sorted(row["content"] for row in service.documents()) == sorted(row["answer"] for row in ROWS)


@pytest.mark.parametrize("turns", [False, True])
def test_a_batch_goes_on_with_the_questions_from_before_its_pause(turns, service, connection, tmp_path):
    calls = []

    def build():
        options = {"turn": "number", "session": "talk"} if turns else {}

        @task.assistant_chat_batch(
            task_id="task", output_path=str(tmp_path / "out.parquet"), key_columns=["id"], deferrable=True,
            **options, **QUICK,
        )  # fmt: skip
        def ask(topic, count=1):
            calls.append((topic, count))
            questions = [
                {"id": number, "talk": "a", "number": number, "message": f"{topic} {number}, call {len(calls)}?"}
                for number in range(1, count + 1)
            ]
            return (pd.DataFrame([question]) for question in questions)

        ask("Refunds", count=3)

    pause = Pause(build)
    stored = pause.deferred()
    for _ in range(3):
        event = {"deadline": time.time() + 30}
        try:
            result = pause.resumed(stored, event)
            break
        except TaskDeferred as again:
            stored = Pause._stored(again)
    assert calls == [("Refunds", 3)]
    assert (result["rows"], result["complete"]) == (3, 3)
    asked = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["message"] for row in asked] == [f"Refunds {number}, call 1?" for number in (1, 2, 3)]
    assert [path.name for path in tmp_path.iterdir() if "chat-batch" in path.name] == []
