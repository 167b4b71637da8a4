"""The embedded service accepts and answers what the specification's endpoint table says."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY
from airflow_provider_assistant.sandbox.server import SandboxServer
from tests.contract.cases import CASES, CHAT, FILE, SITE, Case, filled
from tests.live.clients import local_client


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with (
        SandboxServer() as service,
        local_client(base_url=service.url, headers={"X-API-Key": DEFAULT_KEY}) as client,
    ):
        yield client


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reply(case: Case, http: httpx.Client) -> None:
    request_id = ""
    if case.needs_request:
        submitted = http.post(f"/m2m/sites/{SITE}/chat/async", json=CHAT)
        request_id = submitted.json()["request_id"]

    reply = http.request(
        case.method,
        filled(case.path, request_id),
        json=filled(case.json, request_id),
        files={"file": ("refunds.md", FILE, "text/markdown")} if case.multipart else None,
    )

    assert reply.is_success, reply.text
    if reply.content:
        assert set(case.reply_has) <= set(reply.json())
    else:
        assert not case.reply_has
