"""Errors of the service over a real socket: those of a status, and those that a success reports in its body."""

from __future__ import annotations

import asyncio
import json

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import ChatMessage, QADocument
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from tests.hostile import CALLS
from tests.task_runs.context import execute_operator
from tests.wire import SHORT_TIMEOUT, Answer, FakeTime, Received, ScriptedService, client_of, refusing_port

KEY = "canary-key-0123456789"
# Seconds; longer than any test runs.
NEVER = 3600
GET = endpoints.get_statistics("docs")
QA = QADocument(title="t", question="q", answer="a", category="c")
POST = endpoints.create_qa_document("docs", QA)
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"


@pytest.fixture
def connected(ledger_home, monkeypatch):
    def connect(service: ScriptedService, **fields) -> None:
        extra = {"site_id": "docs", "retries": 0, **fields}
        connection = {"conn_type": "assistant", "host": service.url, "password": KEY, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))

    return connect


def is_wait_for_an_outage(clock: FakeTime) -> bool:
    """Return whether the call went on for more than a minute, and not for much longer."""
    return 60 < sum(clock.waited) < 100 and len(clock.waited) < 25


@pytest.mark.promise(
    "replies and errors", "A request that the service refuses is sent once, and Airflow does not retry the task."
)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, AssistantBadRequestError),
        (401, AssistantAuthenticationError),
        (403, AssistantPermissionError),
        (404, AssistantNotFoundError),
    ],
)
@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_permanent_errors_are_sent_once_and_not_retried_by_airflow(send, status, error, call) -> None:
    with ScriptedService(Answer(status, {"error": {"message": "no such thing"}})) as service:
        with pytest.raises(error) as refused:
            send(service.url, call)
    assert len(service.received) == 1
    assert isinstance(refused.value, AirflowFailException)
    assert refused.value.detail == "no such thing"
    assert "site 'docs'" in str(refused.value)
    assert refused.value.endpoint == call.endpoint


def test_5xx_of_a_create_that_persists_is_ambiguous(send) -> None:
    clock = FakeTime()
    with ScriptedService(Answer(502, HTML)) as service, pytest.raises(AssistantAmbiguousError) as unclear:
        send(service.url, POST, clock)
    assert len(service.received) == len(clock.waited) + 1
    assert is_wait_for_an_outage(clock)
    assert isinstance(unclear.value.__cause__, AssistantServerError)
    assert "502 Bad Gateway" in str(unclear.value)
    assert "<" not in str(unclear.value)


@pytest.mark.promise("chat", "A chat that timed out is never sent again.")
@pytest.mark.parametrize("way", ["client", "async client", "hook", "hook by choice"])
@pytest.mark.parametrize("before", [[], [Answer(503)], [Answer(429)]], ids=["first", "after 503", "after 429"])
def test_nobody_sends_a_chat_again_that_timed_out(way, before, connected, no_connect_timeout) -> None:
    with ScriptedService(*before, Answer(delay=NEVER)) as service:
        connected(service, chat_timeout=SHORT_TIMEOUT, retries=3)
        client = client_of(service.url, chat_timeout=SHORT_TIMEOUT, retry=RetryPolicy(initial_backoff=0.01))
        sends = {
            "client": lambda: client.send(CALLS["chat"]),
            "async client": lambda: asyncio.run(sent_by_async_client(client)),
            "hook": lambda: AssistantHook().send(CALLS["chat"]),
            "hook by choice": lambda: AssistantHook().send(CALLS["chat"], "retry"),
        }
        with pytest.raises(AssistantAmbiguousError):
            sends[way]()
    assert len(service.received) == len(before) + 1


async def sent_by_async_client(client):
    async with client:
        return await client.asend(CALLS["chat"])


@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_connection_refused(send, call) -> None:
    clock = FakeTime()
    with refusing_port() as port, pytest.raises(AssistantConnectionError, match="base URL"):
        send(f"http://127.0.0.1:{port}/api/v1", call, clock)
    assert is_wait_for_an_outage(clock)


