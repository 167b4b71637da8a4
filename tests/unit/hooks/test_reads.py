"""The reads of the hook: paths, scopes and queries, on a real socket."""

from __future__ import annotations

import json

import pytest

from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.wire import Answer, ScriptedService


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
