"""Faults are rules, the control plane changes them, and what is stored survives a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY
from airflow_provider_assistant.sandbox.store import Document
from tests.live.clients import local_client, local_request

TEXTS = "m2m/sites/acme-docs/documents/text"
LIMITS = "m2m/tenants/acme-inc/limits"


@pytest.fixture
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        yield running


def client_of(server: SandboxServer) -> httpx.Client:
    return local_client(base_url=server.url, headers={"X-API-Key": DEFAULT_KEY})


def outcome(server: SandboxServer, title: str = "t") -> tuple[int | str, Any]:
    """Return status and body of a create; without a response, the type of the error."""
    with client_of(server) as client:
        try:
            response = client.post(TEXTS, json={"title": title, "content": "c"})
        except httpx.HTTPError as error:
            return type(error).__name__, None
        return response.status_code, response.text


@pytest.mark.parametrize(
    ("action", "reply", "status", "text", "stored"),
    [
        ("status:503", None, 503, '{"error": "injected fault"}', 0),
        ("status:200", {"error": "not stored"}, 200, '{"error": "not stored"}', 0),
        ("status:502", "<html>Bad gateway</html>", 502, "<html>Bad gateway</html>", 0),
        ("store-then-status:502", None, 502, '{"error": "injected fault"}', 1),
        ("retry-after:7", None, 429, '{"error": "too many requests"}', 0),
        ("drop", None, "RemoteProtocolError", None, 0),
        ("store-then-drop", None, "RemoteProtocolError", None, 1),
        ("truncate", None, "RemoteProtocolError", None, 1),
        ("empty", None, 201, "", 1),
        ("delay:0.01", None, 201, None, 1),
    ],
)
def test_a_rule_decides_what_the_client_gets_and_what_is_stored(
    server: SandboxServer, action: str, reply: Any, status: int | str, text: str | None, stored: int
) -> None:
    server.service.faults.add(action, reply=reply)
    got, body = outcome(server)
    assert got == status
    assert text is None or body == text
    assert server.service.store.count_documents("acme-docs") == stored
    assert server.service.journal.entries("POST")[0].fault == action
    assert outcome(server, "another")[0] == 201, "the rule was for one request"


def test_a_rule_is_for_matching_requests_for_some_of_them_or_for_a_share(server: SandboxServer) -> None:
    rule = {"action": "status:500", "method": "POST", "path": "/text$", "body": "bad", "key": "acme-full"}
    server.service.update(rules=[{**rule, "skip": 1, "times": 2}])
    got = [outcome(server, title)[0] for title in ("good 1", "bad 1", "bad 2", "bad 3", "good 2", "bad 4")]
    assert got == [201, 201, 500, 500, 201, 201]
    server.service.update(rules=[{"action": "status:500", "times": None, "share": 0.25}])
    failed = sum(outcome(server, f"t{number}")[0] == 500 for number in range(100))
    assert 10 <= failed <= 40
    assert server.service.faults.rules[0].hits == failed


def test_a_held_request_is_carried_out_when_the_faults_change(server: SandboxServer) -> None:
    server.service.faults.add("hold")
    got: list[int | str] = []
    thread = threading.Thread(target=lambda: got.append(outcome(server)[0]))
    thread.start()
    give_up_at = time.monotonic() + 10
    while not server.service.in_flight:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)
    assert server.service.store.count_documents() == 0
    server.service.update()
    thread.join()
    assert got == [201]


def test_too_many_requests_are_refused_without_retry_after() -> None:
    now = [0.0]
    with SandboxServer(rate_limit=2, clock=lambda: now[0]) as server, client_of(server) as client:
        refused = [client.get(LIMITS) for _ in range(3)][-1]
        assert (refused.status_code, "retry-after" in refused.headers) == (429, False)
        now[0] += 0.5
        assert client.get(LIMITS).status_code == 200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"rules": [{"action": "explode"}]}, "explode"),
        ({"rules": [{"action": "status:99"}]}, "status"),
        ({"rules": [{"action": "drop:1"}]}, "drop"),
        ({"rules": [{"action": "drop", "path": "("}]}, "path"),
        ({"rules": [{"action": "drop", "colour": 1}]}, "colour"),
        ({"latency": -1}, "latency"),
        ({"latency": 1, "unknown": 1}, "unknown"),
        ({"document_status": "live"}, "document_status"),
        ([], "mapping"),
    ],
)
def test_a_wrong_change_is_refused_by_name_and_changes_nothing(server: SandboxServer, body: Any, named: str) -> None:
    with local_client(base_url=server.root) as client:
        before = client.get("_sandbox/faults").json()
        refused = client.post("_sandbox/faults", json=body)
        assert refused.status_code == 400
        assert named in refused.json()["error"]
        assert client.get("_sandbox/faults").json() == before


def test_the_control_plane_shows_and_resets(server: SandboxServer) -> None:
    outcome(server)
    with local_client(base_url=server.root) as client:
        client.post("_sandbox/faults", json={"latency": 0.001, "rules": [{"action": "drop"}]})
        assert client.get("_sandbox/health").json() == {"status": "ok", "pending": 0, "in_flight": 0}
        [request] = client.get("_sandbox/journal", params={"method": "POST"}).json()["requests"]
        assert (request["key"], request["status"]) == ("acme-full", 201)
        assert DEFAULT_KEY not in json.dumps(request)
        assert len(client.get("_sandbox/documents", params={"site": "acme-docs"}).json()["documents"]) == 1
        client.post("_sandbox/reset", params={"only": "data"})
        assert client.get("_sandbox/documents").json()["documents"] == []
        assert client.get("_sandbox/journal").json()["requests"] != []
        client.post("_sandbox/reset")
        state = client.get("_sandbox/faults").json()
        assert (state["latency"], state["rules"]) == (0, [])
        assert client.get("_sandbox/unknown").status_code == 404


def test_what_was_stored_is_there_after_a_restart_also_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "service.jsonl"
    with SandboxServer(data=str(file)) as server:
        for title in ("kept", "deleted", "changed"):
            outcome(server, title)
        by_title = {one.title: one for one in server.service.store.all(Document)}
        with client_of(server) as client:
            documents = TEXTS.removesuffix("/text")
            client.post(f"{documents}/bulk-delete", json={"document_ids": [by_title["deleted"].id]})
            client.patch(f"{documents}/{by_title['changed'].id}", json={"content": "new"})
        before = server.service.store.all(Document)
    with file.open("ab") as written:
        written.write(b'{"kind": "Document", "fie')  # the process was killed while it wrote
    with SandboxServer(data=str(file)) as server:
        assert server.service.store.all(Document) == before
        assert [one.content for one in before] == ["c", "new"]
        assert outcome(server, "kept")[0] == 409
        assert outcome(server, "later")[0] == 201
    with SandboxServer(data=str(file)) as server:
        assert [one.title for one in server.service.store.all(Document)] == ["kept", "changed", "later"]


def test_the_command_prints_a_connection_and_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "airflow_provider_assistant.sandbox", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        name, _, connection = process.stdout.readline().strip().partition("=")
        fields = json.loads(connection.strip("'"))
        response = local_request("GET", f"{fields['host']}/{LIMITS}", headers={"X-API-Key": fields["password"]})
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    assert name == "AIRFLOW_CONN_ASSISTANT_DEFAULT"
    assert fields["host"].startswith("http://127.0.0.1:")
    assert response.status_code == 200


@pytest.mark.parametrize(
    "flag", ["--port=99999", "--latency=-1", "--document-status=live", "--colour=red", "--host=0.0.0.0"]
)
def test_a_wrong_flag_ends_the_command_with_its_name(flag: str) -> None:
    command = [sys.executable, "-m", "airflow_provider_assistant.sandbox", flag]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert flag.partition("=")[0].lstrip("-").replace("-", "_") in ended.stderr.replace("-", "_")
    assert "Traceback" not in ended.stderr
