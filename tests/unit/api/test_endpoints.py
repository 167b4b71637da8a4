"""Calls: what can be part of a path, and which calls may be sent twice."""

from __future__ import annotations

import httpx
import pytest
import yarl

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantInputError, AssistantResponseError
from tests.wire import Answer, ScriptedService, client_of

BASE_URL = "https://assistant.example.com/api/v1"


@pytest.mark.parametrize("bad", ["", "  ", None, 5, ".", ".."])
def test_an_id_that_cannot_be_a_path_segment_is_rejected(bad: object) -> None:
    with pytest.raises(AssistantInputError, match="site_id"):
        endpoints.get_statistics(bad)  # type: ignore[arg-type]
    with pytest.raises(AssistantInputError, match="tenant_id"):
        endpoints.get_limits(bad)  # type: ignore[arg-type]


def test_identifiers_are_quoted() -> None:
    assert endpoints.get_limits("a/b?c#d").path == "/m2m/tenants/a%2Fb%3Fc%23d/limits"


@pytest.mark.promise("security", "With both HTTP libraries, no path leaves the base URL.")
@pytest.mark.parametrize(
    "path",
    [
        *("https://elsewhere/x", "//elsewhere/x", "/\\elsewhere/x", "m2m/x", "", "/m2m/x\r\nHost: elsewhere"),
        *("/m2m/../../x", "/m2m/%2e%2e/%2E%2E/x", "/m2m/.%2e/x", "/m2m/..%2fx", "/m2m/%2e", "/m2m/..?a=1"),
    ],
)
def test_a_path_cannot_leave_the_base_url(path: str) -> None:
    with pytest.raises(AssistantInputError, match="base URL"):
        endpoints.other("GET", path)


@pytest.mark.parametrize(
    "path", ["/m2m/a..b/x", "/m2m/%252e%252e/x", "/m2m/x?next=../y", "/m2m//x", "/m2m/...", "/%2f/x"]
)
def test_both_libraries_send_a_path_below_the_base_url(path: str) -> None:
    url = BASE_URL + endpoints.other("GET", path).path
    for sent in (httpx.URL(url), yarl.URL(url)):
        assert sent.host == "assistant.example.com"
        assert str(sent).startswith(f"{BASE_URL}/")


def test_only_reads_and_closing_are_repeatable() -> None:
    assert endpoints.get_limits("t").repeatable
    assert endpoints.get_chat_request("s", "r").repeatable
    assert endpoints.close_session("s", endpoints.SessionClose(session_id="s")).repeatable
    assert not endpoints.other("post", "/m2m/x").repeatable


@pytest.mark.parametrize("request_id", [" ", ".", "..", "\ud800", "a\udfffb"])
def test_a_received_id_that_cannot_be_a_path_segment_is_rejected(request_id: str) -> None:
    call = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
    with pytest.raises(AssistantResponseError, match="cannot be polled"):
        call.parse({"request_id": request_id}, CallInfo(200))
    with pytest.raises(AssistantInputError, match="request_id"):
        endpoints.get_chat_request("docs", request_id)


@pytest.mark.promise("chat", "A close that is answered 404, 409 or 410 is a success only after a lost close.")
@pytest.mark.parametrize("status", [404, 409, 410])
def test_a_session_is_closed_only_by_a_close_that_may_have_arrived(status: int) -> None:
    call = endpoints.close_session("docs", endpoints.SessionClose(session_id="s"))
    gone = Answer(status, {"error": "no such session"})
    with ScriptedService(Answer(503), gone) as service, client_of(service.url) as client:
        assert client.send(call).raw == {"error": "no such session"}
    for answers in ((gone,), (Answer(429), gone)):
        with ScriptedService(*answers) as service, client_of(service.url) as client, pytest.raises(AssistantAPIError):
            client.send(call)


def test_the_document_that_a_conflict_names() -> None:
    call = endpoints.create_text_document("docs", endpoints.TextDocument(content="c"))
    assert call.existing is not None
    for raw, document_id in (
        ({"error": {"message": "exists", "existing_document_id": 7}}, "7"),
        ({"detail": {"document": {"id": "d"}}}, "d"),
        ({"error": "exists", "id": "error-1"}, None),
    ):
        assert call.existing(raw, CallInfo(409)).document_id == document_id
