"""A service whose routes, fields and words have other names."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_assistant.sandbox.names import default_body, default_path, renamed
from airflow_provider_assistant.sandbox.settings import Settings, read_settings

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

TEXT = {"title": "Refunds", "content": "Refunds are paid within 14 days."}
ALL_NAMES = {
    "documents": "data.records",
    "id": "uuid",
    "title": "name",
    "status": "state",
    "status.active": "LIVE",
    "status.draft": "OFF",
    "active": "is_live",
    "bytes": None,
    "document_ids": "ids",
    "count": "changed",
    "not_found": "missing",
    "cursor": "after",
    "next_cursor": "paging.after",
    "page_size": "per_page",
    "/documents": "/records",
    "/documents/bulk-status": "/records/state",
    "/documents/bulk-delete": "/remove-records",
}


def test_the_whole_life_under_other_names(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(document_names=ALL_NAMES, document_status="draft", paging="cursor", page_size=2)
    created = [client.post("/documents/text", json=TEXT).json() for _ in range(3)]
    assert {(one["state"], one["is_live"], one["name"]) for one in created} == {("OFF", False, "Refunds")}
    assert not {"id", "status", "title", "bytes", "active"} & set(created[0])
    ids = [one["uuid"] for one in created]

    first = client.get("/records").json()
    second = client.get("/records", params={"after": first["paging"]["after"]}).json()
    assert [one["uuid"] for one in first["data"]["records"]] == ids[:2]
    assert [one["uuid"] for one in second["data"]["records"]] == ids[2:]
    assert second["paging"] == {"after": None}
    one_only = client.get("/records", params={"per_page": 1}).json()
    assert len(one_only["data"]["records"]) == 1

    reply = client.patch("/records/state", json={"ids": [ids[0], "x"], "state": "LIVE"})
    assert reply.json() == {"changed": 1, "ids": [ids[0]], "missing": ["x"]}
    changed = client.patch(f"/records/{ids[1]}", json={"name": "New", "state": "LIVE"}).json()
    assert (changed["name"], changed["state"]) == ("New", "LIVE")
    assert client.post("/remove-records", json={"ids": ids}).json()["changed"] == 3


def test_default_names_that_are_renamed_do_nothing(server: SandboxServer, client: httpx.Client) -> None:
    document_id = client.post("/documents/text", json=TEXT).json()["id"]
    server.service.faults.update(document_names=ALL_NAMES)
    assert client.get("/documents").status_code == 404
    assert client.patch(f"/documents/{document_id}", json={}).status_code == 404
    assert client.post("/documents/bulk-delete", json={"ids": [document_id]}).status_code == 404
    for body in (
        {"document_ids": [document_id], "state": "OFF"},
        {"ids": [document_id], "status": "OFF"},
        {"ids": [document_id], "state": "draft"},
    ):
        assert client.patch("/records/state", json=body).status_code == 400
    assert client.patch(f"/records/{document_id}", json={"title": "New"}).json()["name"] == "Refunds"
    assert client.get("/records", params={"cursor": "nonsense"}).status_code == 200


def test_the_next_page_has_the_names_of_the_client(server: SandboxServer, client: httpx.Client) -> None:
    for _ in range(3):
        client.post("/documents/text", json=TEXT)
    for kind in ("link", "header"):
        server.service.faults.update(document_names=ALL_NAMES, paging=kind, page_size=2)
        reply = client.get("/records")
        url = reply.json().get("next") or reply.links["next"]["url"]
        assert "/m2m/sites/acme-docs/records?after=" in url
        assert len(client.get(url).json()["data"]["records"]) == 1


def test_other_routes_keep_their_names(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(document_names={"status": "state", "session_id": "thread"})
    body = {"session_id": "s", "message": "Anything?"}
    assert "status" in client.post("/chat/async", json=body).json()
    assert client.get("/documents").status_code == 200
    refused = client.post("/documents/text", content=b"{", headers={"Content-Type": "application/json"})
    assert refused.json()["error"]["code"] == "malformed_json"
    upload = client.post("/documents", files={"file": ("a.txt", b"text")})
    assert upload.json()["state"] == "active"


@pytest.mark.parametrize("seed", range(20))
def test_renaming_there_and_back_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    defaults = ["title", "content", "category", "status", "question", "answer"]
    names: dict[str, str | None] = {
        name: f"{dice.choice(['x', 'X-', 'ü '])}{name.upper()}" for name in dice.sample(defaults, 4)
    }
    names["status.draft"] = dice.choice(["OFF", "0", "draft"])
    body = {name: f"text {number}" for number, name in enumerate(defaults)}
    body["status"] = dice.choice(["active", "draft"])
    sent = json.dumps(renamed(body, names)).encode()
    assert json.loads(default_body(sent, names)) == body


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("/records", "/documents"),
        ("/records/doc_1", "/documents/doc_1"),
        ("/records/state", "/documents/bulk-status"),
        ("/recordsfoo", "/recordsfoo"),
        ("/documents/doc_1", "/unknown"),
        ("/documents/bulk-status", "/unknown"),
        ("/chat", "/chat"),
    ],
)
def test_paths(path: str, default: str) -> None:
    names: dict[str, str | None] = {
        "/documents": "/records",
        "/documents/bulk-status": "/records/state",
        "id": "uuid",
    }
    assert default_path(path, names) == default


def test_names_are_json_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--document-names", '{"id": "uuid", "bytes": null}']
    assert read_settings(flags, {}).document_names == {"id": "uuid", "bytes": None}
    assert Settings(document_names={"id": "key"}).document_names == {"id": "key"}
    for wrong in ("[]", '{"id": ["uuid"]}', "{"):
        with pytest.raises(SystemExit):
            read_settings(["--document-names", wrong], {})
    assert "--document-names: must be a JSON object" in capsys.readouterr().err


def test_anything_is_served_without_names(client: httpx.Client) -> None:
    created: dict[str, Any] = client.post("/documents/text", json=TEXT).json()
    assert client.get("/documents").json()["documents"] == [created]
