"""Share one client among all users of a connection in one event loop, such as the triggers of a triggerer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import Settings


@dataclass(slots=True)
class _Shared:
    client: AssistantClient
    users: int = 0


_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, ClientSettings]
open_clients: dict[_Key, _Shared] = {}
# Reads of a connection that have not started yet, by event loop and connection id.
starting_reads: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[Settings | None]] = {}


@contextlib.asynccontextmanager
async def shared_client(hook: AssistantHook) -> AsyncIterator[AssistantClient]:
    """
    Return the shared client of a connection for an ``async with`` block; the last user to leave closes it.

    Every caller reads the connection's current settings, so a rotated API key takes effect immediately. Callers whose
    settings are equal share one client, and so one rate limiter. Inside the block, the hook's ``settings`` are the
    ones just read.
    """
    hook.settings = await _read_settings_once(hook)
    key = asyncio.get_running_loop(), hook.settings.client
    shared = open_clients.get(key)
    if shared is None:
        shared = _open_and_register(key)
    shared.users += 1
    try:
        await shared.client.prepare()
        yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            # Remove it before closing it: a caller that arrives in the meantime opens a new client.
            open_clients.pop(key, None)
            await shared.client.aclose()


def _open_and_register(key: _Key) -> _Shared:
    # Users of a closed event loop never reached the end of their block: drop their clients.
    for other_key in list(open_clients):
        other_loop, _ = other_key
        if other_loop.is_closed():
            open_clients.pop(other_key, None)
    _, client_settings = key
    shared = _Shared(AssistantClient(client_settings))
    open_clients[key] = shared
    return shared


async def _read_settings_once(hook: AssistantHook) -> Settings:
    """
    Read a connection once for all callers that arrive before the read starts.

    A restarted triggerer starts all its triggers at once; without this, each would read the same connection.
    """
    loop = asyncio.get_running_loop()
    key = loop, hook.assistant_conn_id
    if key in starting_reads:
        settings_of_first = await asyncio.shield(starting_reads[key])
        if settings_of_first is None:
            # The first caller was cancelled or failed, so every other caller reads it itself.
            return await hook.load_settings_async()
        return settings_of_first
    read = loop.create_future()
    starting_reads[key] = read
    settings = None
    try:
        try:
            # The other callers that are ready to run now find the read, and wait for it.
            await asyncio.sleep(0)
        finally:
            # The read starts. A caller that arrives later may need settings that are newer.
            del starting_reads[key]
        settings = await hook.load_settings_async()
        return settings
    finally:
        read.set_result(settings)
