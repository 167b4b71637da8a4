"""Test the hook against the sandbox service: every route, the connection test, the async client."""

from __future__ import annotations

import contextlib
import re
import threading
from types import SimpleNamespace

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantNotFoundError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook


@pytest.fixture
def hook(connection):
    hook = AssistantHook()
    yield hook
    hook.client.close()


def test_every_endpoint(hook, service, tmp_path):
    guide = tmp_path / "guide.txt"
    guide.write_text("Bees make honey.")
    assert hook.get_limits().raw["tenant_id"] == "acme-inc"
    assert hook.upload_document(guide).document_id.startswith("doc_")
    assert hook.create_text_document("T", "Cows make milk.", "animals").raw["kind"] == "text"
    assert hook.create_qa_document("T", "Who barks?", "Dogs.", "animals").raw["kind"] == "qa"
    answer = hook.chat("s", "Who makes honey?")
    assert "Bees make honey." in answer.text
    submitted = hook.submit_chat("s", "Who barks?", email="a@example.com", response_language="en")
    request = hook.get_chat_request(submitted.request_id)
    while request.state == "pending":
        request = hook.get_chat_request(submitted.request_id)
    assert (request.state, request.status) == ("complete", "completed")
    assert "Dogs." in request.text
    hook.send_feedback("s", submitted.request_id, "good")
    hook.close_session("s")
    statistics = hook.get_statistics().raw
    assert statistics["documents"]["by_kind"] == {"file": 1, "text": 1, "qa": 1}
    assert statistics["feedback"]["by_rating"] == {"good": 1}
    site, tenant = "/m2m/sites/acme-docs", "/m2m/tenants/acme-inc"
    assert list(dict.fromkeys(service.seen())) == [
        ("GET", f"{tenant}/limits"),
        ("POST", f"{site}/documents"),
        ("POST", f"{site}/documents/text"),
        ("POST", f"{site}/documents/qa"),
        ("POST", f"{site}/chat"),
        ("POST", f"{site}/chat/async"),
        ("GET", f"{site}/chat/requests/{submitted.request_id}"),
        ("POST", f"{site}/chat/feedback"),
        ("POST", f"{site}/chat/session/close"),
        ("GET", f"{site}/statistics"),
    ]


def test_site_and_tenant_may_be_given_at_each_level(connect, service):
    connect(tenant_id="acme-inc", site_id="acme-docs")
    hook = AssistantHook(site_id="acme-shop")
    assert (hook.resolve_site_id(), hook.resolve_site_id("acme-docs")) == ("acme-shop", "acme-docs")
    assert (hook.resolve_tenant_id(), hook.resolve_tenant_id("other")) == ("acme-inc", "other")
    assert (AssistantHook().resolve_site_id(), AssistantHook(tenant_id="t").resolve_tenant_id()) == ("acme-docs", "t")
    assert hook.get_statistics().raw["site_id"] == "acme-shop"
    assert hook.get_statistics(site_id="acme-docs").raw["site_id"] == "acme-docs"
    assert hook.site().url == f"{service.url}/m2m/sites/acme-shop"
    hook.client.close()


@pytest.mark.parametrize("scope", ["tenant", "site"])
def test_a_missing_or_empty_scope_is_named(scope, connect):
    connect(tenant_id="", site_id="")
    with pytest.raises(AssistantInputError, match=f"{scope}_id.*'assistant_default'") as caught:
        getattr(AssistantHook(), f"resolve_{scope}_id")()
    assert caught.value.field == f"{scope}_id"
    connect()
    # Given but empty does not mean the connection's.
    with pytest.raises(AssistantInputError, match=f"{scope}_id is empty"):
        getattr(AssistantHook(**{f"{scope}_id": " \n"}), f"resolve_{scope}_id")()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda hook: hook.create_text_document("", "c", "k"), "title"),
        (lambda hook: hook.create_qa_document("t", "q", None, "k"), "answer"),
        (lambda hook: hook.upload_document("/no/such/file.md"), "file"),
        (lambda hook: hook.chat("s", 5), "message"),
        (lambda hook: hook.chat("s", "m", email="a@b@c"), "email"),
        (lambda hook: hook.submit_chat("s", "m", response_language="english please"), "response_language"),
        (lambda hook: hook.get_chat_request(""), "request_id"),
        (lambda hook: hook.send_feedback("s", "r", ""), "feedback"),
        (lambda hook: hook.close_session(None), "session_id"),
        (lambda hook: hook.call("GET", "https://elsewhere.example/"), "path"),
    ],
)
def test_bad_input_is_refused_before_any_request(call, field, hook, service):
    with pytest.raises(AssistantInputError) as caught:
        call(hook)
    assert caught.value.field == field
    assert service.journal() == []


