"""A key that is rotated while a task runs or waits: the next try reads the new one, and loses and repeats nothing."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import AssistantAuthenticationError
from airflow_provider_assistant.hooks.shared_client import open_clients
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import task_context
from tests.wire import Answer, ScriptedService

POLLS = 4
ROWS = [{"title": f"T{n}", "content": f"C{n}", "category": "c", "message": f"M{n}"} for n in range(9)]
QUICK = {"poll_interval": 0.01, "timeout": 30}


class RotatingService(ScriptedService):
    """A service whose key is rotated at one of its requests, and with it the key in the connection."""

    def __init__(self, rotation):
        super().__init__()
        self.rotation, self.key = rotation, "key-number-0-of-the-night"
        self.accepted, self.polls = Counter(), Counter()

    def connect(self):
        connection = {"conn_type": "assistant", "host": self.url, "password": self.key}
        connection["extra"] = {"tenant_id": "acme", "site_id": "docs", "retries": 0, "max_concurrency": 4}
        os.environ["AIRFLOW_CONN_ASSISTANT_DEFAULT"] = json.dumps(connection)

    def next(self, request):
        super().next(request)
        with self._lock:
            if len(self.received) == self.rotation:
                self.key = "key-number-1-of-the-night"
                self.connect()
            if request.headers["x-api-key"] != self.key:
                return Answer(401, {"error": "invalid_api_key"})
            if request.method == "POST":
                self.accepted[request.body] += 1
                return Answer(200, {"request_id": f"r{len(self.accepted)}", "document_id": f"d{len(self.accepted)}"})
            self.polls[request.path] += 1
            state = "completed" if self.polls[request.path] >= POLLS else "queued"
            return Answer(200, {"request_id": request.path.rpartition("/")[2], "status": state, "answer": "Yes."})


def run(task):
    """Execute a task, and its trigger if it defers; return its result."""
    context = task_context(task.task_id, max_tries=0)
    task.render_template_fields({})
    try:
        return task.execute(context)
    except TaskDeferred as deferred:
        return task.execute_complete(context, asyncio.run(_event(deferred.trigger)))


async def _event(trigger):
    (event,) = [event.payload async for event in trigger.run()]
    assert open_clients == {}
    return json.loads(json.dumps(event))


def load(_):
    counts = run(AssistantLoadTextOperator(task_id="load", source=ROWS))
    assert counts["created"] + counts["unchanged"] == len(ROWS)


def batch(tmp_path, **options):
    path = str(tmp_path / "answers.parquet")
    counts = run(AssistantChatBatchOperator(task_id="ask", source=ROWS, output_path=path, **QUICK, **options))
    assert (counts["complete"], counts["failed"]) == (len(ROWS), 0)


def deferred_batch(tmp_path):
    batch(tmp_path, deferrable=True, max_concurrency=3)


def sensor(_):
    options = {"poke_interval": 0.01, "timeout": 30, "deferrable": True}
    assert run(AssistantChatRequestSensor(task_id="wait", request_id="r1", **options))["text"] == "Yes."


def export(tmp_path):
    for number in range(9):
        options = {"site_id": f"site-{number}", "output_path": str(tmp_path / "lake")}
        run(AssistantStatisticsToParquetOperator(task_id="export", **options))


@pytest.fixture(autouse=True)
def _own_home(ledger_home, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", "")


@pytest.mark.promise(
    "security", "A key that is rotated while a task runs or waits is read by the next try, and nothing is sent twice."
)
@pytest.mark.parametrize("task", [load, batch, deferred_batch, sensor, export])
def test_the_next_try_of_a_task_reads_the_rotated_key(task, tmp_path):
    with RotatingService(rotation=3) as service:
        service.connect()
        with pytest.raises(AssistantAuthenticationError):
            task(tmp_path)
        task(tmp_path)
    assert set(service.accepted.values()) <= {1}
