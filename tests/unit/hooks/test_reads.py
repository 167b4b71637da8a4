"""The reads of the hook: paths, scopes and queries on a real socket."""

from __future__ import annotations

import json
from datetime import date

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.wire import Answer, ScriptedService

METHODS = {
    "get_limits": "tenants/t 1/limits",
    "get_tenant": "tenants/t 1",
    "get_usage": "tenants/t 1/usage",
    "get_usage_history": "tenants/t 1/usage/history",
    "get_tenant_statistics": "tenants/t 1/statistics",
    "get_site": "sites/s1",
    "get_statistics": "sites/s1/statistics",
    "get_sessions": "sites/s1/sessions",
}


@pytest.fixture
def wire(monkeypatch):
    """A scripted service, and a hook whose connection points to it."""
    with ScriptedService(Answer(200, b'{"x": [1.50, null]}')) as scripted:
        extra = {"tenant_id": "t 1", "site_id": "s1", "retries": 0}
        fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        hook = AssistantHook()
        yield scripted, hook
        hook.client.close()


def paths(scripted):
    return [(request.method, request.path.removeprefix("/api/v1/m2m/")) for request in scripted.received]


def test_every_method_reads_its_route(wire):
    scripted, hook = wire
    for name in METHODS:
        reply = getattr(hook, name)()
        assert reply.raw == {"x": [1.5, None]}
        assert reply.raw_json == '{"x": [1.50, null]}'
    assert paths(scripted) == [("GET", path.replace(" ", "%20")) for path in METHODS.values()]


def test_tenant_and_site_may_be_given(wire):
    scripted, hook = wire
    hook.get_usage(tenant_id="other")
    hook.get_sessions({"page": "2"}, site_id="shop")
    hook.get_user_statistics("Ada+1@example.com", site_id="shop")
    assert paths(scripted) == [
        ("GET", "tenants/other/usage"),
        ("GET", "sites/shop/sessions?page=2"),
        ("GET", "sites/shop/users/Ada%2B1%40example.com/statistics"),
    ]


def test_the_history_has_a_range_whose_names_can_be_replaced(wire):
    scripted, hook = wire
    hook.get_usage_history(date(2026, 2, 28), date(2026, 3, 1))
    hook.get_usage_history(params={"days": "7", "tz": "Europe/Berlin"})
    hook.get_usage_history(date(2026, 2, 28), params={"from": "28.2.2026"})
    assert [path.partition("?")[2] for _, path in paths(scripted)] == [
        "from=2026-02-28&to=2026-03-01",
        "days=7&tz=Europe%2FBerlin",
        "from=28.2.2026",
    ]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda hook: hook.get_user_statistics("ada"), "email"),
        (lambda hook: hook.read("user_statistics"), "email"),
        (lambda hook: hook.read("users"), "read"),
        (lambda hook: hook.get_usage(tenant_id=" "), "tenant_id"),
        (lambda hook: hook.get_sessions(site_id=""), "site_id"),
    ],
)
def test_what_is_invalid_is_refused_before_any_request(call, field, wire):
    scripted, hook = wire
    with pytest.raises(AssistantInputError) as caught:
        call(hook)
    assert caught.value.field == field
    assert scripted.received == []