@pytest.mark.promise("documents of a site", "A status that is not known changes no document.")
@pytest.mark.parametrize("status", ["Active", "ACTIVE", " active", "activ", "enabled", "draft", "", None, True])
@pytest.mark.parametrize("document_ids", [[], ["d1"], ["d1", "d2"]])
def test_documents_are_set_to_a_known_status_only(status, document_ids, connect, service):
    connect(manage_documents=True)
    with pytest.raises(AssistantInputError) as caught:
        AssistantHook().set_document_status(document_ids, status)
    assert caught.value.field == "status"
    assert service.journal() == []


def test_other_endpoints_can_be_reached(hook):
    assert hook.call("get", "/m2m/sites/acme-docs/statistics").raw["site_id"] == "acme-docs"
    with pytest.raises(AssistantNotFoundError):
        hook.call("GET", "/m2m/tenants/acme-inc/invoices")


def test_connection_test_says_what_it_saw(hook, service):
    well, said = hook.test_connection()
    assert well
    assert service.url in said
    assert "limits" in said
    assert service.seen() == [("GET", "/m2m/tenants/acme-inc/limits"), ("GET", "/m2m/sites/acme-docs/statistics")]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"key": "wrong"}, "The limits of tenant 'acme-inc' cannot be read: .*401"),
        ({"tenant_id": "globex"}, "The limits of tenant 'globex' cannot be read: .*404"),
        ({"tenant_id": ""}, "cannot be used: no tenant_id"),
        ({"timeout": "soon"}, "cannot be used: the connection: invalid extra: timeout"),
        ({"key": ""}, "cannot be used: the connection has no API key"),
        ({"site_id": "acme-dogs"}, "but not the statistics of site 'acme-dogs' .extra field site_id.: .*404"),
    ],
)
def test_connection_test_says_what_is_wrong(fields, part, connect):
    connect(conn_id="x7kq2m", **fields)
    well, said = AssistantHook("x7kq2m").test_connection()
    assert not well
    assert re.search(part, said), said
    # The random id that Airflow gives to a connection that is tested.
    assert "x7kq2m" not in said


def test_connection_test_works_without_a_site(connect):
    connect(site_id="")
    well, said = AssistantHook().test_connection()
    assert well
    assert "names no site" in said


@pytest.mark.promise("Airflow", "The Test button asks for the statistics of the site, and believes no list of sites.")
@pytest.mark.parametrize(
    "limits",
    [{"sites": [{"id": 17, "slug": "acme-docs"}]}, {"data": {"site_ids": ["other"]}}, {"sites": []}, ["plan"], None],
)
def test_connection_test_believes_the_statistics_of_the_site_and_nothing_else(limits, connect, monkeypatch):
    for site_id, expected in (("acme-docs", True), ("acme-dogs", False)):
        connect(site_id=site_id)
        hook = AssistantHook()
        monkeypatch.setattr(hook, "get_limits", lambda: SimpleNamespace(raw=limits))
        with contextlib.closing(hook.client):
            well, said = hook.test_connection()
        assert well is expected, said
        assert f"site {site_id!r}" in said


async def test_a_connection_is_read_outside_of_the_event_loop_s_thread(connection, monkeypatch):
    read, threads = AssistantHook.get_connection, []

    def noted(_, conn_id):
        threads.append(threading.get_ident())
        return read(conn_id)

    monkeypatch.setattr(AssistantHook, "get_connection", noted)
    hook = AssistantHook()
    assert await hook.load_settings_async() is hook.settings
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_the_async_client_sends_the_same_calls(connection, service):
    async with AssistantHook().async_client() as client:
        limits = await client.asend(endpoints.get_limits("acme-inc"))
        submitted = await client.asend(
            endpoints.submit_chat("acme-docs", ChatMessage(session_id="s", message="Anything?"))
        )
    assert limits.raw["tenant_id"] == "acme-inc"
    assert service.chats()[0]["id"] == submitted.request_id
