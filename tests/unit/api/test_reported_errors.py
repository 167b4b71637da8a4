"""Which failure the body of a success reports, and which status it means."""

from __future__ import annotations

import contextlib
import json

import pytest

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import CallInfo, Response
from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.api.replies import ApiReply, ChatAnswer, ChatRequest, CreatedDocument
from airflow_provider_assistant.api.reported_errors import reported_error
from airflow_provider_assistant.api.site_documents import document_page
from airflow_provider_assistant.exceptions import AssistantBadRequestError
from tests.hostile import CALLS

OK = CallInfo(200)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ({"error": "title is required"}, 400),
        ({"error": {"message": "category is unknown", "code": "invalid_field"}}, 400),
        ({"error": {"code": "E17"}}, 400),
        ({"errors": ["title: too long", "answer: empty"]}, 400),
        ({"errors": {"title": ["is too long"]}}, 400),
        ({"errors": {"code": 17}}, 400),
        ({"errors": [{"message": "No", "extensions": {}}], "data": None}, 400),
        ({"success": False, "message": "Die Kategorie fehlt"}, 400),
        ({"ok": False, "reason": "storage is full"}, 400),
        ({"status": "error", "detail": "bad row"}, 400),
        ({"status": "Failed", "message": "bad row"}, 400),
        ({"status": False, "message": "bad row"}, 400),
        ({"success": "false", "message": "bad row"}, 400),
        ({"success": 0, "message": "bad row"}, 400),
        ({"ok": "False", "error_message": "bad row"}, 400),
        ({"error_code": "E17", "error_message": "bad row"}, 400),
        ({"errorMessage": "bad row", "errorType": "ValueError"}, 400),
        ({"code": 422, "message": "bad row"}, 422),
        ({"data": {"error": "title is required"}}, 400),
        ([{"error": "title is required"}], 400),
        ({"results": [{"status": 422, "error": "bad"}, {"status": 422, "error": "bad"}]}, 422),
        # The documented errors, and statuses in the body.
        ({"error": "invalid_api_key"}, 401),
        ({"error": "api_access_not_available_on_plan"}, 403),
        ({"error": "site not found"}, 404),
        ({"error": "category not found"}, 400),
        ({"status": 404, "message": "nothing here"}, 404),
        ({"statusCode": "503", "message": "later"}, 503),
        ({"error": {"code": 429, "message": "slow down"}}, 429),
        ({"error": "document already exists"}, 409),
        # What may pass.
        ({"error": "Rate limit exceeded"}, 429),
        ({"error": "The service is temporarily unavailable"}, 503),
        ({"error": "upstream timed out"}, 503),
        ({"errorMessage": "Task timed out after 3.00 seconds", "errorType": "Sandbox.Timedout"}, 503),
        ({"success": False, "message": "Please try again later"}, 503),
        ({"error": {"type": "internal_server_error", "message": "Oops"}}, 503),
        ({"error": "unknown error"}, 503),
        ({"error": "the title 'Try again later' is too long"}, 400),
        # No reason at all.
        ({"success": False}, None),
        ({"error": True}, None),
        ({"success": "false"}, None),
        ({"status": "error"}, None),
    ],
)
def test_a_failure_in_the_body(raw, status):
    found = reported_error(raw)
    assert found is not None
    assert found.status == status


@pytest.mark.parametrize(
    "raw",
    [
        *[{"error": value, "id": "d1"} for value in (None, "", False, [], {}, 0, "none", " ")],
        *[{"errors": value} for value in (None, [], {}, 3, "", {"timeout": 3, "refused": 0})],
        {"success": True, "message": "error-free"},
        {"status": "created", "code": 0},
        {"status": 0, "message": "created"},
        {"documents": [{"id": "d1", "title": "T", "status": False}]},
        {"success": "true", "ok": 1, "error_message": None, "errorMessage": ""},
        {"status": 201},
        {"results": [{"id": "d1"}, {"error": "one of two"}]},
        {"site": {"status": "error", "error": "of another thing"}},
        {},
        [],
        None,
        "error",
    ],
)
def test_no_failure_in_the_body(raw):
    assert reported_error(raw) is None


@pytest.mark.parametrize(
    ("reply", "has_result"),
    [
        (CreatedDocument({"error": "not indexed yet", "document_id": "d1"}, OK), True),
        (CreatedDocument({"status": "failed", "data": {"id": 7}}, OK), True),
        (CreatedDocument({"error": "refused", "title": "t"}, OK), False),
        (ChatAnswer({"error": "no source was found", "answer": "42"}, OK), True),
        (ChatAnswer({"success": False, "result": "Quota exceeded"}, OK), False),
        (ChatAnswer({"error": "no model", "answer": "no model"}, OK), False),
        (ChatAnswer({"error": "no model", "message": "Request failed"}, OK), False),
        (ChatRequest({"error": "internal"}, OK, "r"), False),
        (ChatRequest({"error": "internal", "status": "ok"}, OK, "r"), False),
        (ChatRequest({"status": "failed", "error": "no model"}, OK, "r"), True),
        (ChatRequest({"status": "processing", "error": "attempt 1 failed"}, OK, "r"), True),
        (CALLS["feedback"].parse({"error": "too late", "feedback": "good", "request_id": "r"}, OK), False),
        (document_page(DocumentRoutes(), [{"id": "d1", "status": "failed"}, {"id": 2, "error": "no text"}], OK), True),
        (ApiReply({"errorMessage": "no", "errorType": "E", "stackTrace": ["f"]}, OK), False),
        (ApiReply({"errors": ["cache is cold"], "chats": 7}, OK), True),
        (ApiReply({"error": "site not found", "code": "x", "deleted": 0}, OK), False),
        (endpoints.submit_chat("docs", endpoints.ChatMessage(session_id="s", message="m")).parse(
            {"error": "refused"}, OK), False),
    ],
)  # fmt: skip
def test_a_reply_with_a_result_keeps_it(reply, has_result):
    assert reply.has_result == has_result


@pytest.mark.parametrize(
    ("raw", "is_failure"),
    [
        ({"success": True, "data": {"messages": 1250, "errors": ["cache is cold"]}}, False),
        ({"success": False, "message": "no", "data": {"document_ids": ["d1"]}}, True),
        ({"status": "error", "message": "no", "data": {"document_ids": ["d1"], "errors": ["no"]}}, True),
        ({"results": [{"id": "d1", "error": "refused"}]}, True),
    ],
)
def test_a_result_beside_the_error_counts_in_an_envelope_as_well(raw, is_failure):
    response = Response(200, {}, json.dumps(raw).encode())
    with pytest.raises(AssistantBadRequestError) if is_failure else contextlib.nullcontext():
        assert errors.reply_of(CALLS["statistics"], response, CallInfo(0), 0.0).raw == raw


@pytest.mark.parametrize("word", ["complete", "COMPLETED", "succeeded"])
@pytest.mark.parametrize("error", ["no model", {"code": "E1"}, ["a", "b"]])
def test_a_complete_request_with_an_error_and_no_answer_has_failed(word, error):
    request = ChatRequest({"status": word, "error": error, "answer": None}, OK, "r")
    assert (request.state, request.text) == ("failed", None)
    assert request.error
    assert ChatRequest({"status": word, "error": error, "answer": "42"}, OK, "r").text == "42"
