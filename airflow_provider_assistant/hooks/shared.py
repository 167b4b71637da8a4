"""One client for all that use the same connection in one event loop, such as the triggers of a triggerer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_assistant.client import ClientSettings
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.loading.limited import LimitedClient


@dataclass(slots=True)
class _Shared:
    client: LimitedClient
    users: int = 0


_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, ClientSettings]
_clients: dict[_Key, _Shared] = {}


@contextlib.asynccontextmanager
async def shared_client(hook: AssistantHook) -> AsyncIterator[LimitedClient]:
    """
    Join the users of a connection's client; the last one to leave closes it.

    The connection is looked up every time, so that who comes after its key was rotated uses the new one.
    Inside the block the hook knows the connection's tenant and site.

    :param hook: Names the connection.
    """
    settings = await hook.look_up()
    key = asyncio.get_running_loop(), settings.client
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
