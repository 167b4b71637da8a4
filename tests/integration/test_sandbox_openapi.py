"""The sandbox service conforms to its OpenAPI document for generated requests."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from airflow_provider_assistant.sandbox import SandboxServer, create_app
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case

HEADERS = {"X-API-Key": ACME_FULL_KEY}
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


@pytest.fixture(scope="module")
def service() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        yield running


@pytest.fixture(scope="module")
def known(service: SandboxServer) -> dict[str, str]:
    """Existing ids, so that generated requests get past the 404."""
    url = f"{service.url}/m2m/sites/acme-docs/chat/async"
    body = {"session_id": "known", "message": "Anything?"}
    request_id = httpx.post(url, headers=HEADERS, json=body).json()["request_id"]
    return {"tenant_id": "acme-inc", "site_id": "acme-docs", "request_id": request_id}


def is_readable(text: str) -> bool:
    return bool(text.strip("\ufeff").strip())


# OpenAPI cannot describe that an upload contains text, so generate it here.
for kind in ("text/plain", "text/markdown", "text/html", "text/csv"):
    schemathesis.openapi.media_type(
        kind, st.text(st.characters(codec="utf-8"), min_size=1).filter(is_readable).map(str.encode)
    )


def published() -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        transport = httpx.ASGITransport(create_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
            return (await client.get("/api/v1/openapi.json")).json()

    return asyncio.run(read())


DOCUMENT = published()
schema = schemathesis.openapi.from_dict(DOCUMENT)
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
BOUNDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@schema.parametrize()
@BOUNDED
def test_any_request(case: Case, service: SandboxServer) -> None:
    case.call_and_validate(base_url=service.url, headers=HEADERS)


@schema.parametrize()
@BOUNDED
def test_requests_on_what_exists(case: Case, service: SandboxServer, known: dict[str, str]) -> None:
    case.path_parameters = {name: known[name] for name in case.path_parameters}
    case.call_and_validate(base_url=service.url, headers=HEADERS)


def test_the_document_has_exactly_the_ten_routes() -> None:
    served = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert served == set(SPECIFIED)
    assert DOCUMENT["servers"] == [{"url": "/api/v1"}]
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            assert "422" not in operation["responses"]
            assert {"401", "404", "429"} <= set(operation["responses"])


def test_every_operation_has_a_readable_id_summary_and_description() -> None:
    said = {
        (method.upper(), path): operation
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }
    assert {place: operation["summary"] for place, operation in said.items()} == SPECIFIED
    for operation in said.values():
        assert operation["operationId"] == operation["summary"].lower().replace(" ", "_")
        assert re.fullmatch(r"[A-Z][^\n]+\.", operation["description"]), operation["description"]
