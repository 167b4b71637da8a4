"""A sync chat and the end of a session: XCom, requests, and what happens when a reply is lost."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAmbiguousPermanentError,
    AssistantBadRequestError,
    AssistantNotFoundError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.operators.chat import AssistantChatOperator, AssistantCloseSessionOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from tests.documented import DocumentedAssistant
from tests.live.process import wait_for
from tests.task_runs.context import execute_operator
from tests.wire import Answer, ScriptedService

CHAT = r"chat$"
CLOSE = r"session/close$"
BOTH = pytest.mark.parametrize("operator", [AssistantChatOperator, AssistantSubmitChatOperator])


@pytest.fixture
def connect_to(ledger_home, monkeypatch):
    """Point the connection at a scripted service."""

    def connect(service):
        url = urlsplit(service.url)
        uri = f"assistant://:a-key-0123456789@{url.hostname}:{url.port}/http?site_id=docs&retries=0"
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", uri)

    return connect


def test_chat(service, connection, run_operator):
    run = run_operator(
        AssistantChatOperator, multiple_outputs=True, session_id="s", message="What is this?", site_id="acme-shop",
        user_email="a@example.com", response_language="de",
    )  # fmt: skip
    answer = run.xcom()
    assert set(answer) == {
        "text", "session_id", "request_id", "seconds", "site_id", "raw", "confidence_level", "confidence_score",
    }  # fmt: skip
    assert (answer["session_id"], answer["site_id"]) == ("s", "acme-shop")
    assert answer["text"].startswith("Das weiß ich nicht.")
    assert (answer["confidence_level"], answer["confidence_score"]) == ("low", 0.0)
    assert answer["raw"]["answer"] == answer["text"]
    assert run.xcom(key="text") == answer["text"]
    (row,) = service.chats()
    assert (row["message"], row["mode"], row["id"]) == ("What is this?", "sync", answer["request_id"])
    assert (row["site"], row["language"]) == ("acme-shop", "de")
    assert "possibly_duplicated" not in {key for _, _, key in run.xcoms()}


ODD_REPLY = rb"""{"answer": "42 \ud83d \u0000 end", "request_id": "r1", "score": NaN, "other": -Infinity, "n": 1e400,
"long": 123456789012345678901234567890, "__classname__": "builtins.tuple", "facts": {"__type": "x", "__var": 1}}"""


def test_an_odd_answer_is_kept(connect_to, run_operator):
    """The question is answered and paid for: an answer that XCom refuses would be asked again."""
    with ScriptedService(Answer(200, ODD_REPLY)) as service:
        connect_to(service)
        run = run_operator(AssistantChatOperator, session_id="s", message="m")
    assert len(service.received) == 1
    answer = run.xcom()
    assert answer["text"] == "42 \ufffd \ufffd end"
    assert answer["raw"] == {
        "answer": answer["text"],
        "request_id": "r1",
        "score": None,
        "other": None,
        "n": None,
        "long": "123456789012345678901234567890",
        "___classname__": "builtins.tuple",
        "facts": {"___type": "x", "___var": 1},
    }


@pytest.mark.filterwarnings("ignore:Setting email")
@BOTH
def test_the_address_for_alerts_is_not_sent_as_that_of_the_user(operator, connect_to):
    """Airflow's own parameter email often comes from the default_args of a DAG."""
    with ScriptedService(Answer(200, {"request_id": "r1", "answer": "42"})) as service:
        connect_to(service)
        execute_operator(operator(task_id="a", session_id="s", message="m", email="oncall@example.com"))
        execute_operator(operator(task_id="b", session_id="t", message="m", user_email="a@example.com"))
    assert [request.json().get("email") for request in service.received] == [None, "a@example.com"]


@BOTH
def test_a_message_to_a_session_that_somebody_else_closed_is_refused(operator, ledger_home, monkeypatch):
    with DocumentedAssistant() as assistant:
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", assistant.connection())
        assistant.closed.add("visitor-7")
        with pytest.raises(AssistantBadRequestError, match="session is closed"):
            execute_operator(operator(task_id="ask", session_id="visitor-7", message="When?"))
        assert assistant.refused == [("visitor-7", "When?")]


# -- lost replies ----------------------------------------------------------------------------------


@pytest.mark.promise("chat", "A chat that timed out is not sent again in the same try.")
@pytest.mark.parametrize(
    ("on_ambiguous", "state", "error"),
    [
        ("retry", "failed", AssistantAmbiguousError),
        ("fail", "failed", AssistantAmbiguousPermanentError),
        ("skip", "skipped", None),
    ],
)
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
        assert "chat_timeout" in str(run.error)


