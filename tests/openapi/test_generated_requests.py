"""The sandbox service conforms to its OpenAPI document for generated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

from airflow_provider_assistant.sandbox import SandboxServer
from tests.live.clients import local_request
from tests.unit.sandbox.conftest import HEADERS
from tests.unit.sandbox.test_openapi import published

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import Case


@pytest.fixture(scope="module")
def service() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        yield running


@pytest.fixture(scope="module")
def known(service: SandboxServer) -> dict[str, str]:
    """Existing ids, so that generated requests get past the 404."""
    url = f"{service.url}/m2m/sites/acme-docs/chat/async"
    body = {"session_id": "known", "message": "Anything?", "email": "ann@example.org"}
    request_id = local_request("POST", url, headers=HEADERS, json=body).json()["request_id"]
    url = f"{service.url}/m2m/sites/acme-docs/documents/text"
    body = {"title": "Known", "content": "Something."}
    document_id = local_request("POST", url, headers=HEADERS, json=body).json()["id"]
    return {
        "tenant_id": "acme-inc",
        "site_id": "acme-docs",
        "request_id": request_id,
        "document_id": document_id,
        "email": "ann@example.org",
    }


def is_readable(text: str) -> bool:
    return bool(text.strip("\ufeff").strip())


# OpenAPI cannot describe that an upload contains text, so generate it here.
for kind in ("text/plain", "text/markdown", "text/html", "text/csv"):
    schemathesis.openapi.media_type(
        kind, st.text(st.characters(codec="utf-8"), min_size=1).filter(is_readable).map(str.encode)
    )


schema = schemathesis.openapi.from_dict(published())
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
