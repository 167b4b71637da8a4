"""Transports that are injected into a client, and the defaults for clients that a task opens."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.defaults import ClientDefaults, set_client_defaults
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantConnectionError
from tests.hostile import CALLS, KEY
from tests.unit.client.ways import SENDERS, asend
from tests.wire import client_with

CALL = CALLS["limits"]
SETTINGS = ClientSettings("http://assistant.invalid/api/v1", KEY, retry=RetryPolicy(attempts=1))
ECHO = Response(200, {"x-echo": KEY}, f'{{"echo": "{KEY}"}}'.encode())


class Fake(Transport):
    def __init__(self, outcome: object) -> None:
        self.outcome, self.calls, self.closed = outcome, [], 0

    def exchange(self, call):
        self.calls.append(call)
        return self.outcome

    def close(self):
        self.closed += 1


class AsyncFake(Fake, AsyncTransport):
    async def exchange(self, call):
        return super().exchange(call)

    async def close(self):
        super().close()


def client_of(outcome, send):
    fake = AsyncFake(outcome) if send is asend else Fake(outcome)
    return fake, client_with(SETTINGS, **{"async_transport" if send is asend else "transport": fake})


@SENDERS
def test_calls_go_through_the_transport_which_the_client_closes(send):
    fake, client = client_of(ECHO, send)
    assert send(client, CALL).raw == {"echo": "***"}
    assert (fake.calls, fake.closed) == ([CALL], 1)


@SENDERS
def test_the_api_key_is_redacted_from_failures(send):
    _, client = client_of(AssistantConnectionError(f"Refused: {KEY}"), send)
    with pytest.raises(AssistantConnectionError) as caught:
        send(client, CALL)
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
