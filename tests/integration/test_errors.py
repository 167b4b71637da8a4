"""Produce every error status, listed and unlisted, over a real socket."""

from __future__ import annotations

import io
import json
import pickle

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.api.payloads import ChatMessage, QADocument
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantNotFoundError,
    AssistantPermissionError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantServerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.sandbox import tenants
from airflow_provider_assistant.sandbox.server import SandboxServer
from airflow_provider_assistant.storage.uploads import as_upload
from tests.hostile import CALLS
from tests.task_runs.context import execute_operator
from tests.wire import SHORT_TIMEOUT, Answer, FakeTime, Received, ScriptedService, refusing_port

KEY = "canary-key-0123456789"
# Seconds; longer than any test runs.
NEVER = 3600
GET = endpoints.get_statistics("docs")
QA = QADocument(title="t", question="q", answer="a", category="c")
POST = endpoints.create_qa_document("docs", QA)
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>"


@pytest.fixture(scope="module")
def url():
    with SandboxServer() as service:
        yield service.url


def is_wait_for_an_outage(clock: FakeTime) -> bool:
    """Return whether the call went on for more than a minute, and not for much longer."""
    return 60 < sum(clock.waited) < 100 and len(clock.waited) < 25


class TestAgainstTheEmbeddedService:
    """Produce each condition of the error table at the service."""

    def test_400(self, send, url) -> None:
        call = endpoints.other("POST", "/m2m/sites/acme-docs/documents/qa", {"title": "only"})
        with pytest.raises(AssistantBadRequestError, match="question") as refused:
            send(url, call, api_key=tenants.ACME_FULL_KEY)
        assert refused.value.status == 400

    def test_401(self, send, url) -> None:
        with pytest.raises(AssistantAuthenticationError, match="API key"):
            send(url, endpoints.get_limits("acme-inc"), api_key=KEY)

    def test_403(self, send, url) -> None:
        call = endpoints.create_qa_document("acme-docs", QA)
        with pytest.raises(AssistantPermissionError, match="plan, access"):
            send(url, call, api_key=tenants.ACME_READONLY_KEY)

    @pytest.mark.parametrize(
        "call",
        [
            endpoints.get_limits("globex"),
            endpoints.get_statistics("globex-help"),
            endpoints.get_statistics("nowhere"),
            endpoints.get_chat_request("acme-docs", "unknown"),
        ],
        ids=["foreign tenant", "foreign site", "unknown site", "unknown request"],
    )
    def test_404(self, send, url, call) -> None:
        with pytest.raises(AssistantNotFoundError, match="identifiers"):
            send(url, call, api_key=tenants.ACME_FULL_KEY)

    def test_429(self, send) -> None:
        with SandboxServer(rate_limit=0.1, rate_burst=1) as service:
            changes = {"api_key": tenants.ACME_FULL_KEY, "retry": RetryPolicy(attempts=2, max_backoff=0.0)}
            send(service.url, endpoints.get_limits("acme-inc"), **changes)
            with pytest.raises(AssistantRateLimitError) as refused:
                send(service.url, endpoints.get_limits("acme-inc"), **changes)
        assert refused.value.retry_after
        assert refused.value.retry_after > 0

    def test_5xx(self, send) -> None:
        clock = FakeTime()
        with SandboxServer(fault_rate=1.0, fault_status="503") as service:
            with pytest.raises(AssistantServerError) as failed:
                send(service.url, endpoints.get_limits("acme-inc"), clock, api_key=tenants.ACME_FULL_KEY)
            assert len(list(service.service.journal.entries())) == len(clock.waited) + 1
        assert is_wait_for_an_outage(clock)
        assert failed.value.status == 503


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


@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_429_is_repeated_for_every_call_and_never_early(send, call) -> None:
    clock = FakeTime()
    answers = [Answer(429, headers={"Retry-After": "7"}), Answer(429), Answer(200, {"id": "d1"})]
    with ScriptedService(*answers) as service:
        reply = send(service.url, call, clock)
    assert reply.call_info.attempts == 3
    assert reply.call_info.ambiguous == 0
    assert 7 <= clock.waited[0] <= 7 * 1.1
    assert clock.waited[1] > 0


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
def test_5xx_of_a_read_is_repeated(send, status) -> None:
    with ScriptedService(Answer(status, HTML), Answer(200, {"a": 1})) as service:
        reply = send(service.url, GET)
    assert reply.raw == {"a": 1}
    assert reply.call_info.attempts == 2


