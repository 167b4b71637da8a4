"""What the tests of the client on a socket share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.wire import FakeTime, client_of


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Send a call with the client of a URL, in both colours; the waits of the client take no time."""

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
