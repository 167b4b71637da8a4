"""One embedded service for all sandbox tests, reset before each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY
from tests.live.clients import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADERS = {"X-API-Key": ACME_FULL_KEY}


@pytest.fixture(scope="session")
def _running() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture
def server(_running: SandboxServer) -> SandboxServer:
    _running.service.reset()
    return _running


@pytest.fixture
def client(server: SandboxServer) -> Iterator[httpx.Client]:
    """A client for the site ``acme-docs``."""
    with local_client(base_url=f"{server.url}/m2m/sites/acme-docs", headers=HEADERS) as opened:
        yield opened


@pytest.fixture
def control(server: SandboxServer) -> Iterator[httpx.Client]:
    with local_client(base_url=f"{server.root}/_sandbox") as opened:
        yield opened
