"""What operator and sensor share while they wait."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import BaseOperator

from airflow_provider_assistant.exceptions import AssistantRequestFailedError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Filter, Ledger, RunRef, Scope, queries, sqlite_engine
from airflow_provider_assistant.triggers.chat import AssistantChatRequestTrigger
from airflow_provider_assistant.triggers.deferral import DEFERRAL_GRACE, defer, record_and_return
from tests.unit.ledger.attempts import created

ENDED = {
    "request_id": "r", "state": "complete", "status": "Complete", "text": "Yes.", "error": None, "raw": {},
    "polls": 2, "seconds": 1.25,
}  # fmt: skip


@pytest.fixture
def hook(monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_ASSISTANT_DEFAULT", '{"conn_type": "assistant", "host": "h", "password": "secret"}'
    )
    return AssistantHook(site_id="docs")


@pytest.fixture
def ledger(tmp_path, hook):
    """A ledger with a chat request."""
    run = RunRef("dag", "run", "task", -1)
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as opened:
        with opened.of(Scope(hook.site(), "chat"), "dag.task", run) as attempts:
            created(attempts, "question", remote_id="r")
        yield opened


def end_of(ledger):
    (row,) = ledger.read(queries.entries, ledger.clock, Filter(remote_ids=["r"])).rows
    return row["ended"]


@pytest.mark.parametrize(
    ("deadline", "timeout"),
    [(160.0, timedelta(seconds=60 + DEFERRAL_GRACE)), (50.0, timedelta(seconds=DEFERRAL_GRACE))],
)
def test_airflow_s_own_timeout_comes_after_the_deadline(deadline, timeout):
    trigger = AssistantChatRequestTrigger(
        assistant_conn_id="c", site_id="docs", request_id="r", since=90.0, deadline=deadline, poll_interval=5.0
    )
    with pytest.raises(TaskDeferred) as deferred:
        defer(BaseOperator(task_id="t"), trigger, now=100.0)
    assert deferred.value.timeout == timeout
    assert deferred.value.method_name == "execute_complete"
    assert isinstance(deferred.value.trigger, AssistantChatRequestTrigger)
    assert deferred.value.trigger.serialize()[1] == {
        "assistant_conn_id": "c", "site_id": "docs", "request_id": "r", "since": 90.0, "deadline": deadline,
        "poll_interval": 5.0, "longest_interval": None, "first_poll": None, "polls": 0, "not_before": 0.0,
    }  # fmt: skip


def test_complete_is_recorded_and_returned(hook, ledger, caplog):
    caplog.set_level("INFO")
    assert record_and_return(ENDED, hook, ledger) == ENDED
    assert end_of(ledger) == "complete"
    assert "complete after 1.2 s and 2 polls" in caplog.text


@pytest.mark.parametrize(("said", "part"), [("The model is away.", "The model is away."), (None, "does not say why")])
def test_failed_is_recorded_and_raised(said, part, hook, ledger):
    ended = ENDED | {"state": "failed", "status": "FAILED", "text": None, "error": said}
    with pytest.raises(AssistantRequestFailedError, match=part) as caught:
        record_and_return(ended, hook, ledger)
    assert (caught.value.request_id, caught.value.status) == ("r", "FAILED")
    assert end_of(ledger) == "failed"


def test_without_a_ledger(hook):
    assert record_and_return(ENDED, hook, None) == ENDED
