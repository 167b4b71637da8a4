from __future__ import annotations

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantResponseError


@pytest.mark.parametrize("bad", ["", "  ", None, 5, ".", ".."])
def test_an_id_that_cannot_be_a_path_segment_is_rejected(bad: object) -> None:
    with pytest.raises(AssistantInputError, match="site_id"):
        endpoints.get_statistics(bad)  # type: ignore[arg-type]
    with pytest.raises(AssistantInputError, match="tenant_id"):
        endpoints.get_limits(bad)  # type: ignore[arg-type]


def test_identifiers_are_quoted() -> None:
    assert endpoints.get_limits("a/b?c#d").path == "/m2m/tenants/a%2Fb%3Fc%23d/limits"


@pytest.mark.parametrize("path", ["https://elsewhere/x", "//elsewhere/x", "m2m/x", "/m2m/../../x", ""])
def test_a_path_cannot_leave_the_base_url(path: str) -> None:
    with pytest.raises(AssistantInputError, match="base URL"):
        endpoints.other("GET", path)


def test_only_reads_are_repeatable() -> None:
    assert endpoints.get_limits("t").repeatable
    assert endpoints.get_chat_request("s", "r").repeatable
    assert not endpoints.other("post", "/m2m/x").repeatable


@pytest.mark.parametrize("request_id", [" ", ".", "..", "\ud800", "a\udfffb"])
def test_a_received_id_that_cannot_be_a_path_segment_is_rejected(request_id):
    call = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
    with pytest.raises(AssistantResponseError, match="cannot be polled"):
        call.parse({"request_id": request_id}, CallInfo(200))
    with pytest.raises(AssistantInputError, match="request_id"):
        endpoints.get_chat_request("docs", request_id)
