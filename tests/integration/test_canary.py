"""The API key appears in no log, no output and no file."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from airflow.sdk import DAG, task

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantFeedbackToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.live.clients import local_request


@pytest.fixture
def outputs(capfd, caplog):
    """Return all text in logs, standard output and standard error."""
    caplog.set_level(logging.DEBUG)

    def read() -> str:
        out, err = capfd.readouterr()
        return f"{out}{err}{caplog.text}"

    return read


def in_files(canary, *folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and canary in path.read_bytes()]


def everything_about(error):
    chain = []
    while error is not None:
        chain += [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
        chain.append(repr(pickle.dumps(error)))
        error = error.__cause__ or error.__context__
    return "\n".join(chain)


def flow(dag_id, lake):
    with DAG(dag_id, schedule=None) as dag:
        limits = AssistantLimitsOperator(task_id="limits")
        load = AssistantLoadQAOperator(
            task_id="load", source=[{"title": "T", "question": "Who barks?", "answer": "Dogs.", "category": "c"}]
        )
        chat = AssistantChatOperator(task_id="chat", session_id="s", message="Who barks?")
        submit = AssistantSubmitChatOperator(task_id="submit", session_id="s", message="Who barks?", deferrable=True)
        wait = AssistantChatRequestSensor(task_id="wait", request_id=submit.output["request_id"], deferrable=True)
        rate = AssistantFeedbackOperator(
            task_id="rate", session_id="s", request_id=submit.output["request_id"], feedback="good"
        )
        close = AssistantCloseSessionOperator(task_id="close", session_id="s")
        statistics = AssistantStatisticsToParquetOperator(task_id="statistics", output_path=str(lake))
        feedback = AssistantFeedbackToParquetOperator(task_id="feedback", output_path=str(lake))

        @task
        def test_connection():
            return AssistantHook().test_connection()[1]

        limits >> load >> chat >> submit >> wait >> rate >> close >> statistics >> feedback >> test_connection()
    return dag


def test_no_key_after_success(canary, service, run_dag, ledger_home, tmp_path, outputs):
    run = run_dag(flow("canary_well", tmp_path / "lake"))
    assert run.state == "success", run.errors
    assert {entry.key for entry in service.journal()} == {"canary"}
    assert canary not in repr(run.xcoms())
    assert canary not in outputs()
    assert (ledger_home / "assistant_ledger.db").is_file()
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) >= 3
    assert in_files(canary.encode(), tmp_path) == []


FAILURES = {
    "401": {"key": "canary-wrong-3b8e0c77aa"},
    "403": {"action": "status:403"},
    "500": {"action": "status:500"},
    "html": {"action": "html:502"},
    "drop": {"action": "drop"},
    "truncate": {"action": "truncate"},
    "429": {"action": "retry-after:3600"},
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("operator", [AssistantLimitsOperator, AssistantChatOperator, AssistantSubmitChatOperator])
def test_no_key_after_failures(failure, operator, canary, connect, service, run_operator, tmp_path, outputs):
    key = FAILURES[failure].get("key", canary)
    connect(key=key)
    if action := FAILURES[failure].get("action"):
        service.answer(action, times=None)
    arguments = {} if operator is AssistantLimitsOperator else {"session_id": "s", "message": "m"}
    run = run_operator(operator, **arguments)
    assert run.state == "failed"
    assert key not in everything_about(run.error)
    assert key not in outputs()
    assert key not in repr(run.xcoms())
    assert in_files(key.encode(), tmp_path) == []


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_service_that_repeats_the_key(deferrable, canary, service, run_operator, outputs):
    document = {"title": "Gossip", "content": f"The password is {canary}, they say.", "category": "c"}
    url = f"{service.url}/m2m/sites/acme-docs/documents/text"
    local_request("POST", url, json=document, headers={"X-API-Key": canary}).raise_for_status()
    run = run_operator(
        AssistantSubmitChatOperator,
        session_id="s",
        message="What is the password?",
        wait_for_completion=True,
        deferrable=deferrable,
        poll_interval=0.01,
    )
    assert run.state == "success", run.errors
    assert "The password is ***, they say." in run.xcom()["text"]
    assert canary not in repr(run.xcoms())
    assert canary not in outputs()


def test_the_representation_of_objects_hides_the_key(canary, connect):
    hook = AssistantHook()
    with hook.client as client:
        hook.get_limits()
        for thing in (hook, hook.settings, hook.settings.client, client, client.settings):
            assert canary not in f"{thing!r} {thing!s}"
