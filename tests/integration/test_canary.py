"""The API key appears in no log, no output and no file."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
)
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator


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


def test_the_representation_of_objects_hides_the_key(canary, connect):
    hook = AssistantHook()
    with hook.client as client:
        hook.get_limits()
        for thing in (hook, hook.settings, hook.settings.client, client, client.settings):
            assert canary not in f"{thing!r} {thing!s}"