def test_5xx_of_a_create_is_repeated_and_counted_as_ambiguous(send) -> None:
    with ScriptedService(Answer(502, HTML), Answer(drop=True), Answer(201, {"id": "d1"})) as service:
        reply = send(service.url, POST)
    assert reply.call_info.attempts == 3
    assert reply.call_info.ambiguous == 2


def test_5xx_of_a_create_that_persists_is_ambiguous(send) -> None:
    clock = FakeTime()
    with ScriptedService(Answer(502, HTML)) as service, pytest.raises(AssistantAmbiguousError) as unclear:
        send(service.url, POST, clock)
    assert len(service.received) == len(clock.waited) + 1
    assert is_wait_for_an_outage(clock)
    assert isinstance(unclear.value.__cause__, AssistantServerError)
    assert "502 Bad Gateway" in str(unclear.value)
    assert "<" not in str(unclear.value)


@pytest.mark.parametrize("answer", [Answer(502), Answer(drop=True)], ids=["502", "drop"])
def test_a_create_is_sent_once_without_retry_ambiguous(send, answer) -> None:
    with ScriptedService(answer) as service, pytest.raises(AssistantAmbiguousError):
        send(service.url, POST, retry=RetryPolicy(retry_ambiguous=False))
    assert len(service.received) == 1


def test_response_timeout(send, no_connect_timeout) -> None:
    with ScriptedService(Answer(delay=NEVER)) as service:
        with pytest.raises(AssistantTimeoutError):
            send(service.url, GET, retry=RetryPolicy(attempts=1), timeout=SHORT_TIMEOUT)
        with pytest.raises(AssistantAmbiguousError) as unclear:
            send(service.url, POST, retry=RetryPolicy(attempts=1), timeout=SHORT_TIMEOUT)
    assert isinstance(unclear.value.__cause__, AssistantTimeoutError)


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


@pytest.mark.parametrize("body", [HTML, b"{", b"\xff\xfe", b"[" * 100_000], ids=["html", "cut", "binary", "deep"])
@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_a_success_that_is_not_json_is_an_error(send, body, call) -> None:
    kind: type[AssistantError] = AssistantResponseError
    if body is HTML:
        kind = AssistantGatewayError if call is GET else AssistantAmbiguousError
    with ScriptedService(Answer(200, body, {"Content-Type": "text/html"})) as service:
        with pytest.raises(kind, match="base URL"):
            send(service.url, call)
    assert len(service.received) == 1


def test_an_accepted_chat_without_a_request_id(send) -> None:
    call = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
    with ScriptedService(Answer(202, {"status": "queued"})) as service:
        with pytest.raises(AssistantResponseError, match="request_id"):
            send(service.url, call)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(400, {"error": f"your key {KEY} is odd"}),
        Answer(500, f"<pre>{KEY}</pre>".encode()),
        Answer(200, {"echo": KEY}),
        Answer(200, f"<html>{KEY}".encode()),
        Answer(drop=True),
    ],
    ids=["400", "500", "200", "html", "drop"],
)
def test_a_key_in_a_reply_is_redacted(send, answer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    with ScriptedService(answer) as service:
        try:
            shown = repr(send(service.url, GET))
        except AssistantError as error:
            shown = f"{error!r} {error} {error.__cause__!r} {error.__context__!r} {pickle.dumps(error)!r}"
    assert KEY not in shown
    assert KEY not in caplog.text
    assert service.received[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("opened", ["file", "memory"])
def test_an_open_file_is_sent_again_and_left_open(send, opened, tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"read before and sent")
    with path.open("rb") if opened == "file" else io.BytesIO(path.read_bytes()) as file:
        file.seek(len(b"read before"))
        call = endpoints.upload_document("docs", as_upload(file, "a.txt"))
        with ScriptedService(Answer(503), Answer(201, {"id": "d1"})) as service:
            assert send(service.url, call).document_id == "d1"
        assert not file.closed
    for request in service.received:
        assert b"read before and sent" in request.body


FAILURES = [
    (200, {"error": "title must be shorter"}, "rejected"),
    (201, {"errors": [{"message": "Der Titel ist zu lang"}]}, "rejected"),
    (207, {"results": [{"status": 422, "error": "category is unknown"}]}, "rejected"),
    (200, {"success": False, "message": "plan is full", "document_id": None}, "rejected"),
    (200, {"error": "internal error"}, "ambiguous"),
    (200, {"success": False}, "ambiguous"),
]


@pytest.fixture
def connected(ledger_home, monkeypatch):
    def connect(service: ScriptedService) -> None:
        extra = {"site_id": "docs", "retries": 0}
        connection = {"conn_type": "assistant", "host": service.url, "password": KEY, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))

    return connect


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
