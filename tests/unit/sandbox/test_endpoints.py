"""The ten endpoints without faults."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from airflow_provider_assistant.sandbox.tenants import GLOBEX_FULL_KEY
from tests.live.clients import local_request

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

QA = {"title": "Refunds", "question": "How long is the refund window?", "answer": "30 days."}


def finished(client: httpx.Client, request_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        reply = client.get(f"/chat/requests/{request_id}").json()
        if reply["completed_at"]:
            return reply
        time.sleep(0.01)
    raise AssertionError(reply)


def test_limits_count_what_was_used(server: SandboxServer, client: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    client.post("/chat", json={"session_id": "s", "message": "Refund?"})
    reply = client.get(f"{server.url}/m2m/tenants/acme-inc/limits").json()
    assert reply["plan"] == "business"
    assert reply["limits"]["documents"] == {"limit": 1_000_000, "used": 1, "resets_at": None}
    assert reply["limits"]["messages"]["used"] == 1
    assert reply["limits"]["messages"]["resets_at"].endswith("-01T00:00:00.000Z")


def test_three_kinds_of_documents(server: SandboxServer, client: httpx.Client) -> None:
    replies = [
        client.post("/documents", files={"file": ("prices.csv", b"name,price\npear,4\n")}),
        client.post("/documents/text", json={"title": "T", "content": "Text.", "category": "c"}),
        client.post("/documents/qa", json=QA),
    ]
    assert [reply.status_code for reply in replies] == [201, 201, 201]
    assert [reply.json()["kind"] for reply in replies] == ["file", "text", "qa"]
    stored = server.service.documents.listed("acme-docs")
    assert [row["id"] for row in stored] == [reply.json()["id"] for reply in replies]
    assert [row["title"] for row in stored] == ["prices.csv", "T", "Refunds"]
    assert server.service.documents.count("acme-shop") == 0


def test_the_same_document_twice_is_two_documents(client: httpx.Client) -> None:
    first, second = (client.post("/documents/qa", json=QA).json()["id"] for _ in range(2))
    assert first != second


def test_sync_chat_names_its_source(client: httpx.Client) -> None:
    document = client.post("/documents/qa", json=QA).json()
    message = {
        "session_id": "s",
        "message": "What is your refund window?",
        "email": "ann@example.org",
        "response_language": "en",
    }
    reply = client.post("/chat", json=message).json()
    assert reply["answer"] == "30 days."
    assert reply["sources"][0]["document_id"] == document["id"]
    assert reply["session_id"] == "s"


def test_not_knowing_is_said_in_the_language_asked_for(client: httpx.Client) -> None:
    body = {"session_id": "s", "message": "Napoleon?", "response_language": "de-AT"}
    reply = client.post("/chat", json=body).json()
    assert (reply["answered"], reply["sources"]) == (False, [])
    assert reply["answer"].startswith("Das weiß ich nicht")


def test_async_chat_completes(client: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    submitted = client.post("/chat/async", json={"session_id": "s", "message": "Refund window?"})
    assert submitted.status_code == 202
    assert submitted.json()["status"] == "queued"
    reply = finished(client, submitted.json()["request_id"])
    assert reply["status"] == "complete"
    assert reply["result"]["answer"] == "30 days."
    assert reply["error"] is None
    assert reply["created_at"] <= reply["started_at"] <= reply["completed_at"]


def test_async_chat_fails_where_asked_to(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(fail_messages="boom$")
    body = {"session_id": "s", "message": "go boom"}
    reply = finished(client, client.post("/chat/async", json=body).json()["request_id"])
    assert (reply["status"], reply["result"]) == ("failed", None)
    assert reply["error"]["code"] == "answer_failed"
    assert client.post("/chat", json=body).status_code == 500


def test_answers_are_cut_where_asked_to(client: httpx.Client, control: httpx.Client) -> None:
    client.post("/documents/qa", json={**QA, "answer": "30 days, from the day of delivery."})
    body = {"session_id": "s", "message": "Refund window?"}

    def answers() -> tuple[str, str]:
        request_id = client.post("/chat/async", json=body).json()["request_id"]
        return client.post("/chat", json=body).json()["answer"], finished(client, request_id)["result"]["answer"]

    control.post("/faults", json={"answer_limit": 7})
    assert answers() == ("30 days", "30 days")
    control.post("/faults", json={"answer_limit": None})
    assert answers() == ("30 days, from the day of delivery.",) * 2


def test_a_share_of_the_answers_ends_after_their_first_sentence(client: httpx.Client, control: httpx.Client) -> None:
    complete = "Within 30 days. Send the goods back first! Then wait."
    client.post("/documents/qa", json={**QA, "answer": complete})

    def answers() -> list[str]:
        messages = ({"session_id": str(number), "message": "Refund window?"} for number in range(40))
        return [client.post("/chat", json=message).json()["answer"] for message in messages]

    control.post("/faults", json={"short_answer_rate": 0.3, "seed": 5})
    found = answers()
    assert set(found) == {complete, "Within 30 days."}
    assert 4 < found.count("Within 30 days.") < 20
    control.post("/faults", json={"seed": 5})
    assert answers() == found
    control.post("/faults", json={"short_answer_rate": 1})
    assert set(answers()) == {"Within 30 days."}


def test_feedback_on_sync_and_async_requests(server: SandboxServer, client: httpx.Client) -> None:
    message = {"session_id": "s", "message": "Refund?"}
    for path in ("/chat", "/chat/async"):
        request_id = client.post(path, json=message).json()["request_id"]
        body = {"session_id": "s", "request_id": request_id, "feedback": "so-so"}
        reply = client.post("/chat/feedback", json=body)
        assert (reply.status_code, reply.json()["status"]) == (201, "recorded")
    feedback = client.get("/statistics").json()["feedback"]
    assert feedback == {"total": 2, "has_feedback": True, "by_rating": {"so-so": 2}}


def test_a_closed_session_is_closed_and_a_later_message_opens_a_new_one(
    client: httpx.Client,
) -> None:
    message = {"session_id": "s", "message": "Refund?"}
    client.post("/chat", json=message)
    closed = client.post("/chat/session/close", json={"session_id": "s"})
    assert (closed.status_code, closed.content) == (204, b"")
    assert client.post("/chat/session/close", json={"session_id": "s"}).status_code == 204
    assert client.post("/chat/session/close", json={"session_id": "never"}).status_code == 204
    client.post("/chat", json=message)
    assert client.get("/statistics").json()["sessions"] == {
        "open": 1,
        "closed": 1,
        "mean_messages": 1.0,
    }


def test_statistics_are_counted(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(fail_messages="boom")
    client.post("/documents/qa", json={**QA, "category": "billing"})
    client.post("/documents/qa", json={**QA, "category": "billing"})
    client.post("/documents/text", json={"title": "T", "content": "Text.", "category": "other"})
    for message in ("Refund window?", "Napoleon?", "boom"):
        client.post("/chat", json={"session_id": "s", "message": message})
    body = {"session_id": "s", "message": "Refund window?"}
    finished(client, client.post("/chat/async", json=body).json()["request_id"])
    reply = client.get("/statistics").json()
    assert reply["documents"]["by_kind"] == {"file": 0, "text": 1, "qa": 2}
    assert reply["documents"]["top_categories"] == [
        {"category": "billing", "documents": 2},
        {"category": "other", "documents": 1},
    ]
    sync = reply["chats"]["sync"]
    counts = {name: sync[name] for name in ("total", "answered", "unanswered", "failed", "pending")}
    assert counts == {"total": 3, "answered": 1, "unanswered": 1, "failed": 1, "pending": 0}
    assert sync["answer_rate"] == 0.5
    assert set(sync["latency_ms"]) == {"p50", "p95", "p99"}
    assert reply["chats"]["async"]["answered"] == 1


def test_a_site_with_nothing_has_statistics_too(client: httpx.Client) -> None:
    reply = client.get("/statistics").json()
    assert reply["documents"]["last_added_at"] is None
    assert reply["chats"]["sync"]["latency_ms"] is None


def test_tenants_do_not_see_each_other(server: SandboxServer, client: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    message = {"session_id": "s", "message": "Refund window?"}
    request_id = client.post("/chat", json=message).json()["request_id"]
    headers = {"X-API-Key": GLOBEX_FULL_KEY}
    other = f"{server.url}/m2m/sites/globex-help"
    reply = local_request("POST", f"{other}/chat", json=message, headers=headers).json()
    assert reply["answered"] is False
    assert local_request("GET", f"{other}/chat/requests/{request_id}", headers=headers).status_code == 404
