"""Share one client among all users of a connection in one event loop, such as the triggers of a triggerer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.hooks.assistant import AssistantHook


@dataclass(slots=True)
class _Shared:
    client: AssistantClient
    users: int = 0


_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, ClientSettings, tuple[float, ...]]
open_clients: dict[_Key, _Shared] = {}


@contextlib.asynccontextmanager
async def shared_client(hook: AssistantHook) -> AsyncIterator[AssistantClient]:
    """
    Return the shared client of a connection for an ``async with`` block; the last user to leave closes it.

    Every caller reads the connection's current settings, so a rotated API key or a renewed certificate takes effect
    immediately. Callers whose settings are equal share one client, and so one throttle. Inside the block, the hook's
    ``settings`` are the ones just read.
    """
    settings = await hook.load_settings_async()
    # A file may be on a slow disk, and nothing may block the event loop.
    written = await asyncio.to_thread(_written, settings.client)
    key = asyncio.get_running_loop(), settings.client, written
    # Users of a closed event loop never reached the end of their block: drop their clients.
    for closed in [other for other in open_clients if other[0].is_closed()]:
        del open_clients[closed]
    shared = open_clients.get(key)
    # The service may accept again a key that it has refused to the users of a stopped client.
    if shared is None or shared.client.throttle.stopped:
        shared = open_clients[key] = _Shared(AssistantClient(settings.client))
    shared.users += 1
    try:
        await shared.client.prepare()
        yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            # Remove it before closing it: a caller that arrives in the meantime opens a new client.
            if open_clients.get(key) is shared:
                del open_clients[key]
            await shared.client.aclose()


def _written(settings: ClientSettings) -> tuple[float, ...]:
    """Return when the certificates were written: a client reads them once."""
    written = []
    for path in (settings.client_cert, settings.client_key, settings.verify):
        # ``verify`` may be a flag. What cannot be read is an error of the client itself.
        with contextlib.suppress(OSError, ValueError):
            if isinstance(path, str):
                written.append(Path(path).stat().st_mtime)
    return tuple(written)
