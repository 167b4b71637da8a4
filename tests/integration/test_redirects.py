"""Redirects are not followed, so the API key is sent to its own host only."""

from __future__ import annotations

import contextlib
import io
from functools import partial

import pytest

from airflow_provider_assistant.exceptions import AssistantAPIError
from tests.hostile import CALLS, KEY
from tests.wire import Answer, ScriptedService


@pytest.fixture
def send(send):
    """Send a call with the secret API key, synchronously and with asyncio."""
    return partial(send, api_key=KEY)


@pytest.fixture
def elsewhere():
    with ScriptedService(Answer(body={"stolen": True})) as service:
        yield service


def targets(elsewhere):
    port = elsewhere.url.partition("127.0.0.1:")[2]
    return {
        "another port": elsewhere.url,
        "another host": f"http://localhost:{port}",
        "no scheme": f"//127.0.0.1:{port}",
        "with a user": f"http://x:y@127.0.0.1:{port}",
        "backslashes": f"\\\\127.0.0.1:{port}",
        "itself": "/api/v1/elsewhere",
    }


@pytest.mark.promise("security", "The API key follows no redirect.")
@pytest.mark.parametrize("target", targets(ScriptedService()))
@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("name", ["qa", "upload"])
def test_a_redirect_is_an_error_and_carries_no_key(send, elsewhere, name, status, target):
    answer = Answer(status, b"", {"Location": targets(elsewhere)[target], "Refresh": f"0; url={elsewhere.url}"})
    with ScriptedService(answer) as service:
        with pytest.raises(AssistantAPIError, match=r"(?i)redirects are not followed") as refused:
            send(service.url, CALLS[name])
    assert refused.value.status == status
    assert len(service.received) == 1
    assert elsewhere.received == []
    assert KEY not in str(refused.value)


def test_cookies_of_the_service_are_not_stored(send, elsewhere):
    with ScriptedService(Answer(503, headers={"Set-Cookie": "session=1; Path=/"}), Answer()) as service:
        send(service.url, CALLS["limits"])
    assert [request.headers.get("cookie") for request in service.received] == [None, None]


def test_the_key_is_sent_in_the_header_only(send):
    with ScriptedService() as service:
        for name in ("limits", "text", "statistics", "close"):
            with contextlib.suppress(AssistantAPIError):
                send(service.url, CALLS[name])
    for request in service.received:
        assert KEY not in request.path
        assert KEY.encode() not in io.BytesIO(request.body).read()
        assert [field for field, value in request.headers.items() if KEY in value] == ["x-api-key"]
