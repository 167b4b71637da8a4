"""Fixtures for tests of the client over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.storage_server import _storage, bucket  # noqa: F401 (fixtures)
from tests.wire import FakeTime, client_of


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Send a call with a client for a URL, synchronously and with asyncio; the client does not really wait."""

    def send(url: str, call: Any, clock: FakeTime | None = None, **changes: Any) -> Any:
        client = client_of(url, clock, **changes)
        if request.param == "sync":
            with client:
                return client.send(call)

        async def asend() -> Any:
            async with client:
                return await client.asend(call)

        return asyncio.run(asend())

    return send


@pytest.fixture
def no_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a connection take an hour to open, although the response timeout is short.

    If the event loop stands still while it connects, this time counts as connecting. A response may not take that hour.
    """
    monkeypatch.setattr("airflow_provider_assistant.client.settings.ClientSettings.connect_timeout", 3600.0)
