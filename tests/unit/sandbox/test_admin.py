"""The control plane."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import httpx
import pytest

from airflow_provider_assistant.sandbox import Settings, create_app
from airflow_provider_assistant.sandbox.journal import Journal
from airflow_provider_assistant.sandbox.tenants import KEYS
from tests.live.clients import local_request

from .test_endpoints import finished

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

QA = {"title": "T", "question": "Q?", "answer": "A."}


def test_health(control: httpx.Client) -> None:
    assert control.get("/health").json() == {"status": "ok", "pending": 0, "in_flight": 0}


def test_the_journal_says_what_came_and_never_a_key(client: httpx.Client, control: httpx.Client) -> None:
    body = json.dumps(QA).encode()
    client.post("/documents/qa", content=body, headers={"Content-Type": "application/json"})
    client.get("/statistics", headers={"X-API-Key": "canary-7f3a"})
    journal = control.get("/journal")
    first, second = journal.json()["requests"]
    assert first["at"].endswith("Z")
    assert {name: first[name] for name in first if name != "at"} == {
        "method": "POST",
        "path": "/m2m/sites/acme-docs/documents/qa",
        "key": "acme-full",
        "bytes": len(body),
        "digest": hashlib.blake2b(body, digest_size=16).hexdigest(),
        "status": 201,
        "fault": None,
    }
    assert (second["status"], second["key"]) == (401, None)
    for key in (*KEYS, "canary-7f3a"):
        assert key not in journal.text


def test_the_journal_is_filtered(client: httpx.Client, control: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    client.get("/statistics")
    client.get("/chat/requests/none")
    assert control.get("/journal", params={"method": "get"}).json()["count"] == 2
    assert control.get("/journal", params={"path": "/documents"}).json()["count"] == 1
    assert control.get("/journal", params={"status": 404}).json()["count"] == 1
    assert control.get("/journal", params={"path": "("}).status_code == 400
    assert control.get("/journal", params={"status": "x"}).status_code == 400


def test_the_journal_is_bounded() -> None:
    journal = Journal(capacity=10)
    for number in range(25):
        journal.add(number, "GET", "/", None, b"")
    assert [entry.at for entry in journal.entries()] == list(range(15, 25))


def test_documents(client: httpx.Client, control: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    reply = control.get("/documents", params={"site": "acme-docs"}).json()
    assert reply["count"] == 1
    assert (reply["documents"][0]["question"], reply["documents"][0]["content"]) == ("Q?", "A.")
    assert control.get("/documents", params={"site": "acme-shop"}).json()["count"] == 0
    assert control.get("/documents", params={"limit": 0}).json() == {"count": 1, "documents": []}


def test_reset(client: httpx.Client, control: httpx.Client) -> None:
    client.post("/documents/qa", json=QA)
    control.post("/faults", json={"latency": 0.01, "rules": [{"action": "drop"}]})
    assert control.post("/reset", params={"only": "journal"}).status_code == 204
    assert control.get("/journal").json()["count"] == 0
    assert control.get("/documents").json()["count"] == 1
    assert control.post("/reset").status_code == 204
    assert control.get("/documents").json()["count"] == 0
    assert control.get("/faults").json()["rules"] == []
    assert client.get("/statistics").json()["documents"]["total"] == 0
    assert control.post("/reset", params={"only": "everything"}).status_code == 400


def test_faults_change_at_run_time(client: httpx.Client, control: httpx.Client) -> None:
    rule = {"match": {"method": "POST", "path": "/documents/qa"}, "times": 2, "action": "html:502"}
    state = control.post("/faults", json={"rules": [rule], "fault_status": 500}).json()
    assert state["rules"][0]["hits"] == 0
    assert state["fault_status"] == "500"
    statuses = [client.post("/documents/qa", json=QA).status_code for _ in range(3)]
    assert statuses == [502, 502, 201]
    assert control.get("/faults").json()["rules"][0]["hits"] == 2


@pytest.mark.parametrize(
    "body",
    [
        {"latency": -1},
        {"latency": "slow"},
        {"port": 1},
        {"rules": ["drop"]},
        {"rules": 3},
        {"rules": [{"action": "drop"}], "latency": -1},
        {"rules": [{}]},
        {"rules": [{"action": "drop", "match": {"host": "x"}}]},
        {"rules": [{"action": "drop", "when": "now"}]},
        {"rules": [{"action": "drop:3"}]},
        {"rules": [{"action": "status"}]},
        {"rules": [{"action": "status:900"}]},
        {"rules": [{"action": "delay:nan"}]},
        {"rules": [{"action": "explode"}]},
        {"rules": [{"action": "drop", "times": 0}]},
        {"rules": [{"action": "drop", "skip": -1}]},
        {"rules": [{"action": "drop", "match": {"path": "("}}]},
        {"async_status_words": {"done": "DONE"}},
        {"async_status_words": {"queued": 3}},
        {"fail_messages": "("},
        {"answer_limit": 0},
        {"answer_limit": 2.5},
        [],
    ],
)
def test_wrong_faults_are_refused(control: httpx.Client, body: object) -> None:
    before = control.get("/faults").json()
    refused = control.post("/faults", json=body)
    assert refused.status_code == 400
    assert "\n" not in refused.json()["error"]["message"]
    assert control.get("/faults").json() == before


def test_status_words_can_be_renamed(client: httpx.Client, control: httpx.Client) -> None:
    control.post("/faults", json={"async_status_words": {"queued": "WAITING", "complete": "Done"}})
    submitted = client.post("/chat/async", json={"session_id": "s", "message": "Hello?"}).json()
    assert submitted["status"] == "WAITING"
    assert finished(client, submitted["request_id"])["status"] == "Done"


async def test_others_than_this_machine_are_refused() -> None:
    transport = httpx.ASGITransport(create_app(Settings()), client=("192.0.2.7", 4000))
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
        assert (await client.get("/_sandbox/journal")).status_code == 403
        assert (await client.post("/_sandbox/reset")).status_code == 403
        assert (await client.get("/api/v1/openapi.json")).status_code == 200


def test_the_control_plane_is_no_part_of_the_api(server: SandboxServer) -> None:
    assert "_sandbox" not in local_request("GET", f"{server.url}/openapi.json").text
    assert local_request("GET", f"{server.url}/_sandbox/health").status_code == 404
