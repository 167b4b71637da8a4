"""Error responses of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import tenants
from tests.live.clients import local_request

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

QA = {"title": "T", "question": "Q?", "answer": "A."}
CHAT = {"session_id": "s", "message": "Hello?"}


def error(reply: httpx.Response) -> tuple[int, str, str | None]:
    body = reply.json()
    assert set(body) == {"error"}
    assert body["error"]["message"]
    return reply.status_code, body["error"]["code"], body["error"].get("field")


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "canary-7f3a"}, {"X-API-Key": ""}])
def test_401(server: SandboxServer, headers: dict[str, str]) -> None:
    reply = local_request("POST", f"{server.url}/m2m/sites/nowhere/documents/qa", headers=headers, content="{")
    assert error(reply) == (401, "unauthorized", None)
    assert "canary-7f3a" not in reply.text


@pytest.mark.parametrize(
    ("key", "path", "body", "code"),
    [
        (tenants.ACME_READONLY_KEY, "/documents/qa", QA, "read_only_key"),
        (tenants.ACME_READONLY_KEY, "/chat", CHAT, "read_only_key"),
        (tenants.ACME_BASIC_KEY, "/chat/async", CHAT, "plan_lacks_async_chat"),
    ],
)
def test_403(client: httpx.Client, key: str, path: str, body: dict[str, Any], code: str) -> None:
    assert error(client.post(path, json=body, headers={"X-API-Key": key})) == (403, code, None)


def test_a_read_only_key_reads(client: httpx.Client) -> None:
    headers = {"X-API-Key": tenants.ACME_READONLY_KEY}
    assert client.get("/statistics", headers=headers).status_code == 200


def test_a_basic_key_chats(client: httpx.Client) -> None:
    headers = {"X-API-Key": tenants.ACME_BASIC_KEY}
    assert client.post("/chat", json=CHAT, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("tenants/globex/limits", "tenant_id"),
        ("tenants/none/limits", "tenant_id"),
        ("sites/globex-help/statistics", "site_id"),
        ("sites/none/statistics", "site_id"),
        ("sites/acme-docs/chat/requests/none", "request_id"),
    ],
)
def test_404(server: SandboxServer, client: httpx.Client, path: str, field: str) -> None:
    status, _, named = error(client.get(f"{server.url}/m2m/{path}"))
    assert (status, named) == (404, field)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/documents/qa", {"title": "T", "question": "Q?"}, "answer"),
        ("/documents/qa", {**QA, "answer": ""}, "answer"),
        ("/documents/qa", {**QA, "title": " \n"}, "title"),
        ("/documents/qa", {**QA, "question": 3}, "question"),
        ("/documents/text", {"title": "T", "content": None}, "content"),
        ("/documents/text", {"title": "T", "content": "C", "category": ["c"]}, "category"),
        ("/chat", {"message": "m"}, "session_id"),
        ("/chat", {**CHAT, "session_id": "s" * 201}, "session_id"),
        ("/chat", {**CHAT, "email": "ann at example"}, "email"),
        ("/chat", {**CHAT, "response_language": "English, please"}, "response_language"),
        ("/chat/async", {**CHAT, "email": "@"}, "email"),
        ("/chat/feedback", {"session_id": "s", "request_id": "r", "feedback": ""}, "feedback"),
        ("/chat/session/close", {}, "session_id"),
    ],
)
def test_400_names_the_field(client: httpx.Client, path: str, body: dict[str, Any], field: str) -> None:
    status, _, named = error(client.post(path, json=body))
    assert (status, named) == (400, field)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b"\xff", b'{"title":"\\ud8'])
def test_400_for_what_is_no_object(client: httpx.Client, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = client.post("/documents/qa", content=content, headers=headers)
    assert error(reply) == (400, "malformed_json", None)


def test_400_for_a_lone_surrogate(client: httpx.Client) -> None:
    body = b'{"title":"T","question":"Q","answer":"\\ud800"}'
    headers = {"Content-Type": "application/json"}
    assert client.post("/documents/qa", content=body, headers=headers).status_code == 400


def test_400_for_another_content_type(client: httpx.Client) -> None:
    assert error(client.post("/documents/qa", data=QA)) == (400, "bad_content_type", None)
    assert error(client.post("/documents", json=QA)) == (400, "bad_content_type", None)


@pytest.mark.parametrize(
    "files",
    [
        {"other": ("a.txt", b"text")},
        {"file": (None, b"text")},
        [("file", ("a.txt", b"text")), ("file", ("b.txt", b"text"))],
    ],
)
def test_400_for_an_upload_without_one_file(client: httpx.Client, files: Any) -> None:
    status, _, field = error(client.post("/documents", files=files))
    assert (status, field) == (400, "file")


def test_400_for_broken_multipart(client: httpx.Client) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert error(client.post("/documents", content=b"nonsense", headers=headers))[0] == 400


def test_400_for_a_body_that_is_too_large(client: httpx.Client) -> None:
    files = {"file": ("a.txt", b"x" * (10 * 1024 * 1024 + 1))}
    assert error(client.post("/documents", files=files)) == (400, "body_too_large", None)


def test_feedback_must_fit_its_request(client: httpx.Client) -> None:
    request_id = client.post("/chat", json=CHAT).json()["request_id"]
    body = {"session_id": "other", "request_id": request_id, "feedback": "good"}
    assert error(client.post("/chat/feedback", json=body)) == (
        400,
        "session_mismatch",
        "session_id",
    )
    unknown = {**body, "request_id": "none"}
    assert error(client.post("/chat/feedback", json=unknown))[0] == 404


def test_unknown_paths_and_methods(client: httpx.Client) -> None:
    assert error(client.get("/nothing"))[0] == 404
    reply = client.put("/chat")
    assert error(reply)[0] == 405
    assert reply.headers["allow"] == "POST"
    reply = client.put("/documents")
    assert error(reply)[0] == 405
    assert reply.headers["allow"] == "GET, POST"


def test_documents_quota(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documents_quota=2)
    statuses = [client.post("/documents/qa", json=QA).status_code for _ in range(2)]
    refused = client.post("/documents/qa", json=QA)
    assert statuses == [201, 201]
    assert error(refused) == (429, "documents_quota_exceeded", None)
    assert int(refused.headers["retry-after"]) > 0
    assert server.service.documents.count() == 2


def test_messages_quota(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(messages_quota=1)
    assert client.post("/chat/async", json=CHAT).status_code == 202
    refused = client.post("/chat", json=CHAT)
    assert error(refused) == (429, "messages_quota_exceeded", None)
    assert 0 < int(refused.headers["retry-after"]) <= 31 * 24 * 3600
