"""The OpenAPI document of the embedded service."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest

from airflow_provider_assistant.sandbox import create_app

SPECIFIED = {
    ("GET", "/m2m/tenants/{tenant_id}/limits"): "Get Limits",
    ("POST", "/m2m/sites/{site_id}/documents"): "Upload Document",
    ("POST", "/m2m/sites/{site_id}/documents/text"): "Create Text Document",
    ("POST", "/m2m/sites/{site_id}/documents/qa"): "Create Qa Document",
    ("POST", "/m2m/sites/{site_id}/chat"): "Chat",
    ("POST", "/m2m/sites/{site_id}/chat/async"): "Submit Chat",
    ("GET", "/m2m/sites/{site_id}/chat/requests/{request_id}"): "Get Chat Request",
    ("POST", "/m2m/sites/{site_id}/chat/feedback"): "Send Feedback",
    ("POST", "/m2m/sites/{site_id}/chat/session/close"): "Close Session",
    ("GET", "/m2m/sites/{site_id}/statistics"): "Get Statistics",
}
# Routes that only an older text names.
FURTHER = {
    ("GET", "/m2m/sites/{site_id}/documents"): "List Documents",
    ("PATCH", "/m2m/sites/{site_id}/documents/{document_id}"): "Change Document",
    ("PATCH", "/m2m/sites/{site_id}/documents/bulk-status"): "Change Status",
    ("POST", "/m2m/sites/{site_id}/documents/bulk-delete"): "Delete Documents",
    ("GET", "/m2m/tenants/{tenant_id}"): "Get Tenant",
    ("GET", "/m2m/tenants/{tenant_id}/usage"): "Get Usage",
    ("GET", "/m2m/tenants/{tenant_id}/usage/history"): "Get Usage History",
    ("GET", "/m2m/tenants/{tenant_id}/statistics"): "Get Tenant Statistics",
    ("GET", "/m2m/sites/{site_id}"): "Get Site",
    ("GET", "/m2m/sites/{site_id}/sessions"): "Get Sessions",
    ("GET", "/m2m/sites/{site_id}/users/{email}/statistics"): "Get User Statistics",
}


def published() -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        transport = httpx.ASGITransport(create_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
            return (await client.get("/api/v1/openapi.json")).json()

    return asyncio.run(read())


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return published()


def test_the_document_has_exactly_the_known_routes(document: dict[str, Any]) -> None:
    served = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert served == {*SPECIFIED, *FURTHER}
    assert document["servers"] == [{"url": "/api/v1"}]
    for item in document["paths"].values():
        for operation in item.values():
            assert "422" not in operation["responses"]
            assert {"401", "404", "429"} <= set(operation["responses"])


def test_every_operation_has_a_readable_id_summary_and_description(document: dict[str, Any]) -> None:
    said = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    assert {place: operation["summary"] for place, operation in said.items()} == {
        **SPECIFIED,
        **FURTHER,
    }
    for operation in said.values():
        assert operation["operationId"] == operation["summary"].lower().replace(" ", "_")
        assert re.fullmatch(r"[A-Z][^\n]+\.", operation["description"]), operation["description"]
