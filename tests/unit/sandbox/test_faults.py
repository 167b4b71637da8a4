"""Faults: on the wire, and as rules."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import create_app, middleware
from airflow_provider_assistant.sandbox.faults import Faults
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY
from tests.live.process import wait_for
from tests.unit.sandbox.conftest import HEADERS

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox import SandboxServer

QA = {"title": "T", "question": "Q?", "answer": "A."}


def raw_post(server: SandboxServer) -> bytes:
    """Send a Q&A document over a plain socket, and return all bytes that come back."""
    body = json.dumps(QA).encode()
    head = (
        "POST /api/v1/m2m/sites/acme-docs/documents/qa HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-API-Key: {ACME_FULL_KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        while chunk := connection.recv(65536):
            received += chunk
    return received


@pytest.mark.parametrize(("action", "stored"), [("drop", 0), ("store-then-drop", 1)])
def test_a_drop_closes_the_socket_without_a_byte(server: SandboxServer, action: str, stored: int) -> None:
    server.service.faults.add(action)
    assert raw_post(server) == b""
    assert server.service.documents.count() == stored
    entry = server.service.journal.entries()[-1]
    assert (entry.status, entry.fault) == (None, action)


def test_a_truncated_reply_breaks_off_in_its_body(server: SandboxServer) -> None:
    server.service.faults.add("truncate")
    head, _, body = raw_post(server).partition(b"\r\n\r\n")
    assert b" 201 " in head
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert 0 < len(body) < length


@pytest.mark.parametrize(
    ("action", "status", "kind", "stored"),
    [
        ("status:502", 502, "application/json", 0),
        ("store-then-status:502", 502, "application/json", 1),
        ("html:502", 502, "text/html", 0),
        ("store-then-html:504", 504, "text/html", 1),
        ("empty", 201, None, 1),
        ("retry-after:5", 429, "application/json", 0),
        ("delay:0", 201, "application/json", 1),
    ],
)
def test_actions(
    server: SandboxServer,
    client: httpx.Client,
    action: str,
    status: int,
    kind: str | None,
    stored: int,
) -> None:
    server.service.faults.add(action, method="POST", path="/documents/qa$")
    reply = client.post("/documents/qa", json=QA)
    assert reply.status_code == status
    assert reply.headers.get("content-type", "").startswith(kind or "")
    assert bool(reply.content) is (kind is not None)
    assert server.service.documents.count() == stored
    assert client.post("/documents/qa", json=QA).status_code == 201


def test_retry_after_is_whole_seconds(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.add("retry-after:5")
    assert client.get("/statistics").headers["retry-after"] == "5"


def test_a_delay_delays(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.add("delay:0.3")
    began = time.monotonic()
    assert client.get("/statistics").status_code == 200
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("release", ["update", "reset"])
def test_a_held_request_is_answered_when_the_faults_change(
    server: SandboxServer, client: httpx.Client, release: str
) -> None:
    server.service.faults.add("hold")
    with ThreadPoolExecutor() as threads:
        held = threads.submit(client.post, "/documents/qa", json=QA)
        wait_for("the request", lambda: server.service.journal.entries(path="/documents/qa"), timeout=60)
        assert client.get("/statistics").status_code == 200
        assert server.service.documents.count() == 0
        wait_for("one request in flight", lambda: server.service.in_flight == 1, timeout=60)
        assert not held.done()
        {"update": lambda: server.service.faults.update(rules=[]), "reset": server.service.faults.reset}[release]()
        assert held.result(60).status_code == 201
    assert server.service.documents.count() == 1
    wait_for("no request in flight", lambda: server.service.in_flight == 0, timeout=60)


@pytest.mark.parametrize(
    "changes", [{"latency": 0.5}, {"rules": [{"action": "delay:0.5"}]}, {"rules": [{"action": "hold"}]}]
)
def test_a_request_that_waits_while_the_data_are_reset_stores_nothing(
    server: SandboxServer, client: httpx.Client, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reset = threading.Event()

    async def until_reset(_: float) -> None:
        await asyncio.sleep(0.01)  # also after the reset, so that other requests are answered
        while not is_reset.is_set():  # noqa: ASYNC110 (an event of another thread)
            await asyncio.sleep(0.01)

    # A latency or a delay ends after the reset, however long this takes.
    monkeypatch.setattr(middleware, "asyncio", SimpleNamespace(sleep=until_reset))
    server.service.faults.update(**changes)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(client.post, "/documents/qa", json=QA)
        try:
            wait_for("the request", lambda: server.service.journal.entries(path="/documents/qa"), timeout=60)
            server.service.reset()
        finally:
            is_reset.set()
        with pytest.raises(httpx.RemoteProtocolError):
            waiting.result(60)
    assert server.service.documents.count() == 0
    assert client.post("/documents/qa", json=QA).status_code == 201


@pytest.mark.parametrize("turns", range(4))
async def test_a_request_that_is_to_be_held_while_the_faults_change_is_answered(turns: int) -> None:
    """The faults change this many turns of the event loop after the choice of the fault."""
    app = create_app()
    service = app.state.service
    service.faults.add("hold")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
        held = asyncio.create_task(client.get("/api/v1/m2m/sites/acme-docs/statistics", headers=HEADERS))
        while not any(entry.fault for entry in service.journal.entries()):  # noqa: ASYNC110 (every turn counts)
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        service.faults.update(rules=[])
        assert (await asyncio.wait_for(held, timeout=60)).status_code == 200


def test_latency_is_added_to_every_request(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(latency=0.2)
    began = time.monotonic()
    client.get("/statistics")
    assert time.monotonic() - began >= 0.2


def test_the_rate_limit_on_the_wire(server: SandboxServer, client: httpx.Client) -> None:
    server.service.faults.update(rate_limit=0.01, rate_burst=2)
    replies = [client.get("/statistics") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert 1 <= int(replies[2].headers["retry-after"]) <= 100


def test_a_fault_rate_is_repeatable_and_about_right() -> None:
    def run() -> list[str | None]:
        faults = Faults(Settings(fault_rate=0.25, fault_status="drop", seed=7))
        return [faults.choose("GET", "/", "k", b"") for _ in range(1000)]

    first = run()
    assert first == run()
    assert 200 <= first.count("drop") <= 300


def test_rules_match_skip_and_end() -> None:
    faults = Faults(Settings())
    faults.add("drop", method="post", path="/documents/", body="apple", times=2, skip=1)
    calls: list[tuple[str, str, bytes]] = [
        ("GET", "/documents/qa", b"apple"),
        ("POST", "/chat", b"apple"),
        ("POST", "/documents/qa", b"pear"),
        *[("POST", "/documents/qa", b"an apple")] * 4,
    ]
    met = [faults.choose(method, path, "k", body) for method, path, body in calls]
    assert met == [None, None, None, None, "drop", "drop", None]


def test_a_rule_without_end() -> None:
    faults = Faults(Settings())
    faults.add("drop", key="acme-full", times=None)
    assert {faults.choose("GET", "/", "acme-full", b"") for _ in range(50)} == {"drop"}
    assert faults.choose("GET", "/", "acme-basic", b"") is None
