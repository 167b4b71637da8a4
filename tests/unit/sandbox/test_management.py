"""Listing, changing and deleting documents, and their life after the creation."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.tenants import ACME_READONLY_KEY
from tests.live.clients import local_client

from .clock import Clock
from .conftest import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator

QA = {"title": "Refunds", "question": "How long is the refund window?", "answer": "30 days."}
QUESTION = {"session_id": "s", "message": "How long is the refund window?"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(clock: Clock) -> Iterator[tuple[SandboxServer, httpx.Client]]:
    """A service whose time only a test moves, and a client for its site ``acme-docs``."""
    with (
        SandboxServer(clock=clock) as server,
        local_client(base_url=f"{server.url}/m2m/sites/acme-docs", headers=HEADERS) as client,
    ):
        yield server, client


def create(client: httpx.Client, title: str = "Refunds", **fields: Any) -> dict[str, Any]:
    return client.post("/documents/qa", json={**QA, "title": title, **fields}).json()


def listed(client: httpx.Client, **parameters: Any) -> list[dict[str, Any]]:
    return client.get("/documents", params=parameters).json()["documents"]


def answers(client: httpx.Client) -> bool:
    return client.post("/chat", json=QUESTION).json()["answered"]


def set_status(client: httpx.Client, status: str, *ids: str) -> httpx.Response:
    body = {"document_ids": ids, "status": status}
    return client.patch("/documents/bulk-status", json=body)


def other_site(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/").replace("acme-docs", "acme-shop")


def test_a_document_is_listed_as_its_creation_said(client: httpx.Client) -> None:
    created = [
        client.post("/documents", files={"file": ("prices.csv", b"name,price\npear,4\n")}).json(),
        client.post("/documents/text", json={"title": "T", "content": "Ä."}).json(),
        create(client, category="faq"),
    ]
    assert listed(client) == created
    assert [document["status"] for document in created] == ["active"] * 3
    assert [document["active"] for document in created] == [True] * 3
    assert client.get(f"{other_site(client)}/documents").json() == {"documents": []}


def test_a_draft_is_used_for_answers_only_after_its_activation(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(document_status="draft")
    created = create(client)
    assert (created["status"], created["active"]) == ("draft", False)
    assert not answers(client)
    reply = set_status(client, "active", created["id"])
    assert reply.json() == {"count": 1, "document_ids": [created["id"]], "not_found": []}
    assert answers(client)
    set_status(client, "draft", created["id"])
    assert not answers(client)
    assert [document["status"] for document in listed(client)] == ["draft"]


@pytest.mark.parametrize("seconds", [0.5, 30, 86_400])
@pytest.mark.parametrize("status", ["active", "draft"])
def test_an_active_document_is_ready_after_a_time(
    timed: tuple[SandboxServer, httpx.Client], clock: Clock, seconds: float, status: str
) -> None:
    server, client = timed
    server.service.faults.update(document_seconds=seconds, document_status=status)
    created = create(client)
    if status == "draft":
        clock.move(2 * seconds)
        assert created["status"] == listed(client)[0]["status"] == "draft"
        set_status(client, "active", created["id"])
    assert listed(client)[0]["status"] == "processing"
    assert listed(client)[0]["active"] is True
    assert not answers(client)
    clock.move(seconds)
    assert listed(client)[0]["status"] == "active"
    assert answers(client)
    # An active document stays ready if it is activated again; a new text is processed again.
    set_status(client, "active", created["id"])
    assert answers(client)
    client.patch(f"/documents/{created['id']}", json={"answer": "31 days."})
    assert not answers(client)


def test_a_change_keeps_other_fields(client: httpx.Client) -> None:
    text = client.post("/documents/text", json={"title": "Returns", "content": "Ünïque", "category": "c"}).json()
    changed = client.patch(f"/documents/{text['id']}", json={"content": "The window is 9 days."})
    assert changed.status_code == 200
    assert (changed.json()["title"], changed.json()["category"]) == ("Returns", "c")
    assert (text["bytes"], changed.json()["bytes"]) == (8, 21)
    without_category = client.patch(f"/documents/{text['id']}", json={"category": None}).json()
    assert without_category["category"] is None
    assert client.patch(f"/documents/{text['id']}", json={}).json() == without_category
    chat = client.post("/chat", json={"session_id": "s", "message": "How long is the window?"})
    assert chat.json()["answer"] == "The window is 9 days."
    chat = client.post("/chat", json={"session_id": "s", "message": "unique"})
    assert not chat.json()["answered"], "the former text is not in the index"


def test_the_question_and_answer_of_a_qa_document_change(client: httpx.Client) -> None:
    document_id = create(client)["id"]
    body = {"title": "Customs", "question": "Who pays for customs?", "answer": "You do."}
    client.patch(f"/documents/{document_id}", json=body)
    chat = client.post("/chat", json={"session_id": "s", "message": "Who pays for customs?"})
    assert chat.json()["answer"] == "You do."
    assert not answers(client)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"title": " "}, "title"),
        ({"title": None}, "title"),
        ({"content": 3}, "content"),
        ({"status": "on"}, "status"),
        ({"status": "processing"}, "status"),
        ({"category": "c" * 201}, "category"),
    ],
)
def test_a_wrong_change_is_refused(client: httpx.Client, body: Any, field: str) -> None:
    created = create(client)
    refused = client.patch(f"/documents/{created['id']}", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["field"] == field
    assert listed(client) == [created]


def test_deleted_documents_are_gone_and_free_their_quota(server: SandboxServer, client: httpx.Client) -> None:
    ids = [create(client, title=f"T{number}")["id"] for number in range(6)]
    server.service.faults.update(documents_quota=6)
    assert client.post("/documents/qa", json=QA).status_code == 429
    deleted = random.Random(4).sample(ids, 4)
    reply = client.post("/documents/bulk-delete", json={"document_ids": [*deleted, deleted[0]]})
    assert reply.json() == {"count": 4, "document_ids": deleted, "not_found": []}
    assert [document["id"] for document in listed(client)] == [
        document_id for document_id in ids if document_id not in deleted
    ]
    assert client.post("/documents/qa", json=QA).status_code == 201
    client.post("/documents/bulk-delete", json={"document_ids": ids})
    everything = [document["id"] for document in listed(client)]
    client.post("/documents/bulk-delete", json={"document_ids": everything})
    assert not answers(client)
    assert server.service.documents.count() == 0


@pytest.mark.parametrize("path", ["bulk-delete", "bulk-status"])
def test_unknown_ids_of_a_bulk_request(server: SandboxServer, client: httpx.Client, path: str) -> None:
    ids = [create(client)["id"], "doc_none", create(client)["id"], "x"]
    method = "POST" if path == "bulk-delete" else "PATCH"
    body = {"document_ids": ids, "status": "draft"}
    reply = client.request(method, f"{other_site(client)}/documents/{path}", json=body).json()
    assert (reply["count"], reply["not_found"]) == (0, ids)

    server.service.faults.update(bulk_unknown="reject")
    before = listed(client)
    assert client.request(method, f"/documents/{path}", json=body).status_code == 404
    assert listed(client) == before
    server.service.faults.update(bulk_unknown="ignore")
    reply = client.request(method, f"/documents/{path}", json=body).json()
    assert (reply["document_ids"], reply["not_found"]) == (ids[::2], ids[1::2])


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_bulk_request_is_bounded(server: SandboxServer, client: httpx.Client, limit: int) -> None:
    server.service.faults.update(bulk_limit=limit)
    ids = [f"doc_{number}" for number in range(limit + 1)]
    refused = set_status(client, "draft", *ids)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "too_many_documents")
    assert set_status(client, "draft", *ids[1:]).status_code == 200
    assert set_status(client, "draft").status_code == 400


def test_content_is_listed_where_asked_for(server: SandboxServer, client: httpx.Client) -> None:
    create(client)
    client.post("/documents/text", json={"title": "T", "content": "Text."})
    assert not {"content", "question", "answer"} & set(listed(client)[0])
    server.service.faults.update(list_content=True)
    qa, text = listed(client)
    assert (qa["question"], qa["answer"]) == (QA["question"], QA["answer"])
    assert "content" not in qa
    assert text["content"] == "Text."


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/documents"),
        ("PATCH", "/documents/doc_1"),
        ("PATCH", "/documents/bulk-status"),
        ("POST", "/documents/bulk-delete"),
    ],
)
def test_the_routes_can_be_absent(server: SandboxServer, client: httpx.Client, method: str, path: str) -> None:
    server.service.faults.update(manage_documents=False)
    assert client.request(method, path, json={"document_ids": ["x"]}).status_code == 404
    assert client.post("/documents/qa", json=QA).status_code == 201
    server.service.faults.add("status:501", method=method, path=f"{path}$")
    assert client.request(method, path, json={}).status_code == 501


def test_a_read_only_key_lists_and_changes_nothing(client: httpx.Client) -> None:
    created = create(client)
    headers = {"X-API-Key": ACME_READONLY_KEY}
    assert client.get("/documents", headers=headers).json()["documents"] == [created]
    for method, path in (("PATCH", created["id"]), ("POST", "bulk-delete")):
        refused = client.request(method, f"/documents/{path}", json={}, headers=headers)
        assert refused.status_code == 403


def test_a_list_shows_changes_later(timed: tuple[SandboxServer, httpx.Client], clock: Clock) -> None:
    server, client = timed
    server.service.faults.update(list_delay=10)

    def titles() -> list[tuple[str, str]]:
        return [(document["title"], document["status"]) for document in listed(client)]

    first, second = create(client, title="first")["id"], create(client, title="second")["id"]
    assert titles() == []
    clock.move(10)
    assert titles() == [("first", "active"), ("second", "active")]
    set_status(client, "draft", first)
    clock.move(4)
    client.patch(f"/documents/{first}", json={"title": "1st"})
    client.post("/documents/bulk-delete", json={"document_ids": [second]})
    assert client.get("/statistics").json()["documents"]["total"] == 1
    clock.move(5)
    assert titles() == [("first", "active"), ("second", "active")]
    clock.move(1)
    assert titles() == [("first", "draft"), ("second", "active")]
    clock.move(4)
    assert titles() == [("1st", "draft")]


def test_documents_and_their_state_survive_a_restart(tmp_path: Any) -> None:
    site = "/m2m/sites/acme-docs"
    with (
        SandboxServer(data=tmp_path, document_status="draft") as first,
        local_client(base_url=first.url + site, headers=HEADERS) as client,
    ):
        ids = [create(client)["id"] for _ in range(3)]
        set_status(client, "active", ids[1])
        client.post("/documents/bulk-delete", json={"document_ids": ids[2:]})
        before = listed(client)
    with (
        SandboxServer(data=tmp_path) as second,
        local_client(base_url=second.url + site, headers=HEADERS) as client,
    ):
        assert listed(client) == before
        assert [document["active"] for document in before] == [False, True]
        create(client)
        assert len(listed(client)) == 3