@pytest.mark.promise("chat", "A question whose answer was lost is asked again only if on_ambiguous allows it.")
@pytest.mark.parametrize(("on_ambiguous", "tries"), [("retry", 3), ("fail", 1), ("skip", 1)])
@pytest.mark.parametrize(
    ("operator", "fault", "retries"),
    [
        (AssistantChatOperator, "store-then-status:500", 0),
        # A success that cannot be read has arrived.
        (AssistantChatOperator, "status:200", 4),
        (AssistantSubmitChatOperator, "status:200", 4),
    ],
)
def test_retries_of_the_task_post_it_again_only_by_choice(
    operator, fault, retries, on_ambiguous, tries, service, connect, run_operator
):
    connect(retries=retries)
    service.answer(fault, times=None, reply="no JSON")
    run = run_operator(operator, session_id="s", message="?", on_ambiguous=on_ambiguous, retries=2)
    assert run.tries() == service.posts() == tries


@pytest.mark.promise("chat", "A retry knows that an earlier try may have asked, also after a kill, and counts it.")
@pytest.mark.parametrize("first", ["status:200", "store-then-status:502"], ids=["answered", "lost"])
@pytest.mark.parametrize("on_ambiguous", ["retry", "skip", "fail"])
def test_what_an_earlier_try_asked_is_asked_again_only_by_choice(on_ambiguous, first, service, connection, capfd):
    """A try that ended after the answer, before Airflow had its result, leaves the attempt of one that succeeded."""
    service.answer(first, path=CHAT, reply={"answer": "42"} if first == "status:200" else None)

    def ask(clears):
        operator = AssistantChatOperator(task_id="t", session_id="s", message="m", on_ambiguous=on_ambiguous)
        return execute_operator(operator, max_tries=clears)

    with contextlib.suppress(AssistantAmbiguousError, AirflowSkipException):
        ask(0)
    if on_ambiguous == "retry":
        ask(0)
        assert "may also have accepted at least 1 earlier attempt" in "".join(capfd.readouterr())
    else:
        with pytest.raises(AirflowSkipException if on_ambiguous == "skip" else AssistantAmbiguousPermanentError):
            ask(0)
    assert service.posts() == (2 if on_ambiguous == "retry" else 1)
    assert ask(1)["text"], "a cleared task asks again: nobody has the earlier answer"
    assert "earlier attempt" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(("operator", "path"), [(AssistantChatOperator, CHAT), (AssistantSubmitChatOperator, "async$")])
def test_a_message_that_was_sent_twice_is_counted(operator, path, service, connect, run_operator, caplog, capfd):
    connect(retries=2)
    service.answer("store-then-status:502", path=path)
    run = run_operator(operator, session_id="s", message="?")
    assert run.state == "success"
    assert run.xcom(key="possibly_duplicated") == 1
    assert len(service.chats()) == 2
    assert "more than once" in caplog.text + "".join(capfd.readouterr())


# -- closing a session -----------------------------------------------------------------------------


def close(run_operator, **options):
    return run_operator(AssistantCloseSessionOperator, session_id="s", **options)


@pytest.mark.parametrize("reply", [None, "empty"])
def test_close_session(reply, service, connection, run_operator):
    execute_operator(AssistantChatOperator(task_id="ask", session_id="s", message="?"))
    if reply:
        service.answer(reply, path=CLOSE)
    result = close(run_operator).xcom()
    assert set(result) == {"session_id", "site_id", "raw"}
    assert (result["session_id"], result["site_id"]) == ("s", "acme-docs")
    (row,) = service.sessions()
    assert row["closed_at"] is not None


@pytest.mark.parametrize("retries", [0, 1], ids=["by the task's retry", "by the connection's retry"])
@pytest.mark.parametrize("fault", ["store-then-status:503", "store-then-drop"])
def test_closing_a_session_is_sent_again_and_never_ambiguous(fault, retries, service, connect, run_operator):
    connect(retries=retries)
    execute_operator(AssistantChatOperator(task_id="ask", session_id="s", message="?"))
    service.answer(fault, path=CLOSE)
    run = close(run_operator, retries=1)
    assert run.state == "success", run.errors
    assert service.posts(CLOSE) == 2


@pytest.mark.parametrize(("before", "retries", "tries"), [([], 3, 1), (["store-then-status:503"], 0, 2)])
def test_a_404_on_closing_means_that_the_site_is_unknown(before, retries, tries, service, connect, run_operator):
    connect(retries=retries)
    for fault in (*before, "status:404"):
        service.answer(fault, path=CLOSE)
    run = close(run_operator, retries=2)
    assert (type(run.error), run.tries()) == (AssistantNotFoundError, tries)
    assert service.posts(CLOSE) == len(before) + 1
