"""Chat batches in a real Airflow: one task for all questions, or one task and one sensor per question."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tests.benchmarks.chat_batches import CONCURRENCY, CONNECTION, TIMEOUT, connection
from tests.benchmarks.service import Service, answer
from tests.live.airflow import LiveAirflow

START = """
from datetime import timedelta

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import DAG, BaseOperator


class Defer(BaseOperator):
    def execute(self, context):
        self.defer(trigger=TimeDeltaTrigger(timedelta(0)), method_name="done")

    def done(self, context, event=None):
        pass


with DAG("start", schedule=None):
    Defer(task_id="defer")
"""

CHAT_BATCH = """
from airflow.sdk import DAG

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

with DAG("chat_batch", schedule=None):
    AssistantChatBatchOperator(
        task_id="chat_batch",
        source={source!r},
        output_path={output!r},
        key_columns=["id"],
        deferrable=True,
        timeout={timeout},
        poll_interval={interval},
        max_concurrency={concurrency},
    )
"""

MAPPED = """
from airflow.sdk import DAG

from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

with DAG("mapped", schedule=None):
    submit = AssistantSubmitChatOperator.partial(task_id="submit").expand_kwargs({messages})
    AssistantChatRequestSensor.partial(task_id="wait", deferrable=True, poke_interval={interval}).expand(
        request_id=submit.output.map(lambda submitted: submitted["request_id"])
    )
"""


class LiveChatBatches:
    """
    An Airflow with three DAGs: one that does nothing, a chat batch of all questions, one that maps over some.

    :param folder: Folder for all files.
    :param service: The service.
    :param questions: The messages.
    :param mapped: Number of messages for the mapped tasks.
    :param interval: Seconds between polls.
    """

    def __init__(self, folder: Path, service: Service, questions: list[str], mapped: int, interval: float) -> None:
        self._questions = questions
        self._mapped = mapped
        self._interval = interval
        self._source = folder / "questions.parquet"
        self._output = folder / "answers.parquet"
        self._dags = folder / "dags"
        self._airflow = LiveAirflow(folder / "airflow", self._dags, {CONNECTION: connection(service)})

    def __enter__(self) -> Self:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"id": range(len(self._questions)), "message": self._questions}), self._source)
        messages = [
            {"session_id": f"session-{number}", "message": message}
            for number, message in enumerate(self._questions[: self._mapped])
        ]
        chat_batch = CHAT_BATCH.format(
            source=str(self._source),
            output=str(self._output),
            timeout=TIMEOUT,
            interval=self._interval,
            concurrency=CONCURRENCY,
        )
        self._dags.mkdir()
        (self._dags / "start.py").write_text(START)
        (self._dags / "chat_batch.py").write_text(chat_batch)
        (self._dags / "mapped.py").write_text(MAPPED.format(messages=messages, interval=self._interval))
        self._airflow.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._airflow.__exit__(*error)

    def start(self) -> float:
        """Return the seconds that Airflow takes for a task that only defers."""
        return self._run("start")["seconds"]

    def chat_batch(self) -> dict[str, Any]:
        """Run all questions in one task, and check that each has an answer."""
        import pyarrow.parquet as pq

        ran = self._run("chat_batch")
        answers = pq.read_table(self._output, columns=["answer"])["answer"].to_pylist()
        if answers != [answer(message) for message in self._questions]:
            raise RuntimeError(f"not all of {len(self._questions)} questions have their answers: {ran}")
        return ran

    def mapped(self) -> dict[str, Any]:
        """Submit some questions with one task and one sensor each."""
        return self._run("mapped")

    def _run(self, dag_id: str) -> dict[str, Any]:
        """Run a DAG. Return its duration by Airflow's records and its task instances."""
        run_id = self._airflow.trigger(dag_id)
        state = self._airflow.wait_run(dag_id, run_id, timeout=TIMEOUT)
        tasks = self._airflow.task_instances(dag_id, run_id)
        if state != "success":
            raise RuntimeError(f"{dag_id} is {state}: {self._airflow.task_log(dag_id, run_id, tasks[0]['task_id'])}")
        run = self._airflow.run(dag_id, run_id)
        start, end = (datetime.fromisoformat(run[name]) for name in ("start_date", "end_date"))
        return {"seconds": round((end - start).total_seconds(), 2), "tasks": len(tasks)}
