"""One exchange with each HTTP library."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.httpx_transport import HttpxTransport
from airflow_provider_assistant.client.settings import ClientSettings
from tests.hostile import CALLS, KEY


def with_httpx(settings: ClientSettings, name: str = "qa") -> Any:
    """Send one of the calls with httpx, and return the outcome."""
    with contextlib.closing(HttpxTransport(settings)) as transport:
        return transport.exchange(CALLS[name])


def with_aiohttp(settings: ClientSettings, name: str = "qa") -> Any:
    """Send one of the calls with aiohttp, and return the outcome."""

    async def run() -> Any:
        transport = AiohttpTransport(settings)
        try:
            return await transport.exchange(CALLS[name])
        finally:
            await transport.close()

    return asyncio.run(run())


def send(client: AssistantClient, *calls: Any) -> Any:
    """Send calls one after the other, and return the last reply."""
    with client:
        return [client.send(call) for call in calls][-1]


def asend(client: AssistantClient, *calls: Any) -> Any:
    """Send calls one after the other under asyncio, and return the last reply."""

    async def run() -> Any:
        async with client:
            return [await client.asend(call) for call in calls][-1]

    return asyncio.run(run())


def settings_of(url: str, timeout: float = 60.0, **changes: Any) -> ClientSettings:
    return ClientSettings(url, KEY, timeout=timeout, **changes)


EXCHANGES = pytest.mark.parametrize("exchange", [with_httpx, with_aiohttp])
SENDERS = pytest.mark.parametrize("send", [send, asend])
