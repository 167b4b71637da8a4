"""Transports that are injected into a client, and the defaults for clients that a task opens."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import airflow_provider_assistant
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.defaults import ClientDefaults, set_client_defaults
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantConnectionError

CALL = endpoints.get_limits("acme-inc")
KEY = "canary-key-0123456789"
SETTINGS = ClientSettings("http://assistant.invalid/api/v1", KEY, retry=RetryPolicy(attempts=1))
ECHO = Response(200, {"x-echo": KEY}, f'{{"echo": "{KEY}"}}'.encode())
BROKEN = TransportFailure("connection", f"Refused: {KEY}", sent=False)


class Fake(Transport):
    def __init__(self, outcome: object) -> None:
        self.outcome, self.calls, self.closed = outcome, [], 0

    def exchange(self, call):
        self.calls.append(call)
        return self.outcome

    def close(self):
        self.closed += 1


class AsyncFake(AsyncTransport):
    def __init__(self, outcome: object) -> None:
        self.outcome, self.calls, self.closed = outcome, [], 0

    async def exchange(self, call):
        self.calls.append(call)
        return self.outcome

    async def close(self):
        self.closed += 1


def send(outcome):
    fake = Fake(outcome)

    def run():
        with AssistantClient(SETTINGS, transport=fake) as client:
            return client.send(CALL)

    return fake, run


def asend(outcome, kind=AssistantClient):
    fake = AsyncFake(outcome)

    async def run():
        async with kind(SETTINGS, async_transport=fake) as client:
            return await client.asend(CALL)

    return fake, lambda: asyncio.run(run())


def asend_limited(outcome):
    return asend(outcome, RateLimitedClient)


WAYS = pytest.mark.parametrize("way", [send, asend, asend_limited])


@WAYS
def test_calls_go_through_the_transport_which_the_client_closes(way):
    fake, run = way(ECHO)
    assert run().raw.keys() == {"echo"}
    assert (fake.calls, fake.closed) == ([CALL], 1)


@WAYS
def test_the_api_key_is_redacted_from_every_outcome(way):
    _, run = way(ECHO)
    assert run().raw == {"echo": "***"}
    _, run = way(BROKEN)
    with pytest.raises(AssistantConnectionError) as caught:
        run()
    assert "Refused: ***" in str(caught.value)
    assert KEY not in str(caught.value)


def test_defaults_apply_to_new_clients_until_they_are_restored():
    fake = Fake(ECHO)
    previous = set_client_defaults(ClientDefaults(transport=lambda settings: fake, now=lambda: 7.0))
    try:
        client = AssistantClient(SETTINGS)
        client.send(CALL)
        assert (fake.calls, client.now()) == ([CALL], 7.0)
    finally:
        assert set_client_defaults(previous).now() == 7.0
    assert AssistantClient(SETTINGS).now() > 1e9


def test_each_http_library_is_used_by_one_module():
    package = Path(airflow_provider_assistant.__file__).parent
    users = {"httpx": set(), "aiohttp": set()}
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "knowledge" / "website"):
            continue  # reads the websites of users, not the service
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                for library in users.keys() & {name.partition(".")[0] for name in names}:
                    users[library].add(path.stem)
    # network.py takes the default certificates from httpx, and sends nothing.
    assert users == {"httpx": {"httpx_transport", "network"}, "aiohttp": {"aiohttp_transport"}}
