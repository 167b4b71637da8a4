"""A connection that is deleted or spoiled while a task is deferred: the failure says what was submitted."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, TaskDeferred

from airflow_provider_assistant import failures
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError, AssistantStorageError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.triggers.events import failure_of, raise_failure
from tests.task_runs.context import task_context
from tests.task_runs.finals import kind_of
from tests.wire import Answer, ScriptedService

ROWS = [{"title": f"T{n}", "content": "C", "category": "c", "message": f"M{n}"} for n in range(5)]
QUICK = {"poll_interval": 0.05, "timeout": 30, "deferrable": True}
NAME = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


class Busy(ScriptedService):
    """A service that accepts everything but the fourth document, and whose chats do not end."""

    def next(self, request):
        super().next(request)
        number = len(self.received)
        if request.path.endswith("/text") and number == 4:
            return Answer(429, headers={"Retry-After": "600"})
        return Answer(200, {"request_id": f"r{number}", "document_id": f"d{number}", "status": "queued"})


TASKS = {
    "batch": (
        lambda path: AssistantChatBatchOperator(task_id="task", source=ROWS, output_path=f"{path}/a.parquet", **QUICK),
        r"This try submitted 5 of 5 questions; a retry continues to wait for the answers\.",
    ),
    "load": (
        lambda _: AssistantLoadTextOperator(task_id="task", source=ROWS, deferrable=True),
        r"Nothing was sent after the task resumed\. What was created before is recorded in the ledger and is not sent",
    ),
    "sensor": (
        lambda _: AssistantChatRequestSensor(task_id="task", request_id="r7", poke_interval=0.05, deferrable=True),
        r"The chat was submitted before, and stays at the service: a sensor only reads\.",
    ),
}
# What is left of the connection, and the error of the task.
LOSSES = {
    "deleted": (None, AirflowNotFoundException),
    "no key": ({"conn_type": "assistant", "host": "https://h"}, AssistantInputError),
    "no host": ({"conn_type": "assistant", "password": "a-key-0123456789"}, AssistantInputError),
    "wrong extra": ({"conn_type": "assistant", "password": "k", "host": "h", "extra": {"x": 1}}, AssistantInputError),
}


async def event_of(trigger):
    (event,) = [event.payload async for event in trigger.run()]
    return json.loads(json.dumps(event))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("task", TASKS)
def test_the_three_lines_say_what_was_submitted(task, loss, ledger_home, monkeypatch, tmp_path, caplog):
    make, safe = TASKS[task]
    left, error = LOSSES[loss]
    with Busy() as service:
        fields = {"conn_type": "assistant", "host": service.url, "password": "a-key-0123456789"}
        extra = {"site_id": "docs", "retries": 0, "max_concurrency": 1}
        monkeypatch.setenv(NAME, json.dumps({**fields, "extra": extra}))
        with pytest.raises(TaskDeferred) as deferred:
            make(tmp_path).execute(task_context())
        if left is None:
            monkeypatch.delenv(NAME)
        else:
            monkeypatch.setenv(NAME, json.dumps(left))
        event = None if task == "load" else asyncio.run(event_of(deferred.value.trigger))
    # The task resumes in a new process.
    caplog.clear()
    with pytest.raises(error):
        make(tmp_path).execute_complete(task_context(), event, **(deferred.value.kwargs or {}))
    lines = [record.getMessage() for record in caplog.records if record.name == failures.__name__]
    assert len(lines) == 3
    assert re.search(safe, lines[1]), lines[1]


@pytest.mark.parametrize(("error", "kind"), [(OSError("disk"), AssistantStorageError), (KeyError("x"), AssistantError)])
def test_an_error_of_the_trigger_itself_reaches_the_task(error, kind):
    event = json.loads(json.dumps(failure_of(error)))
    with pytest.raises(kind, match=f"The trigger failed: {kind_of(error).__name__}") as caught:
        raise_failure(event)
    assert kind_of(caught.value) is kind
