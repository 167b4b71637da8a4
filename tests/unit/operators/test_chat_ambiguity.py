"""Ambiguous requests of sync chats and of closing a session."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantInputError,
    AssistantNotFoundError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from tests.live.process import wait_for

CHAT = r"chat$"
CLOSE = r"session/close$"
CHOICES = [
    ("retry", "failed", AssistantAmbiguousError),
    ("fail", "failed", AssistantAmbiguousPermanentError),
    ("skip", "skipped", None),
]


@pytest.mark.parametrize(("on_ambiguous", "state", "error"), CHOICES)
def test_a_chat_that_timed_out_is_posted_once(on_ambiguous, state, error, service, connect, run_operator):
    connect(retries=4, chat_timeout=1.0)
    service.answer("hold", path=CHAT, times=None)
    run = run_operator(AssistantChatOperator, session_id="s", message="?", on_ambiguous=on_ambiguous)
    assert run.task_state() == state
    wait_for("the request", service.posts, timeout=60)
    assert service.posts() == 1
    if error:
        assert type(run.error) is error
        assert isinstance(run.error.__cause__, AssistantTimeoutError)
        assert "raise chat_timeout in the Airflow connection" in str(run.error)


@pytest.mark.parametrize(("on_ambiguous", "tries"), [("retry", 3), ("fail", 1), ("skip", 1)])
def test_only_by_choice_do_retries_of_the_task_post_it_again(on_ambiguous, tries, service, connect, run_operator):
    connect(retries=0)
    service.answer("store-then-status:500", path=CHAT, times=None)
    run = run_operator(AssistantChatOperator, session_id="s", message="?", on_ambiguous=on_ambiguous, retries=2)
    assert run.tries() == service.posts() == tries


@pytest.mark.parametrize(("on_ambiguous", "tries"), [("retry", 3), ("fail", 1), ("skip", 1)])
@pytest.mark.parametrize("kind", [AssistantChatOperator, AssistantSubmitChatOperator])
def test_a_success_that_cannot_be_read_has_arrived(kind, on_ambiguous, tries, service, connect, run_operator):
    connect(retries=4)
    service.answer("html:200", times=None)
    run = run_operator(kind, session_id="s", message="?", on_ambiguous=on_ambiguous, retries=2)
    assert run.tries() == service.posts() == tries


def test_after_a_5xx_it_is_sent_again_and_said_so(service, connect, run_operator, caplog, capfd):
    connect(retries=2)
    service.answer("store-then-status:502", path=CHAT)
    run = run_operator(AssistantChatOperator, session_id="s", message="?")
    assert run.state == "success"
    assert run.xcom(key="possibly_duplicated") == 1
    assert len(service.rows("requests")) == 2
    assert "session 's' may contain the message more than once" in caplog.text + "".join(capfd.readouterr())


def test_without_a_fault_nothing_is_said_of_duplicates(service, connection, run_operator):
    run = run_operator(AssistantChatOperator, session_id="s", message="?")
    assert "possibly_duplicated" not in {key for _, _, key in run.xcoms()}


@pytest.mark.parametrize("kind", [AssistantChatOperator, AssistantSubmitChatOperator])
def test_the_choice_is_checked_when_the_dag_is_parsed(kind):
    with pytest.raises(AssistantInputError, match="on_ambiguous"):
        kind(task_id="t", session_id="s", message="?", on_ambiguous="ignore")


@pytest.mark.parametrize(
    ("on_ambiguous", "error"), [("retry", AssistantAmbiguousError), ("fail", AssistantAmbiguousPermanentError)]
)
def test_the_hook_posts_a_slow_chat_once(on_ambiguous, error, service, connect):
    connect(retries=4, chat_timeout=1.0)
    service.answer("hold", path=CHAT, times=None)
    with pytest.raises(AssistantAmbiguousError) as caught:
        AssistantHook().chat("s", "?", on_ambiguous=on_ambiguous)
    assert type(caught.value) is error
    wait_for("the request", service.posts, timeout=60)
    assert service.posts() == 1


@pytest.mark.parametrize("retries", [0, 1], ids=["by the task's retry", "by the connection's retry"])
@pytest.mark.parametrize("fault", ["store-then-status:503", "store-then-drop"])
def test_closing_a_session_is_sent_again_and_never_ambiguous(fault, retries, service, connect, run_dag):
    connect(retries=retries)
    service.answer(fault, path=CLOSE)
    with DAG(f"close_{retries}_{fault.translate(str.maketrans(':', '_'))}", schedule=None) as dag:
        ask = AssistantChatOperator(task_id="ask", session_id="s", message="?")
        ask >> AssistantCloseSessionOperator(task_id="task", session_id="s", retries=1, retry_delay=0)
    run = run_dag(dag)
    assert run.state == "success", run.errors
    assert run.xcom() == {"session_id": "s", "site_id": "acme-docs", "raw": None}
    assert service.posts(CLOSE) == 2


@pytest.mark.parametrize("before", [[], ["store-then-status:502"], ["store-then-drop", "status:500"]])
def test_a_404_on_closing_means_that_the_site_is_unknown(before, service, connect, run_operator):
    connect(retries=3)
    for fault in (*before, "status:404"):
        service.answer(fault, path=CLOSE)
    run = run_operator(AssistantCloseSessionOperator, session_id="s", retries=2)
    assert (type(run.error), run.tries()) == (AssistantNotFoundError, 1)
    assert service.posts(CLOSE) == len(before) + 1


def test_a_404_in_a_later_try_is_an_error_as_well(service, connect, run_operator):
    connect(retries=0)
    for fault in ("store-then-status:503", "status:404"):
        service.answer(fault, path=CLOSE)
    run = run_operator(AssistantCloseSessionOperator, session_id="s", retries=3)
    assert (type(run.error), run.tries()) == (AssistantNotFoundError, 2)
