"""One client for all that use the same connection in one event loop, such as the triggers of a triggerer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_assistant.client import ClientSettings
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import Settings
from airflow_provider_assistant.loading.limited import LimitedClient


@dataclass(slots=True)
class _Shared:
    client: LimitedClient
    users: int = 0


_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, ClientSettings]
_clients: dict[_Key, _Shared] = {}
# Look-ups that are about to begin, by connection.
_about_to_begin: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Future[Settings | None]] = {}


@contextlib.asynccontextmanager
async def shared_client(hook: AssistantHook) -> AsyncIterator[LimitedClient]:
    """
    Join the users of a connection's client; the last one to leave closes it.

    Nobody gets what a connection said before he asked: who comes after its key was rotated uses the new one.
    Inside the block the hook knows the connection's tenant and site.

    :param hook: Names the connection.
    """
    hook.settings = await _looked_up(hook)
    key = asyncio.get_running_loop(), hook.settings.client
    shared = _clients.get(key) or _opened(key)
    shared.users += 1
    try:
        await shared.client.prepare()
        yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            # Forgotten before it is closed: who comes meanwhile gets another one.
            _clients.pop(key, None)
            await shared.client.aclose()


def _opened(key: _Key) -> _Shared:
    # Who was in a loop that is closed never left.
    for other in [other for other in list(_clients) if other[0].is_closed()]:
        _clients.pop(other, None)
    shared = _clients[key] = _Shared(LimitedClient(key[1]))
    return shared


async def _looked_up(hook: AssistantHook) -> Settings:
    """Look up a connection, once for all who ask before that begins, such as the triggers of a restarted triggerer."""
    loop = asyncio.get_running_loop()
    key = loop, hook.assistant_conn_id
    if key in _about_to_begin:
        # Where the first one was cancelled or failed, everybody sees for himself.
        return await asyncio.shield(_about_to_begin[key]) or await hook.look_up()
    first, settings = loop.create_future(), None
    _about_to_begin[key] = first
    try:
        try:
            await asyncio.sleep(0)
        finally:
            del _about_to_begin[key]
        settings = await hook.look_up()
        return settings
    finally:
        first.set_result(settings)
