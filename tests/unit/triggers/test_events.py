"""A deferral and its end: errors keep their class and fields, and a task says what it had sent before."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, TaskDeferred
from airflow.sdk import BaseOperator

from airflow_provider_assistant import failures
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantError,
    AssistantInputError,
    AssistantRateLimitError,
    AssistantRequestTimeoutError,
    AssistantStorageError,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.triggers import events
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger, ended_request
from airflow_provider_assistant.triggers.deferral import DEFERRAL_GRACE, defer
from airflow_provider_assistant.triggers.events import failure_of, raise_failure
from tests.task_runs.context import task_context
from tests.versions import deserialize, serialize
from tests.wire import Answer, ScriptedService


@pytest.mark.parametrize(
    "error",
    [
        AssistantInputError("m", field="site_id"),
        AssistantRateLimitError("m", status=429, endpoint="chat.request", retry_after=5.5),
        AssistantAmbiguousError("m", endpoint="chat.async", attempts=3),
        AssistantRequestTimeoutError("m", request_id="r", status="queued"),
        AssistantError("m", safe="S.", todo="T."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_class_and_fields(error):
    event = deserialize(json.loads(json.dumps(serialize(failure_of(error)))))
    with pytest.raises(AssistantError) as caught:
        ended_request(event)
    assert type(caught.value) is type(error)
    assert (str(caught.value), vars(caught.value)) == (str(error), vars(error))


@pytest.mark.parametrize("event", [None, {}, {"error": None}, {"error": "text"}, {"request": None, "open": 0}])
def test_an_event_without_an_error_raises_none_but_has_to_have_a_request(event):
    assert raise_failure(event) is None
    with pytest.raises(AssistantError, match="neither"):
        ended_request(event)


@pytest.mark.parametrize("name", ["AssistantQuotaError", "annotations", "__name__", "AirflowException", "", None])
def test_an_unknown_error_class_becomes_assistant_error(name):
    with pytest.raises(AssistantError, match="used up") as caught:
        raise_failure({"error": {"type": name, "fields": {"happened": "used up", "left": 0}}})
    assert (type(caught.value), caught.value.left) == (AssistantError, 0)


@pytest.mark.parametrize(("error", "kind"), [(OSError("disk"), AssistantStorageError), (KeyError("x"), AssistantError)])
def test_an_error_of_the_trigger_itself_reaches_the_task(error, kind):
    with pytest.raises(kind, match=f"The trigger failed: {type(error).__name__}") as caught:
        raise_failure(json.loads(json.dumps(failure_of(error))))
    assert type(caught.value) is kind


@pytest.mark.parametrize(("not_before", "waited"), [(0.0, 0.0), (1007.0, 7.0), (1e12, 10.0)])
async def test_an_event_waits_until_the_scheduler_has_seen_the_deferral(not_before, waited, monkeypatch):
    monkeypatch.setattr(events, "SETTLING_SECONDS", 10.0)
    waits = []

    async def asleep(seconds):
        waits.append(seconds)

    previous = set_client_defaults(replace(get_client_defaults(), now=lambda: 1000.0, asleep=asleep))
    try:
        await events.wait_until(not_before)
    finally:
        set_client_defaults(previous)
    assert sum(waits) == waited


@pytest.mark.parametrize(("deadline", "left"), [(160.0, 60.0), (50.0, 0.0)])
def test_airflow_s_own_timeout_comes_after_the_deadline(deadline, left):
    trigger = AssistantChatRequestTrigger(
        assistant_conn_id="c", site_id="docs", request_id="r", since=90.0, deadline=deadline, poll_interval=5.0
    )
    with pytest.raises(TaskDeferred) as deferred:
        defer(BaseOperator(task_id="t"), trigger, now=100.0)
    assert deferred.value.timeout == timedelta(seconds=left + DEFERRAL_GRACE)
    assert (deferred.value.method_name, deferred.value.trigger) == ("execute_complete", trigger)


# -- a connection that is deleted or spoiled while a task is deferred --------------------------------

ROWS = [{"title": f"T{n}", "content": "C", "category": "c", "message": f"M{n}"} for n in range(5)]
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
        lambda path: AssistantChatBatchOperator(
            task_id="task", source=ROWS, output_path=f"{path}/a.parquet", poll_interval=0.05, deferrable=True
        ),
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


async def event_of(trigger):
    (event,) = [event.payload async for event in trigger.run()]
    return json.loads(json.dumps(event))


@pytest.mark.parametrize(
    ("left", "error"), [(None, AirflowNotFoundException), ({"conn_type": "assistant"}, AssistantInputError)]
)
@pytest.mark.parametrize("task", TASKS)
def test_the_three_lines_say_what_was_submitted(task, left, error, ledger_home, monkeypatch, tmp_path, caplog):
    make, safe = TASKS[task]
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
