"""
The transports and the clock of every client that is not given its own.

Tasks build their clients from an Airflow connection, so a test that runs a whole task cannot reach their constructors.
It replaces these defaults instead, as :func:`signal.signal` replaces a handler. Production code never does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.httpx_transport import HttpxTransport
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport


@dataclass(frozen=True, slots=True)
class ClientDefaults:
    """The transports of a client, its clock in seconds since the epoch, its waits, and the jitter of its retries."""

    transport: Callable[[ClientSettings], Transport] = HttpxTransport
    async_transport: Callable[[ClientSettings], AsyncTransport] = AiohttpTransport
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: Callable[[], random.Random] = random.Random


_current = ClientDefaults()


def get_client_defaults() -> ClientDefaults:
    """Return the defaults for new clients of this process."""
    return _current


def set_client_defaults(defaults: ClientDefaults) -> ClientDefaults:
    """Replace the defaults for new clients of this process, and return the previous ones."""
    global _current
    previous, _current = _current, defaults
    return previous
