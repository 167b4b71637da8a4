"""Error messages for a service that does not answer or breaks HTTP."""

from __future__ import annotations

import logging
import traceback

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantConnectionError,
    AssistantError,
    AssistantTimeoutError,
)
from tests.hostile import CALLS, KEY, Closed, HostileService
from tests.unit.client.ways import SENDERS
from tests.wire import SHORT_TIMEOUT, Answer, ScriptedService, client_of

LIMITS, CHAT, SUBMIT = (CALLS[name] for name in ("limits", "chat", "submit"))
ONCE = RetryPolicy(attempts=1)


@SENDERS
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://assistant.invalid/api/v1", "assistant.invalid:443"),
        ("http://assistant.invalid/api/v1", "assistant.invalid:80"),
        ("http://[::1]:1/api/v1", "[::1]:1"),
    ],
)
def test_an_error_names_the_host_with_its_port(send, url, host):
    with pytest.raises(AssistantConnectionError) as caught:
        send(client_of(url, retry=ONCE), LIMITS)
    assert f"No answer from {host}:" in str(caught.value)


@SENDERS
@pytest.mark.parametrize("slow", [CHAT, LIMITS, SUBMIT], ids=["chat", "limits", "submit"])
def test_a_chat_has_a_timeout_of_its_own(send, slow, monkeypatch):
    # If the event loop stands still while it connects, aiohttp counts this time as connecting.
    monkeypatch.setattr(ClientSettings, "connect_timeout", 60.0)
    field = "chat_timeout" if slow is CHAT else "timeout"
    timeouts = {"timeout": 90.0, "chat_timeout": 90.0, field: SHORT_TIMEOUT}
    # The second request uses the connection of the first, which has another timeout.
    first = LIMITS if slow is CHAT else CHAT
    with ScriptedService(Answer(body={"answer": "Soon."}), Answer(delay=60)) as service:
        with pytest.raises((AssistantTimeoutError, AssistantAmbiguousError)) as caught:
            send(client_of(service.url, retry=ONCE, **timeouts), first, slow)
        assert len(service.received) == 2
        assert f"from {service.url.split('/')[2]}" in str(caught.value)
    assert f"within {SHORT_TIMEOUT:g} s" in str(caught.value) or "Timeout" in str(caught.value)
    assert f"raise {field} in the Airflow connection" in str(caught.value)


@SENDERS
def test_a_chat_may_take_longer_than_other_requests(send):
    answer = Answer(body={"answer": "Soon."}, delay=2 * SHORT_TIMEOUT)
    with ScriptedService(Answer(), answer) as service:
        reply = send(client_of(service.url, retry=ONCE, timeout=SHORT_TIMEOUT, chat_timeout=60), LIMITS, CHAT)
    assert (reply.text, len(service.received)) == ("Soon.", 2)


@SENDERS
def test_neither_errors_nor_logs_quote_a_key_that_breaks_http(send, caplog):
    """In UTF-16 as well, which no library decodes, and where a library cuts what it quotes."""
    for name in ("", "httpx", "httpcore", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    shown = []
    for spelling in (KEY.encode(), KEY.encode("utf-16-le"), b"b" * 79 + KEY.encode() + b"c" * 100_000):
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
                    shown.append(repr(send(client_of(service.url, api_key=KEY, retry=ONCE), LIMITS)))
                except AssistantError as error:
                    shown += traceback.format_exception(error)
    shown += [record.getMessage() for record in caplog.records]
    plain = "".join(shown).replace("\0", "").replace("\\x00", "")
    assert KEY[:10] not in plain


@SENDERS
def test_httpx_logs_nothing_of_the_requests_of_this_package(send, caplog):
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, name)
    with ScriptedService() as service:
        send(client_of(service.url), endpoints.other("GET", "/m2m/sites/docs/people/ada"))
    assert [record.getMessage() for record in caplog.records if "ada" in record.getMessage()] == []
