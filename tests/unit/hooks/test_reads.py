"""The reads of the hook: paths, scopes and queries, on a real socket."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.endpoints import other
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.wire import Answer, ScriptedService, error_of


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


def test_reads_have_their_paths(wire):
    scripted, hook = wire
    replies = [
        hook.get_limits(),
        hook.get_limits(tenant_id="other"),
        hook.get_statistics(),
        hook.get_statistics(site_id="shop"),
        hook.read("limits", {"day": "2026-11-01"}),
        hook.read("statistics"),
        hook.read("/m2m/tenants/t/usage?a=1", {"b": "ä"}),
        hook.call("get", "/m2m/tenants/t"),
    ]
    assert {reply.raw_json for reply in replies} == {'{"x": [1.50, null]}'}
    assert all(reply.raw == {"x": [1.5, None]} for reply in replies)
    assert [(request.method, request.path.removeprefix("/api/v1/m2m/")) for request in scripted.received] == [
        ("GET", "tenants/t%201/limits"),
        ("GET", "tenants/other/limits"),
        ("GET", "sites/s1/statistics"),
        ("GET", "sites/shop/statistics"),
        ("GET", "tenants/t%201/limits?day=2026-11-01"),
        ("GET", "sites/s1/statistics"),
        ("GET", "tenants/t/usage?a=1&b=%C3%A4"),
        ("GET", "tenants/t"),
    ]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda hook: hook.get_limits(tenant_id=" "), "tenant_id"),
        (lambda hook: hook.get_statistics(site_id=""), "site_id"),
        (lambda hook: hook.read("usage"), "path"),
    ],
)
def test_what_is_invalid_is_refused_before_any_request(call, field, wire):
    scripted, hook = wire
    with pytest.raises(AssistantInputError) as caught:
        call(hook)
    assert caught.value.field == field
    assert scripted.received == []


@pytest.mark.promise("security", "No e-mail address of a path is in a message.")
@pytest.mark.parametrize("path", ["/m2m/sites/docs/users/ada%40example.com/statistics", "/m2m/x?email=ada@example.com"])
def test_an_error_about_a_user_shows_no_address(path):
    call = other("GET", path)
    body = json.dumps({"error": "no user ada@example.com, or \\u0061da&#64;example.com"}).encode()
    refused = error_of(call, Response(404, {}, body))
    assert "ada" not in str(refused)
    assert "example" not in str(refused)
    assert "withheld" in str(refused)


def test_an_error_about_another_path_shows_the_reason():
    error = error_of(other("GET", "/m2m/x?a=1"), Response(404, {}, b'{"error": "no such day"}'))
    assert "no such day" in str(error)
    assert "GET other for /m2m/x)" in str(error)
