"""The sensor in its three modes: complete, failed and timed-out chat requests have different results."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException, AirflowSensorTimeout, TaskDeferred
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import AssistantNotFoundError
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.live.clients import local_request
from tests.task_runs.context import task_context
from tests.task_runs.finals import kind_of
from tests.wire import Answer, ScriptedService, refusing_port

POLL = r"chat/requests/"
MODES = {
    "poke": {"mode": "poke"},
    "reschedule": {"mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
def ask(service):
    def asked(message="Anything?", site="acme-docs"):
        reply = local_request(
            "POST",
            f"{service.url}/m2m/sites/{site}/chat/async",
            json={"session_id": "s", "message": message},
            headers={"X-API-Key": "dev-acme-full"},
        )
        return reply.raise_for_status().json()["request_id"]

    return asked


@pytest.fixture
def sense(run_operator):
    def sensed(mode, request_id, **options):
        arguments = {"poke_interval": 0.01, "timeout": 30} | MODES[mode] | options
        return run_operator(AssistantChatRequestSensor, request_id=request_id, **arguments)

    return sensed


# What every poll meets until the timeout, and words of it.
MET = {
    "pending": (Answer(body={"request_id": "r", "status": "queued"}), "the last status was 'queued'"),
    "502": (Answer(502, {"error": "bad gateway"}), "502 Bad Gateway"),
    "reset": (Answer(drop=True), "No answer from 127.0.0.1"),
    "login page": (Answer(200, b"<html>Sign in", headers={"Content-Type": "text/html"}), "Sign in"),
    "closed port": (None, "No answer from 127.0.0.1"),
}


@pytest.mark.promise("chat", "A sensor that times out says what its polls met, and how many there were, in each mode.")
@modes
@pytest.mark.parametrize("met", MET)
def test_a_timeout_says_what_the_polls_met(met, mode, ledger_home, sense, monkeypatch):
    answer, words = MET[met]
    with ScriptedService(*([answer] if answer else [])) as service, refusing_port() as port:
        url = service.url if answer else f"http://127.0.0.1:{port}"
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection_to(url))
        run = sense(mode, "r", timeout=0.2, retries=2)
    assert (type(run.error), run.tries()) == (AirflowSensorTimeout, 1)
    text = str(run.error)
    assert words in text
    assert text.count("request 'r'") == 2, "what the task was doing, and what it met"
    polls = int(re.search(r"within \d+ s and (\d+) polls?;", text).group(1))
    assert polls > 1
    # aiohttp itself repeats a GET on a connection that was closed.
    assert met in {"closed port", "reset"} or polls == len(service.received)


@pytest.mark.parametrize("status", [429, 503])
def test_the_pause_that_the_service_asks_for_is_kept(status, ledger_home, sense, monkeypatch):
    with ScriptedService(Answer(status, headers={"Retry-After": "60"})) as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection_to(service.url))
        run = sense("poke", "r", timeout=0.2)
        assert len(service.received) == 1
    assert f"and 1 poll; {status} " in str(run.error)


@modes
def test_soft_fail_skips_what_failed_timed_out_or_cannot_be_found(mode, service, connection, ask, sense):
    assert sense(mode, "req_unknown", soft_fail=True).task_state() == "skipped"
    service.behave(fail_messages="impossible")
    assert sense(mode, ask("impossible"), soft_fail=True).task_state() == "skipped"
    service.behave(processing_seconds=3600)
    assert sense(mode, ask(), timeout=0.02, soft_fail=True).task_state() == "skipped"


@modes
def test_an_unknown_request_fails_at_once(mode, service, connection, sense):
    run = sense(mode, "req_unknown", retries=3)
    assert kind_of(run.error) is AssistantNotFoundError
    assert run.tries() == 1
    assert len(service.journal("GET", POLL)) == 1


def test_a_request_that_disappears_while_deferred_fails_at_once(service, connection, ask, sense):
    service.behave(processing_seconds=3600)
    request_id = ask()
    service.answer("status:404", path=POLL, skip=2, times=None)
    run = sense("deferrable", request_id, retries=3)
    assert kind_of(run.error) is AssistantNotFoundError
    assert (run.error.status, run.error.endpoint, run.tries()) == (404, "chat.request", 1)
    assert len(service.journal("GET", POLL)) == 3


def test_a_sensor_that_fails_silently_polls_again(ledger_home, sense, monkeypatch):
    with ScriptedService(Answer(421, b"<html>Wrong host"), Answer(body=ENDED)) as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection_to(service.url))
        run = sense("poke", "r", silent_fail=True)
    assert run.xcom()["polls"] == 2


@modes
@pytest.mark.parametrize(("word", "state"), [("DONE_AND_DUSTED", "success"), ("Abandoned", "failed")])
def test_status_words_of_the_connection(mode, word, state, service, connect, ask, sense):
    connect(complete_words="ready, done_and_dusted", failed_words=["abandoned"])
    reply = {"request_id": "r", "status": word, "answer": "Nothing."}
    service.answer("status:200", path=POLL, times=None, reply=reply)
    assert sense(mode, ask()).state == state


@pytest.mark.parametrize(
    ("default", "given", "expected"), [("True", None, True), ("False", None, False), ("True", False, False)]
)
def test_deferrable_follows_the_configuration(default, given, expected, monkeypatch):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", default)
    assert AssistantChatRequestSensor(task_id="t", request_id="r", deferrable=given).deferrable is expected


def connection_to(url):
    return json.dumps({"conn_type": "assistant", "host": url, "password": "k", "extra": {"site_id": "docs"}})


ENDED = {"request_id": "r", "status": "completed", "answer": "Yes.", "confidence_score": 0.25}
RESULT = {
    "request_id": "r", "state": "complete", "status": "completed", "text": "Yes.", "confidence_level": None,
    "confidence_score": 0.25, "error": None, "polls": 4, "raw": ENDED,
}  # fmt: skip


class Pending(ScriptedService):
    """A service whose chat request ends with the fourth poll; without times in its replies."""

    def __init__(self):
        queued = Answer(body={"request_id": "r", "status": "queued"})
        super().__init__(queued, Answer(503), queued, Answer(body=ENDED))
        self.times = []

    def next(self, request):
        self.times.append(time.monotonic())
        return super().next(request)


@pytest.mark.promise("Airflow", "The sensor polls and returns the same in poke, reschedule and deferrable mode.")
@modes
def test_all_modes_send_the_same_polls_and_return_the_same(mode, ledger_home, sense, monkeypatch):
    with Pending() as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection_to(service.url))
        run = sense(mode, "r", poke_interval=0.2)
    assert run.state == "success", run.errors
    waited = [later - earlier for earlier, later in pairwise(service.times)]
    # Also the first poll of the trigger waits for its turn. The runner of these tests reschedules at once.
    assert mode == "reschedule" or min(waited) >= 0.15
    result = run.xcom()
    # From the start of the wait on, also if each poll is in a new process.
    assert result.pop("seconds") >= sum(waited) / 2
    assert result == RESULT


@modes
def test_the_end_is_recorded_for_the_submission_from_which_the_seconds_count(mode, service, connection, run_dag):
    with DAG(f"recorded_{mode}", schedule=None) as dag:
        submit = AssistantSubmitChatOperator(task_id="submit", session_id="s", message="Anything?")
        AssistantChatRequestSensor(
            task_id="task", request_id=submit.output["request_id"], poke_interval=0.01, **MODES[mode]
        )
    run = run_dag(dag)
    assert run.state == "success", run.errors
    with Ledger.open() as ledger:
        page = ledger.read(queries.entries, ledger.clock, Filter(remote_ids=[run.xcom()["request_id"]]))
    (row,) = page.rows
    assert row["ended"] == "complete"
    waited = (row["ended_at"] - row["recorded_at"]).total_seconds()
    assert waited >= 0
    assert run.xcom()["seconds"] == pytest.approx(waited, abs=0.01)


@pytest.mark.parametrize("soft", [{}, {"soft_fail": True}, {"never_fail": True}])
@modes
def test_a_missing_connection_ends_all_modes_alike(mode, soft, ledger_home, sense, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", raising=False)
    run = sense(mode, "r", **soft)
    assert run.task_state() == ("skipped" if soft else "failed"), run.errors
    assert soft or type(run.error) is AirflowNotFoundException


def test_a_sensor_that_defers_has_polled_once_and_hands_over_its_waits(ledger_home, monkeypatch):
    sensor = AssistantChatRequestSensor(
        task_id="task", request_id="r", poke_interval=2, timeout=100, deferrable=True, exponential_backoff=True,
        max_wait=10,
    )  # fmt: skip
    with ScriptedService(Answer(body={"request_id": "r", "status": "queued"})) as service:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection_to(service.url))
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(task_context())
    trigger = deferred.value.trigger
    assert (trigger.poll_interval, trigger.longest_interval, trigger.polls) == (2.0, 10.0, 1)
    assert trigger.deadline - trigger.since == 100
