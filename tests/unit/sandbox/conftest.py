"""One embedded service for all sandbox tests, reset before each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.tenants import ACME_FULL_KEY

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


# Without ``verify=False``, httpx reads all certificates for each client, which takes 50 ms.
@pytest.fixture
def client(server: SandboxServer) -> Iterator[httpx.Client]:
    """A client for the site ``acme-docs``."""
    with httpx.Client(base_url=f"{server.url}/m2m/sites/acme-docs", headers=HEADERS, verify=False) as opened:
        yield opened


@pytest.fixture
def control(server: SandboxServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.root}/_sandbox", verify=False) as opened:
        yield opened
