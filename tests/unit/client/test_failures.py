"""Error messages for a service that does not answer, and redaction of the API key from its responses."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantConnectionError,
    AssistantError,
    AssistantTimeoutError,
)
from tests.hostile import Closed, HostileService
from tests.wire import SHORT_TIMEOUT, Answer, ScriptedService, client_of, refusing_port

CALL = endpoints.get_limits("acme-inc")
ONCE = RetryPolicy(attempts=1)


CHAT = endpoints.chat("docs", ChatMessage(session_id="s", message="When are refunds paid?"))
SUBMIT = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="When are refunds paid?"))


def one(client, *calls):
    """Send calls one after the other, and return the last reply."""
    with client:
        return [client.send(call) for call in calls or (CALL,)][-1]


def one_in_a_task(client, *calls):
    async def send():
        async with client:
            return [await client.asend(call) for call in calls or (CALL,)][-1]

    return asyncio.run(send())


WAYS = pytest.mark.parametrize("send", [one, one_in_a_task])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@WAYS
def test_an_error_names_the_host_that_refuses_the_connection(send):
    with refusing_port() as port, pytest.raises(AssistantConnectionError) as caught:
        send(client_of(f"http://127.0.0.1:{port}/api/v1", retry=ONCE))
    assert f"No answer from 127.0.0.1:{port}:" in str(caught.value)


@WAYS
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://assistant.invalid/api/v1", "assistant.invalid:443"),
        ("http://assistant.invalid/api/v1", "assistant.invalid:80"),
        ("https://assistant.invalid:8443/api/v1", "assistant.invalid:8443"),
        ("http://[::1]:1/api/v1", "[::1]:1"),
    ],
)
def test_an_error_names_the_host_with_its_port(send, url, host):
    with pytest.raises(AssistantConnectionError) as caught:
        send(client_of(url, retry=ONCE))
    assert f"No answer from {host}:" in str(caught.value)


@WAYS
def test_an_error_names_the_host_that_is_too_slow(send, monkeypatch):
    # If the event loop stands still while it connects, aiohttp counts this time as connecting.
    monkeypatch.setattr("airflow_provider_assistant.client.aiohttp_transport.connect_timeout", lambda _: 60.0)
    with ScriptedService(Answer(delay=60)) as service, pytest.raises(AssistantTimeoutError) as caught:
        send(client_of(service.url, retry=ONCE, timeout=SHORT_TIMEOUT))
    assert f"in time from {service.url.split('/')[2]}: " in str(caught.value)


@WAYS
@pytest.mark.parametrize("first", [CHAT, CALL], ids=["chat", "limits"])
@pytest.mark.parametrize("slow", [CHAT, CALL, SUBMIT], ids=["chat", "limits", "submit"])
def test_a_chat_has_a_timeout_of_its_own(send, slow, first, monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.client.aiohttp_transport.connect_timeout", lambda _: 60.0)
    field = "chat_timeout" if slow is CHAT else "timeout"
    timeouts = {"timeout": 90.0, "chat_timeout": 90.0, field: SHORT_TIMEOUT}
    # The second request uses the connection of the first, which may have another timeout.
    with ScriptedService(Answer(body={"answer": "Soon."}), Answer(delay=60)) as service:
        with pytest.raises((AssistantTimeoutError, AssistantAmbiguousError)) as caught:
            send(client_of(service.url, retry=ONCE, **timeouts), first, slow)
        assert len(service.received) == 2
    assert f"within {SHORT_TIMEOUT:g} s" in str(caught.value) or "TimeoutError" in str(caught.value)
    assert f"raise {field} in the Airflow connection" in str(caught.value)


@WAYS
def test_a_chat_may_take_longer_than_other_requests(send):
    answer = Answer(body={"answer": "Soon."}, delay=2 * SHORT_TIMEOUT)
    with ScriptedService(Answer(), answer) as service:
        reply = send(client_of(service.url, retry=ONCE, timeout=SHORT_TIMEOUT, chat_timeout=60), CALL, CHAT)
    assert (reply.text, len(service.received)) == ("Soon.", 2)


@WAYS
def test_neither_errors_nor_logs_quote_a_key_that_breaks_http(send, caplog):
    """In UTF-16 as well, which no library decodes, and where a library cuts what it quotes."""
    for name in ("", "httpx", "httpcore", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    key = "canary-key-0123456789"
    shown = []
    for spelling in (key.encode(), key.encode("utf-16-le"), b"b" * 79 + key.encode() + b"c" * 100_000):
        for broken in (
            b"%s\r\n\r\n",
            b"HTTP/1.1 %s\r\n\r\n",
            b"HTTP/1.1 500 No %s\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\n%s\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nX-Echo: %s\r\nContent-Length: 1\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\nabc",
        ):

            def speak(line, response=broken % spelling):
                line.say(response)
                raise Closed

            with HostileService(speak) as service:
                try:
                    shown.append(repr(send(client_of(service.url, api_key=key, retry=ONCE))))
                except AssistantError as error:
                    shown += traceback.format_exception(error)
    shown += [record.getMessage() for record in caplog.records]
    plain = "".join(shown).replace("\0", "").replace("\\x00", "")
    assert key[:10] not in plain
