"""For any JSON body, the reply is readable or the error is an AssistantError."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import CallInfo, Response
from airflow_provider_assistant.api.document_state import DocumentState
from airflow_provider_assistant.api.fields import REASONS
from airflow_provider_assistant.api.replies import ANSWER_FIELDS, SHARED_FIELDS
from airflow_provider_assistant.api.status import State
from airflow_provider_assistant.exceptions import AssistantError, AssistantResponseError, AssistantServerError
from tests.hostile import CALLS, KEY

NAMES = st.one_of(
    st.sampled_from(
        [*ANSWER_FIELDS, *SHARED_FIELDS, *REASONS, "request_id", "status", "data", "id", "document_id", "session_id"]
    ),
    st.text(),
)
TEXTS = st.one_of(st.text(), st.sampled_from(["complete", "failed", "queued", "\ud800", "\x1b[2J\nINFO", "a" * 2000]))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(NAMES, inner)), max_leaves=12)
BODIES = st.one_of(
    VALUES.map(json.dumps).map(str.encode), st.binary(), VALUES.map(repr).map(lambda r: r.encode("utf-8", "replace"))
)
HEADERS = st.dictionaries(
    st.sampled_from(["content-type", "retry-after", "x-request-id", "location"]), st.text(max_size=50)
)
MANY = settings(max_examples=30, deadline=None, derandomize=True)
STATES = {*get_args(State), *get_args(DocumentState)}


def performed(call, response):
    return errors.reply_of(call, response, CallInfo(0), 1_700_000_000.0)


def one_line(said):
    assert said.splitlines() == [said]
    assert len(said) < 1500


@pytest.mark.parametrize("name", CALLS)
@MANY
@given(body=BODIES, headers=HEADERS)
def test_a_success_is_read_or_refused(name, body, headers):
    try:
        reply = performed(CALLS[name], Response(200, headers, body))
    except AssistantError as error:
        one_line(str(error))
        return
    shown = reply.as_dict()
    assert json.loads(json.dumps(shown)) is not None
    assert repr(reply)
    assert reply.created_id is None or (isinstance(reply.created_id, str) and reply.created_id)
    assert shown.get("text") is None or isinstance(shown["text"], str)
    assert shown.get("error") is None or isinstance(shown["error"], str)
    assert shown.get("state", "pending") in STATES
    assert len(shown.get("status") or "") <= 100


@pytest.mark.parametrize("name", ["qa", "request"])
@MANY
@given(status=st.one_of(st.integers(100, 199), st.integers(300, 999)), body=BODIES, headers=HEADERS)
def test_an_error_status_raises_an_error_of_this_package(name, status, body, headers):
    with pytest.raises(AssistantError) as caught:
        performed(CALLS[name], Response(status, headers, body))
    one_line(str(caught.value))
    may_have_happened = status >= 500 and status not in {501, 511}
    assert caught.value.maybe_done == (name == "qa" and may_have_happened)


@MANY
@given(value=st.one_of(st.text(), st.floats().map(str), st.integers().map(str), st.datetimes().map(str)))
def test_a_retry_after_is_a_bounded_time_or_none(value):
    seconds = errors.parse_retry_after(value, 1_700_000_000.0)
    assert seconds is None or 0 <= seconds <= errors.LONGEST_RETRY_AFTER


@pytest.mark.parametrize("page", [b"<" * 1_000_000, b"<title" * 200_000, b"<title>" * 200_000, b"&#x" * 300_000])
def test_a_page_that_slows_patterns_down_is_cut(page):
    # Searching the whole body would take hours and exceed the time limit of the test.
    with pytest.raises(AssistantServerError) as caught:
        performed(CALLS["limits"], Response(500, {}, page))
    assert len(caught.value.detail) <= errors.DETAIL_LENGTH


def test_a_message_of_megabytes_is_shortened():
    body = json.dumps({"error": f"{KEY} " + "x\n" * 5_000_000}).encode()
    with pytest.raises(AssistantError) as caught:
        performed(CALLS["limits"], Response(400, {}, body))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(("name", "is_create"), [("qa", True), ("submit", True), ("limits", False)])
def test_a_create_whose_reply_is_too_large_has_happened(name, is_create):
    response = Response(201, {}, b"{", "is larger than a reply may be")
    with pytest.raises(AssistantResponseError, match="larger") as caught:
        performed(CALLS[name], response)
    assert ("was carried out" in str(caught.value)) == is_create


def test_an_error_whose_page_is_too_large_is_that_error():
    response = Response(503, {}, b"<title>Down</title>", "is larger than max_response_bytes allows")
    with pytest.raises(AssistantServerError, match="Down"):
        performed(CALLS["qa"], response)
