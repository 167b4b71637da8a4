"""A user's e-mail address in a path reaches the service, and no log, error or metric."""

from __future__ import annotations

import logging
import traceback
from urllib.parse import quote, unquote

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.observability import metrics
from tests.unit.client.ways import SENDERS
from tests.wire import Answer, ScriptedService, client_of

ADDRESSES = ["ada.lovelace@mail.example", "O'Brien+news@example.org", "müller@straße.example"]


def calls(address):
    return [
        endpoints.other("GET", f"/m2m/sites/docs/users/{quote(address, safe='')}/statistics"),
        endpoints.other("GET", f"/m2m/sites/docs/sessions?email={quote(address, safe='')}"),
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


def assert_hidden(address, text):
    name, _, domain = address.partition("@")
    for part in (name, domain):
        for spelling in (part, quote(part), quote(quote(part)), part.encode("unicode_escape").decode()):
            assert spelling.casefold() not in text.casefold()


@pytest.mark.promise("security", "An e-mail address in a request is in no log, error or metric.")
@SENDERS
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("status", [200, 302, 404])
def test_an_error_does_not_show_the_address(send, address, status, seen):
    shown = []
    for call in calls(address):
        echo = f"https://x.example{call.path}"
        answer = Answer(status, {"error": f"no {address} at {call.path}"}, {"Location": echo})
        with ScriptedService(answer) as service:
            try:
                send(client_of(service.url, retry=RetryPolicy(attempts=1)), call)
            except AssistantError as error:
                shown += [*traceback.format_exception(error), repr(error.serialize())]
            # aiohttp writes some characters without their escapes.
            assert unquote(service.received[0].path).endswith(unquote(call.path))
    assert_hidden(address, "".join(shown) + seen())