@pytest.mark.parametrize("body", [b"", b"  \n"])
@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_an_empty_body_is_a_success(send, body, call) -> None:
    with ScriptedService(Answer(200, body)) as service:
        assert send(service.url, call).raw is None


def test_an_accepted_chat_without_a_request_id(send) -> None:
    call = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
    with ScriptedService(Answer(202, {"status": "queued"})) as service:
        with pytest.raises(AssistantResponseError, match="request_id"):
            send(service.url, call)


FAILURES = [
    (200, {"error": "title must be shorter"}, "rejected"),
    (201, {"errors": [{"message": "Der Titel fehlt"}]}, "rejected"),
    (207, {"results": [{"status": 422, "error": "category is unknown"}]}, "rejected"),
    (200, {"success": False, "message": "plan is full", "document_id": None}, "rejected"),
    (200, {"error": "internal error"}, "ambiguous"),
    (200, {"success": False}, "ambiguous"),
]


@pytest.mark.promise(
    "replies and errors", "A success whose body says that the call failed creates and answers nothing."
)
@pytest.mark.parametrize(("status", "body", "outcome"), FAILURES)
def test_a_load_counts_no_row_whose_reply_says_that_it_failed(connected, tmp_path, status, body, outcome) -> None:
    findings = tmp_path / "findings.parquet"
    source = [{"id": str(number), "title": "t", "content": f"text {number}"} for number in range(3)]
    load = AssistantLoadTextOperator(
        task_id="load", source=source, key_columns=["id"], max_rejected=3, findings_path=str(findings)
    )
    with ScriptedService(Answer(status, body)) as service:
        connected(service)
        if outcome == "rejected":
            result = execute_operator(load)
            assert (result["created"], result["rejected"]) == (0, 3)
        else:
            with pytest.raises(AssistantError):
                execute_operator(load)
    assert [row["kind"] for row in pq.read_table(findings).to_pylist()] == [outcome] * 3
    assert len(service.received) == 3


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": "message is too long"}, AssistantBadRequestError),
        ({"error": "site not found"}, AssistantNotFoundError),
        ({"status": "error", "message": "Quota of this month is used up"}, AssistantBadRequestError),
        ({"error": {"code": 429}}, AssistantRateLimitError),
        ({"success": False, "result": "overloaded"}, AssistantResponseError),
    ],
)
@pytest.mark.parametrize("call", ["chat", "submit"])
def test_a_chat_whose_reply_says_that_it_failed_is_an_error(send, call, body, error) -> None:
    with ScriptedService(Answer(200, body)) as service, pytest.raises(error):
        send(service.url, CALLS[call], retry=RetryPolicy(attempts=1))
    assert len(service.received) == 1


class FailingChats(ScriptedService):
    """Accept async chats; every other reply reports an error."""

    def next(self, request: Received) -> Answer:
        super().next(request)
        if request.path.endswith("/chat/async"):
            return Answer(202, {"request_id": f"r{len(self.received)}", "status": "processing"})
        return Answer(200, self.answers[0].body)


@pytest.mark.parametrize(
    ("mode", "body"),
    [
        ("sync", {"error": "no model", "message": "The request was processed"}),
        ("sync", {"status": "failed", "text": "something went wrong", "error": "no model"}),
        ("async", {"status": "completed", "error": "no model", "message": "Done"}),
        ("async", {"error": "request not found"}),
    ],
)
def test_a_batch_has_no_answer_to_a_question_whose_reply_says_that_it_failed(connected, tmp_path, mode, body) -> None:
    path = tmp_path / "answers.parquet"
    source = [{"id": str(number), "message": f"question {number}"} for number in range(3)]
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=source,
        key_columns=["id"],
        output_path=str(path),
        mode=mode,
        max_failed=3,
        poll_interval=0.01,
    )
    with FailingChats(Answer(200, body)) as service:
        connected(service)
        result = execute_operator(ask)
    assert result["complete"] == 0
    rows = pq.read_table(path).to_pylist()
    assert [(row["status"] == "complete", row["answer"]) for row in rows] == [(False, None)] * 3
    assert all(row["error"] for row in rows)
