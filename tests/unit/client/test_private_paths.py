"""A user's e-mail address in a path reaches the service, and no log, error or metric."""

from __future__ import annotations

import asyncio
import logging
import traceback
from urllib.parse import quote, unquote

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.observability import metrics
from tests.hostile import HostileService
from tests.wire import SHORT_TIMEOUT, Answer, ScriptedService, client_of, refusing_port

ADDRESSES = ["ada.lovelace@mail.example", "O'Brien+news@example.org", "müller@straße.example"]


def calls(address):
    return [
        endpoints.other("GET", f"/m2m/sites/docs/users/{quote(address, safe='')}/statistics"),
        endpoints.other("GET", endpoints.with_query("/m2m/sites/docs/sessions", {"email": address})),
        endpoints.other("GET", f"/m2m/sites/docs/people/{quote(address, safe='')}"),
        endpoints.other("GET", f"/m2m/sites/docs/people/{quote(address, safe='@')}"),
        endpoints.other("GET", f"/m2m/sites/docs/people/{quote(quote(address, safe=''), safe='')}"),
    ]


@pytest.fixture
def seen(monkeypatch, caplog):
    """Return a function that returns everything that the package and its libraries have shown."""
    caplog.set_level(logging.DEBUG)
    # Airflow sets a level for it.
    caplog.set_level(logging.DEBUG, "httpx")
    sent = []

    class Stats:
        incr = gauge = timing = staticmethod(lambda *args, **options: sent.append(f"{args} {options}"))

    monkeypatch.setattr(metrics, "airflow_stats", lambda: Stats)

    def everything():
        assert sent
        return "\n".join([*(record.getMessage() for record in caplog.records), *sent])

    return everything


def send(client, call):
    with client:
        return client.send(call)


def asend(client, call):
    async def run():
        async with client:
            return await client.asend(call)

    return asyncio.run(run())


WAYS = pytest.mark.parametrize("way", [send, asend])


def assert_hidden(address, text):
    name, _, domain = address.partition("@")
    for part in (name, domain):
        for spelling in (part, quote(part), quote(quote(part)), part.encode("unicode_escape").decode()):
            assert spelling.casefold() not in text.casefold()


@WAYS
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_reply_arrives_and_nothing_shows_the_address(way, address, seen):
    for call in calls(address):
        with ScriptedService(
            Answer(503, {"error": f"try later, {address}"}), Answer(200, {"email": address})
        ) as service:
            assert way(client_of(service.url), call).raw == {"email": address}
            # aiohttp writes some characters without their escapes.
            assert unquote(service.received[0].path).endswith(unquote(call.path))
    assert_hidden(address, seen())


@pytest.mark.promise("security", "An e-mail address in a request is in no log, error or metric.")
@WAYS
@pytest.mark.parametrize("address", ADDRESSES[1:])
@pytest.mark.parametrize("status", [302, 404])
def test_an_error_does_not_show_the_address(way, address, status, seen):
    shown = []
    for call in calls(address):
        echo = f"https://x.example{call.path}"
        answer = Answer(status, {"error": f"no {address} at {call.path}"}, {"Location": echo})
        with (
            ScriptedService(answer) as service,
            pytest.raises(AssistantError) as caught,
        ):
            way(client_of(service.url, retry=RetryPolicy(attempts=1)), call)
        shown += traceback.format_exception(caught.value)
        shown.append(repr(caught.value.serialize()))
    assert_hidden(address, "".join(shown) + seen())


@WAYS
@pytest.mark.parametrize("address", ADDRESSES[1:])
def test_a_broken_response_does_not_show_the_address(way, address, seen):
    shown = []
    for call in calls(address):
        echo = f"GET {call.path} {address}".encode()
        for response in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n" + echo + b"\r\n\r\n",
            echo + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Type: text/html\r\n\r\n<p>!",
            b"HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\n",
        ):
            with (
                HostileService(lambda line, response=response: line.say(response)) as service,
                pytest.raises(AssistantError) as caught,
            ):
                way(client_of(service.url, retry=RetryPolicy(attempts=1)), call)
            shown += traceback.format_exception(caught.value)
    assert_hidden(address, "".join(shown) + seen())


@WAYS
def test_a_request_without_a_response_does_not_show_the_address(way, seen):
    address = ADDRESSES[0]
    shown = []
    for call in calls(address)[:2]:
        with (
            HostileService(lambda line: line._gone.wait(60)) as service,
            pytest.raises(AssistantError) as caught,
        ):
            way(client_of(service.url, timeout=SHORT_TIMEOUT, retry=RetryPolicy(attempts=1)), call)
        shown += traceback.format_exception(caught.value)
    with refusing_port() as port, pytest.raises(AssistantError) as caught:
        way(client_of(f"http://127.0.0.1:{port}/api/v1", retry=RetryPolicy(attempts=1)), calls(address)[0])
    shown += traceback.format_exception(caught.value)
    assert_hidden(address, "".join(shown) + seen())


def test_other_requests_are_logged_by_httpx_as_before(caplog):
    caplog.set_level(logging.INFO, "httpx")
    with ScriptedService() as service:
        send(client_of(service.url), calls(ADDRESSES[0])[0])
        send(client_of(service.url), endpoints.other("GET", "/m2m/tenants/acme-inc/usage"))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "httpx"]
    assert "/m2m/tenants/acme-inc/usage" in line
