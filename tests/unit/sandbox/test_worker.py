"""Async requests with a simulated clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY, KEYS
from tests.live.clients import local_client

from .clock import Clock
from .conftest import HEADERS
from .test_endpoints import finished

if TYPE_CHECKING:
    from pathlib import Path


def submit(service: Service, clock: Clock, message: str = "Hello?") -> str:
    return service.chats.add(KEYS[ACME_FULL_KEY], "acme-docs", "s", "async", message, "en", clock())


def status(service: Service, request_id: str) -> str:
    row = service.chats.request("acme-docs", request_id)
    assert row is not None
    return row["status"]


def test_queued_then_processing_then_complete() -> None:
    clock = Clock()
    service = Service(Settings(processing_seconds=10), clock)
    request_id = submit(service, clock)
    seen = []
    for _ in range(3):
        wait = service.worker.step()
        seen.append((status(service, request_id), wait))
        clock.move(5)
    assert seen == [("queued", 5), ("processing", 5), ("complete", None)]


def test_many_are_done_in_bounded_steps() -> None:
    clock = Clock()
    service = Service(Settings(processing_seconds=0), clock)
    ids = [submit(service, clock) for _ in range(120)]
    steps = 1
    while service.worker.step() is not None:
        steps += 1
    assert steps > 1
    assert {status(service, request_id) for request_id in ids} == {"complete"}


def test_a_change_of_duration_reaches_those_under_way() -> None:
    clock = Clock()
    service = Service(Settings(processing_seconds=3600), clock)
    request_id = submit(service, clock)
    service.worker.step()
    service.faults.update(processing_seconds=0)
    service.worker.step()
    assert status(service, request_id) == "complete"


def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    qa = {"title": "T", "question": "How long is the refund window?", "answer": "30 days."}
    message = {"session_id": "s", "message": "Refund window?"}
    with (
        SandboxServer(data=tmp_path, processing_seconds=3600) as first,
        local_client(base_url=f"{first.url}/m2m/sites/acme-docs", headers=HEADERS) as client,
    ):
        client.post("/documents/qa", json=qa)
        request_id = client.post("/chat/async", json=message).json()["request_id"]
        assert client.get(f"/chat/requests/{request_id}").json()["status"] == "queued"
    with (
        SandboxServer(data=tmp_path) as second,
        local_client(base_url=f"{second.url}/m2m/sites/acme-docs", headers=HEADERS) as client,
    ):
        reply = finished(client, request_id)
        limits = client.get(f"{second.url}/m2m/tenants/acme-inc/limits").json()["limits"]
    assert reply["result"]["answer"] == "30 days."
    assert (limits["documents"]["used"], limits["messages"]["used"]) == (1, 1)


def test_what_was_in_processing_is_queued_again(tmp_path: Path) -> None:
    clock = Clock()
    service = Service(Settings(processing_seconds=10, data=tmp_path), clock)
    request_id = submit(service, clock)
    clock.move(6)
    service.worker.step()
    assert status(service, request_id) == "processing"
    service.database.close()
    service = Service(Settings(processing_seconds=10, data=tmp_path), clock)
    service.chats.requeue()
    assert status(service, request_id) == "queued"
    service.database.close()
