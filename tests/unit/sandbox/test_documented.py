"""The setting ``documented``, and each setting that it changes."""

from __future__ import annotations

import random
import re
import threading
import time
from typing import Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer, Settings, tenants
from airflow_provider_assistant.sandbox.settings import DOCUMENTED, read_settings
from tests.live.clients import local_client

from .conftest import HEADERS
from .test_endpoints import QA

MESSAGE = {"session_id": "s", "message": "How long is the refund window?"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def ended(client: httpx.Client, request_id: str) -> dict[str, Any]:
    for _ in range(12_000):
        reply = client.get(f"/chat/requests/{request_id}").json()
        if reply["status"] in ("complete", "completed", "failed"):
            return reply
        time.sleep(0.01)
    raise AssertionError(reply)


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/chat", json={**MESSAGE, **fields})


def submit(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/chat/async", json={**MESSAGE, **fields})


def test_replies_about_chats(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documented=True, document_status="active", fail_messages="boom")
    client.post("/documents/qa", json=QA)
    assert set(ask(client).json()) == {"session_id", "request_id", "answer", "confidence_score"}
    submitted = submit(client)
    assert submitted.status_code == 202
    assert set(submitted.json()) == {"session_id", "request_id", "status"}
    request_id = submitted.json()["request_id"]
    assert ended(client, request_id) == {
        "session_id": "s",
        "request_id": request_id,
        "status": "completed",
        "answer": "30 days.",
    }
    request_id = submit(client, message="boom").json()["request_id"]
    assert ended(client, request_id) == {
        "session_id": "s",
        "request_id": request_id,
        "status": "failed",
        "error": "The assistant could not answer this message.",
    }


def test_a_new_document_is_a_draft_and_its_duplicate_refused(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documented=True)
    assert client.post("/documents/qa", json=QA).json()["status"] == "draft"
    assert client.post("/documents/qa", json=QA).status_code == 409
    assert ask(client).json()["confidence_level"] == "low"


@pytest.mark.parametrize(
    ("method", "path", "key", "body", "status", "text"),
    [
        ("GET", "/statistics", "wrong", None, 401, "invalid_api_key"),
        ("POST", "/chat", tenants.ACME_READONLY_KEY, MESSAGE, 403, "api_access_not_available_on_plan"),
        ("POST", "/chat/async", tenants.ACME_BASIC_KEY, MESSAGE, 403, "api_access_not_available_on_plan"),
        ("POST", "/chat", tenants.GLOBEX_FULL_KEY, MESSAGE, 404, "site not found"),
        ("GET", "/chat/requests/req_0", tenants.ACME_FULL_KEY, None, 404, "request not found"),
        ("GET", "/nothing", tenants.ACME_FULL_KEY, None, 404, "Not Found"),
        ("PUT", "/chat", tenants.ACME_FULL_KEY, None, 405, "Method Not Allowed"),
        ("POST", "/chat", tenants.ACME_FULL_KEY, {"session_id": "s"}, 400, "message is required."),
        (
            "POST",
            "/chat/feedback",
            tenants.ACME_FULL_KEY,
            {"session_id": "s", "request_id": "r", "feedback": "fine"},
            400,
            "feedback must be 'good' or 'bad'",
        ),
    ],
)
def test_errors_are_texts(
    server: SandboxServer,
    client: httpx.Client,
    control: httpx.Client,
    method: str,
    path: str,
    key: str,
    body: Any,
    status: int,
    text: str,
) -> None:
    server.service.faults.update(documented=True)
    reply = client.request(method, path, json=body, headers={"X-API-Key": key})
    assert (reply.status_code, reply.json()) == (status, {"error": text})
    # The control plane is not a part of the documented service.
    refused = control.post("/faults", json={"latency": -1})
    assert refused.json()["error"]["code"] == "bad_request"


def test_injected_errors_are_texts_too(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(error_format="text")
    for action in ("status:503", "retry-after:3"):
        server.service.faults.add(action)
        assert isinstance(client.get("/statistics").json()["error"], str)


@pytest.mark.parametrize("path", ["/chat", "/chat/async"])
def test_a_closed_session_gets_no_more_messages(server: SandboxServer, client: httpx.Client, path: str) -> None:
    server.service.faults.update(closed_sessions="refuse")
    for session_id in ("s", "t", "s"):
        message = {**MESSAGE, "session_id": session_id}
        assert client.post(path, json=message).is_success
    for _ in range(2):
        assert client.post("/chat/session/close", json={"session_id": "s"}).is_success
    refused = client.post(path, json=MESSAGE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_closed")
    sent = server.service.chats.sent.total()
    assert sent == 3
    assert client.post(path, json={**MESSAGE, "session_id": "t"}).is_success
    other_site = str(client.base_url).rstrip("/").replace("acme-docs", "acme-shop")
    assert client.post(other_site + path, json=MESSAGE).is_success
    server.service.faults.update(closed_sessions="reopen")
    assert client.post(path, json=MESSAGE).is_success
    server.service.faults.update(closed_sessions="refuse")
    assert client.post(path, json=MESSAGE).is_success, "the session is open again"


def test_closing_says_ok(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documented=True)
    for session_id in ("s", "s", "never opened"):
        reply = client.post("/chat/session/close", json={"session_id": session_id})
        assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


def test_a_second_rating_changes_nothing(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documented=True)
    dice = random.Random(8)
    first_words = [dice.choice(["good", "bad"]) for _ in range(6)]
    for first in first_words:
        path = dice.choice(["/chat", "/chat/async"])
        request_id = client.post(path, json=MESSAGE).json()["request_id"]
        ended(client, request_id)
        for number in range(dice.randint(1, 4)):
            word = first if number == 0 else dice.choice(["good", "bad"])
            body = {"session_id": "s", "request_id": request_id, "feedback": word}
            reply = client.post("/chat/feedback", json=body)
            assert reply.status_code == 200
            rated = reply.json()
            assert ("feedback_submitted_at" in rated) is (number == 0)
            assert TIME.fullmatch(rated.pop("feedback_submitted_at", "2000-01-01T0Z"))
            assert rated == {"status": "ok", "request_id": request_id, "feedback": first}
    feedback = client.get("/statistics").json()["feedback"]
    assert feedback["total"] == len(first_words)


def test_only_completed_requests_are_rated(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(documented=True, processing_seconds=3600)
    request_id = submit(client).json()["request_id"]
    body = {"session_id": "s", "request_id": request_id, "feedback": "good"}
    assert client.post("/chat/feedback", json=body).status_code == 400


@pytest.mark.parametrize("words", ["good,bad", "up, down ,so-so", "5"])
def test_the_words_of_ratings(server: SandboxServer, client: httpx.Client, words: str) -> None:
    server.service.faults.update(feedback_words=words)
    request_id = ask(client).json()["request_id"]
    body = {"session_id": "s", "request_id": request_id}
    for word in (part.strip() for part in words.split(",")):
        assert client.post("/chat/feedback", json={**body, "feedback": word}).status_code == 201
        refused = client.post("/chat/feedback", json={**body, "feedback": word + "!"})
        assert refused.status_code == 400
        assert f"'{word}'" in refused.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/documents/qa", "/documents/text", "/documents"])
def test_duplicates_are_refused(server: SandboxServer, client: httpx.Client, path: str) -> None:
    def create(title: str, content: str) -> httpx.Response:
        if path == "/documents":
            return client.post(path, files={"file": (f"{title}.txt", content.encode())})
        body = {"title": title, "question": "Q?", "answer": content, "content": content}
        return client.post(path, json=body)

    first = create("A", "one").json()
    assert create("A", "one").is_success
    server.service.faults.update(duplicate_documents="reject", documents_quota=5)
    refused = create("A", "one")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "duplicate_document"
    assert refused.json()["error"]["document_id"] == first["id"]
    assert [create("A", "two").status_code, create("B", "one").status_code] == [201, 201]
    other_site = str(client.base_url).rstrip("/").replace("acme-docs", "acme-shop")
    files = {"file": ("A.txt", b"one")}
    assert client.post(f"{other_site}/documents", files=files).status_code == 201
    # A duplicate needs no room, and a deleted document has no duplicate.
    assert create("A", "one").status_code == 409
    ids = [row["id"] for row in server.service.documents.listed("acme-docs")]
    client.post("/documents/bulk-delete", json={"document_ids": ids})
    assert create("A", "one").status_code == 201


def test_the_confidence_is_the_score_of_the_best_document(server: SandboxServer, client: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    for message in ("How long is the refund window?", "refund Tuesday", "Napoleon?"):
        reply = ask(client, message=message).json()
        score = reply["sources"][0]["score"] if reply["sources"] else 0
        assert reply["confidence_score"] == score
        assert reply.get("confidence_level") == ("low" if score < 0.5 else None)
        polled = ended(client, submit(client, message=message).json()["request_id"])["result"]
        for name in ("confidence_score", "confidence_level"):
            assert polled.get(name) == reply.get(name)
    server.service.faults.update(confidence=False)
    assert not {"confidence_score", "confidence_level"} & set(ask(client).json())


def test_without_times_a_chat_has_none(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(request_times=False)
    request_id = submit(client).json()["request_id"]
    for reply in (ask(client), submit(client), client.get(f"/chat/requests/{request_id}")):
        assert not [name for name in reply.json() if name.endswith("_at")]
        assert not TIME.search(reply.text)


def test_a_slow_answer_blocks_nobody(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(sync_seconds=0.4)
    seconds: list[float] = []

    def timed() -> None:
        begun = time.monotonic()
        ask(client)
        seconds.append(time.monotonic() - begun)

    threads = [threading.Thread(target=timed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seconds) == 8
    assert min(seconds) >= 0.4
    assert client.get("/statistics").json()["chats"]["sync"]["latency_ms"]["p50"] >= 400


def test_a_client_that_does_not_wait_does_not_prevent_its_answer() -> None:
    with (
        SandboxServer(sync_seconds=3600) as server,
        local_client(base_url=f"{server.url}/m2m/sites/acme-docs", headers=HEADERS) as client,
    ):
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                client.post("/chat", json=MESSAGE, timeout=0.5)
        statistics = client.get("/statistics").json()["chats"]["sync"]
    assert (statistics["total"], statistics["unanswered"]) == (2, 2)


def test_the_setting_sets_defaults_that_others_override() -> None:
    settings = Settings(documented=True)
    assert {name: getattr(settings, name) for name in DOCUMENTED} == DOCUMENTED
    assert Settings(documented=True, document_status="active").document_status == "active"
    flags = read_settings(["--documented", "yes", "--request-times", "true"], {})
    assert (flags.error_format, flags.request_times) == ("text", True)
    changed = Settings(closed_sessions="refuse", latency=2).changed(documented=True)
    assert (changed.document_status, changed.latency) == ("draft", 2)
    assert changed.changed(duplicate_documents="allow").document_status == "draft"
    assert changed.changed(documented=False) == Settings(latency=2)
    mixed = changed.changed(documented=True, error_format="detailed")
    assert (mixed.error_format, mixed.feedback_words) == ("detailed", "good,bad")
