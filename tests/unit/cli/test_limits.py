"""The limits command."""

from __future__ import annotations

import json

import pytest

from tests.wire import Answer, ScriptedService


def test_every_field_is_a_line(cli, connection):
    ran = cli("limits")
    assert ran.code == 0
    assert ran.lines[0] == ["limit", "value"]
    assert ["limits.documents.limit", "1000000"] in ran.lines


def test_the_documents_left_are_said(cli, connection, service):
    service.behave(max_documents=4)
    assert "The tenant may create 4 more documents (0 of 4 used)." in cli("limits").err
    assert cli("limits", "--output", "json").json["documents_left"] == 4
    limits = {"documents": {"limit": 4, "used": 0}, "pages": {"limit": 9, "used": 2}}
    service.answer("status:200", path="/limits$", reply={"limits": limits})
    named = cli("limits", "--output", "json", "--limits-field", "limits.pages")
    assert named.json["documents_left"] == 7


def test_a_field_that_the_limits_do_not_have_is_an_error(cli, connection):
    ran = cli("limits", "--limits-field", "limits.pages")
    assert ran.code == 2
    assert "limits.documents.limit" in ran.err


def test_retries_are_told_on_standard_error(cli, connect, service, monkeypatch):
    from airflow_provider_assistant.api.flow import RetryPolicy

    monkeypatch.setattr(RetryPolicy, "pause", lambda *_: 0.0)
    connect(retries=1)
    service.answer("status:503", path="/limits")
    ran = cli("limits", "-o", "json")
    assert ran.code == 0
    assert ran.err.startswith("warning: Trying again in ")


@pytest.mark.parametrize("status", [200, 404])
def test_a_used_amount_that_the_limits_lack_comes_from_the_usage(status, cli, monkeypatch):
    answers = [Answer(200, {"limits": {"active_documents": 12}}), Answer(status, {"usage": {"active_documents": 5}})]
    with ScriptedService(*answers) as scripted:
        fields = {"conn_type": "assistant", "host": scripted.url, "password": "key-of-a-test"}
        fields["extra"] = {"tenant_id": "acme", "retries": 0}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        ran = cli("limits", "--output", "json")
        assert [request.path.rpartition("/")[2] for request in scripted.received] == ["limits", "usage"]
    assert ran.code == 0
    if status == 200:
        assert ran.json["documents_left"] == 7
        assert ran.json["usage"] == {"usage": {"active_documents": 5}}
    else:
        assert (ran.json["documents_left"], ran.json["usage"]) == (None, None)
