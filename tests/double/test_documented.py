"""The double replies as the documentation of the service says, in process and on a socket."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_assistant.sandbox import SandboxServer, Service, Settings
from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY, Request
from airflow_provider_assistant.sandbox.store import Document
from tests.live.clients import local_client

SITE = "/m2m/sites/acme-docs"
TENANT = "/m2m/tenants/acme-inc"
CHAT = f"{SITE}/chat"
Ask = Callable[..., tuple[int, Any]]

REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
NUMBER = (int, float)
REFUNDS = {"title": "Refunds", "question": "When are refunds paid?", "answer": "Within 14 days.", "category": "faq"}


class Double:
    """The double behind a function that sends a request, and a clock that the test moves."""

    def __init__(self, service: Service, send: Callable[..., tuple[int, Any]]) -> None:
        self.service = service
        self.send = send
        self.now = 1_800_000_000.0
        self.service.clock = lambda: self.now

    def ask(self, method: str, path: str, body: Any = None, *, key: str = DEFAULT_KEY) -> tuple[int, Any]:
        return self.send(method, path, body, key)

    def create(self, body: dict[str, str], kind: str = "qa") -> str:
        status, reply = self.ask("POST", f"{SITE}/documents/{kind}", body)
        assert status == 201, reply
        return str(reply["id"])

    def submit(self, message: str, session: str = "s1") -> str:
        _, reply = self.ask("POST", f"{CHAT}/async", {"session_id": session, "message": message})
        return str(reply["request_id"])

    def poll(self, request_id: str) -> Any:
        return self.ask("GET", f"{CHAT}/requests/{request_id}")[1]


def in_process(settings: Settings) -> Iterator[Double]:
    service = Service(settings)

    def send(method: str, path: str, body: Any, key: str) -> tuple[int, Any]:
        headers = {"x-api-key": key, "content-type": "application/json"}
        content = b"" if body is None else json.dumps(body).encode()
        reply = asyncio.run(service.exchange(Request(method, path, {}, headers, content)))
        assert reply is not None
        return reply.status, json.loads(reply.body)

    yield Double(service, send)


def on_a_socket(settings: Settings) -> Iterator[Double]:
    with SandboxServer(settings) as server, local_client(base_url=server.url) as client:

        def send(method: str, path: str, body: Any, key: str) -> tuple[int, Any]:
            response = client.request(method, path.lstrip("/"), json=body, headers={"X-API-Key": key})
            return response.status_code, response.json()

        yield Double(server.service, send)


@pytest.fixture(params=[in_process, on_a_socket])
def double(request: Any) -> Iterator[Double]:
    yield from request.param(Settings(port=0, processing_seconds=10))


def matches(value: Any, expected: Any) -> bool:
    """Return whether a value of a reply is the expected one, or of the expected type or pattern."""
    if isinstance(expected, re.Pattern):
        return isinstance(value, str) and expected.fullmatch(value) is not None
    if isinstance(expected, dict):
        names_match = isinstance(value, dict) and value.keys() == expected.keys()
        return names_match and all(matches(value[name], expected[name]) for name in expected)
    if isinstance(expected, type | tuple):
        return isinstance(value, expected)
    return bool(value == expected)


def test_a_chat_is_answered_in_one_round_trip(double: Double) -> None:
    double.create(REFUNDS)
    status, reply = double.ask("POST", CHAT, {"session_id": "s1", "message": "When are refunds paid?"})
    ids = {"session_id": "s1", "request_id": REQUEST_ID}
    assert status == 200
    assert matches(reply, {**ids, "answer": "Within 14 days.", "confidence_score": 1.0}), reply
    _, reply = double.ask("POST", CHAT, {"session_id": "s1", "message": "Do penguins fly?"})
    unknown = {"answer": str, "confidence_score": 0.0, "confidence_level": "low"}
    assert matches(reply, {**ids, **unknown}), reply


def test_an_async_chat_is_submitted_and_polled_until_it_is_completed_or_failed(double: Double) -> None:
    double.create(REFUNDS)
    double.service.update(fail_messages="impossible")
    body = {"session_id": "s1", "message": "When are refunds paid?"}
    status, submitted = double.ask("POST", f"{CHAT}/async", body)
    ids = {"session_id": "s1", "request_id": submitted["request_id"]}
    assert status == 202
    assert matches(submitted, {"session_id": "s1", "request_id": REQUEST_ID, "status": "queued"})
    failing = double.submit("impossible")
    assert double.poll(submitted["request_id"]) == {**ids, "status": "queued"}
    double.now += 6
    assert double.poll(submitted["request_id"]) == {**ids, "status": "processing"}
    double.now += 4
    assert double.poll(submitted["request_id"]) == {**ids, "status": "completed", "answer": "Within 14 days."}
    failed = {"session_id": "s1", "request_id": failing, "status": "failed", "error": str}
    assert matches(double.poll(failing), failed)


def test_only_the_first_rating_of_a_completed_request_counts(double: Double) -> None:
    request_id = double.submit("Hello?")
    rating = {"session_id": "s1", "request_id": request_id, "feedback": "good"}
    assert double.ask("POST", f"{CHAT}/feedback", rating)[0] == 400, "it is not completed yet"
    double.now += 10
    status, reply = double.ask("POST", f"{CHAT}/feedback", rating)
    first = {"status": "ok", "request_id": request_id, "feedback": "good", "feedback_submitted_at": TIME}
    assert status == 200
    assert matches(reply, first), reply
    status, reply = double.ask("POST", f"{CHAT}/feedback", {**rating, "feedback": "bad"})
    assert (status, reply) == (200, {"status": "ok", "request_id": request_id, "feedback": "good"})
    refused = double.ask("POST", f"{CHAT}/feedback", {**rating, "feedback": "great"})
    assert refused == (400, {"error": "feedback must be 'good' or 'bad'"})


def test_a_closed_session_gets_no_more_messages(double: Double) -> None:
    double.submit("Hello?")
    for session in ("s1", "s1", "never opened"):
        closed = double.ask("POST", f"{CHAT}/session/close", {"session_id": session})
        assert closed == (200, {"status": "ok"})
    for path in (CHAT, f"{CHAT}/async"):
        assert double.ask("POST", path, {"session_id": "s1", "message": "More?"})[0] == 409
    assert double.submit("More?", "s2")


ONE_KEY = {"session_id": "s", "message": "m"}
REFUSALS = [
    ("wrong", "GET", f"{TENANT}/limits", None, 401, "invalid_api_key"),
    ("dev-acme-readonly", "POST", CHAT, ONE_KEY, 403, "api_access_not_available_on_plan"),
    (DEFAULT_KEY, "GET", "/m2m/sites/globex-help/statistics", None, 404, "site not found"),
    (DEFAULT_KEY, "GET", "/m2m/tenants/globex/limits", None, 404, "tenant not found"),
    (DEFAULT_KEY, "GET", f"{CHAT}/requests/req_0", None, 404, "request not found"),
    (DEFAULT_KEY, "POST", f"{SITE}/documents/qa", {"title": "t", "question": "q"}, 400, "answer is required"),
    (DEFAULT_KEY, "POST", f"{SITE}/documents/text", {"title": 1, "content": "c"}, 400, "title must be a text"),
    (DEFAULT_KEY, "POST", CHAT, ["no object"], 400, "the body must be a JSON object"),
    (DEFAULT_KEY, "DELETE", SITE, None, 405, "method not allowed"),
    (DEFAULT_KEY, "GET", f"{SITE}/unknown", None, 404, "not found"),
]


@pytest.mark.parametrize(("key", "method", "path", "body", "status", "text"), REFUSALS)
def test_errors_are_texts(double: Double, key: str, method: str, path: str, body: Any, status: int, text: str) -> None:
    assert double.ask(method, path, body, key=key) == (status, {"error": text})


def test_a_document_is_created_once_listed_changed_and_deleted(double: Double) -> None:
    first = double.create(REFUNDS)
    assert double.ask("POST", f"{SITE}/documents/qa", REFUNDS)[0] == 409
    second = double.create({"title": "Shipping", "content": "Takes three days."}, "text")
    _, listed = double.ask("GET", f"{SITE}/documents")
    described = {
        "id": first,
        "site_id": "acme-docs",
        "kind": "qa",
        "title": "Refunds",
        "category": "faq",
        "bytes": 37,
        "status": "active",
        "created_at": TIME,
        "updated_at": TIME,
    }
    assert matches(listed["documents"][0], described), listed
    draft = {"document_ids": [first, "unknown"], "status": "draft"}
    status, reply = double.ask("PATCH", f"{SITE}/documents/bulk-status", draft)
    assert (status, reply) == (200, {"status": "ok", "document_ids": [first], "not_found": ["unknown"]})
    assert (
        double.ask("POST", CHAT, {"session_id": "s", "message": "When are refunds paid?"})[1]["answer"]
        != "Within 14 days."
    )
    status, reply = double.ask("PATCH", f"{SITE}/documents/{first}", {"status": "active", "answer": "At once."})
    assert (status, reply["status"]) == (200, "active")
    assert double.ask("POST", CHAT, {"session_id": "s", "message": "When are refunds paid?"})[1]["answer"] == "At once."
    double.ask("POST", f"{SITE}/documents/bulk-delete", {"document_ids": [first]})
    _, listed = double.ask("GET", f"{SITE}/documents")
    assert [one["id"] for one in listed["documents"]] == [second]
    assert double.create(REFUNDS), "a deleted document may be created again"


def test_drafts_and_documents_in_processing_answer_nothing(double: Double) -> None:
    double.service.update(document_status="draft", document_seconds=60)
    document = double.create(REFUNDS)
    asked = {"session_id": "s", "message": "When are refunds paid?"}

    def state() -> tuple[str, bool]:
        [listed] = double.ask("GET", f"{SITE}/documents")[1]["documents"]
        return listed["status"], double.ask("POST", CHAT, asked)[1]["answer"] == "Within 14 days."

    assert state() == ("draft", False)
    double.ask("PATCH", f"{SITE}/documents/bulk-status", {"document_ids": [document], "status": "active"})
    assert state() == ("processing", False)
    double.now += 60
    assert state() == ("active", True)


def test_lists_have_pages_with_a_cursor() -> None:
    [double] = in_process(Settings(processing_seconds=0, page_size=2))
    titles = [f"t{number}" for number in range(5)]
    for title in titles:
        double.create({"title": title, "content": title}, "text")
    query: dict[str, str] = {}
    seen: list[str] = []
    while True:
        request = Request("GET", f"{SITE}/documents", query, {"x-api-key": DEFAULT_KEY})
        reply = asyncio.run(double.service.exchange(request))
        assert reply is not None
        page = json.loads(reply.body)
        seen += [one["title"] for one in page["documents"]]
        assert len(page["documents"]) <= 2
        if page["next_cursor"] is None:
            break
        query = {"cursor": page["next_cursor"]}
    assert seen == titles


def word_file(text: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("word/document.xml", f"<w:document><w:p><w:t>{text}</w:t></w:p></w:document>")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "status", "answer"),
    [
        ("shipping.txt", b"Shipping takes three days.\r\n", 201, "Shipping takes three days."),
        ("C:\\files\\Überblick.TXT", "Shipping: três dias".encode(), 201, "Shipping: três dias"),
        ("shipping.docx", word_file("Shipping takes three days."), 201, "Shipping takes three days."),
        ("shipping.pdf", b"%PDF-1.7", 201, "shipping.pdf"),
        ("shipping.docx", b"no Word file", 400, None),
        ("shipping.md", b"Shipping takes three days.", 400, None),
        ("shipping.html", b"<p>Shipping takes three days.", 400, None),
        ("shipping", b"Shipping takes three days.", 400, None),
    ],
)
def test_files_are_pdf_word_or_plain_text(name: str, content: bytes, status: int, answer: str | None) -> None:
    with SandboxServer() as server:
        client = local_client(base_url=server.url, headers={"X-API-Key": DEFAULT_KEY})
        created = client.post(f"{SITE}/documents", files={"file": (name, content)})
        assert created.status_code == status, created.text
        titles = [document.title for document in server.service.store.all(Document)]
        assert titles == ([name.rpartition("\\")[2]] if status == 201 else [])
        if answer:
            asked = client.post(CHAT, json={"session_id": "s", "message": "shipping"})
            assert asked.json()["answer"] == answer
        client.close()


def test_reads_count_what_is_stored(double: Double) -> None:
    double.create(REFUNDS)
    double.create({"title": "Shipping", "content": "Takes three days."}, "text")
    asked = {"session_id": "s1", "message": "When are refunds paid?", "email": "ann@example.com"}
    _, answered = double.ask("POST", CHAT, asked)
    double.ask("POST", CHAT, {**asked, "message": "Do penguins fly?"})
    double.submit("Hello?", "s2")
    double.ask("POST", f"{CHAT}/session/close", {"session_id": "s2"})
    rating = {"session_id": "s1", "request_id": answered["request_id"], "feedback": "good"}
    double.ask("POST", f"{CHAT}/feedback", rating)

    chats = {"total": 2, "answered": 1, "unanswered": 1, "failed": 0, "pending": 0, "answer_rate": 0.5}
    pending = {"total": 1, "answered": 0, "unanswered": 0, "failed": 0, "pending": 1, "answer_rate": None}
    statistics = {
        "generated_at": TIME,
        "documents": {"total": 2, "by_kind": {"file": 0, "text": 1, "qa": 1}, "bytes": 54},
        "chats": {"sync": chats, "async": pending},
        "sessions": {"open": 1, "closed": 1},
        "feedback": {"total": 1, "has_feedback": True, "by_rating": {"good": 1}},
    }
    usage = {"documents": 2, "active_documents": 2, "storage_bytes": 54, "messages": 3}
    limits = {"documents": {"limit": 1_000_000, "used": 2}}
    tenant = {"tenant_id": "acme-inc", "plan": "business"}
    session = {"status": "open", "email": "ann@example.com", "messages": 2, "opened_at": TIME, "closed_at": None}
    expected = {
        TENANT: {**tenant, "sites": ["acme-docs", "acme-shop"]},
        f"{TENANT}/limits": {**tenant, "limits": limits},
        f"{TENANT}/usage": {"tenant_id": "acme-inc", "usage": usage},
        f"{TENANT}/statistics": {"tenant_id": "acme-inc", **statistics},
        SITE: {"site_id": "acme-docs", "tenant_id": "acme-inc", **usage},
        f"{SITE}/statistics": {"site_id": "acme-docs", **statistics},
        f"{SITE}/users/ann%40example.com/statistics": {
            "site_id": "acme-docs",
            "email": "ann@example.com",
            "sessions": 1,
            "chats": chats,
        },
    }
    for path, reply in expected.items():
        status, got = double.ask("GET", path)
        assert status == 200, path
        assert matches(got, reply), (path, got)
    _, listed = double.ask("GET", f"{SITE}/sessions")
    assert matches(listed["sessions"][0], {"session_id": "s1", **session}), listed
    _, history = double.ask("GET", f"{TENANT}/usage/history")
    today = {"date": "2027-01-15", "documents": 2, "messages": 3, "sessions": 2}
    assert (len(history["days"]), history["days"][-1]) == (30, today)
