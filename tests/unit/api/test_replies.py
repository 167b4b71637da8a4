"""Replies: any JSON can be read, the fields that matter are found, and none is taken from another object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import (
    ChatAnswer,
    ChatRequest,
    CreatedDocument,
    error_text,
    find_request_id,
)
from airflow_provider_assistant.api.status import StatusMapping
from tests.versions import deserialize, serialize, serialize_arguments

ONCE = CallInfo(200)
NOISE = {"message": "Request processed.", "status": "success", "code": "S200", "meta": {"message": "v2", "id": "m"}}
ENVELOPES = [
    lambda reply: reply,
    lambda reply: {**NOISE, "data": reply},
    lambda reply: {**NOISE, "result": reply},
    lambda reply: {**NOISE, "id": "call-1", "data": {"status": "ok", "payload": reply}},
]
enveloped = pytest.mark.parametrize("wrapped", ENVELOPES)


@enveloped
@pytest.mark.parametrize("name", ["document_id", "documentId", "id", "uuid"])
def test_the_id_of_a_created_document(wrapped: Any, name: str) -> None:
    for raw in ({name: "d1"}, {"document": {name: "d1"}}):
        assert CreatedDocument(wrapped(raw), ONCE).document_id == "d1"
    assert CreatedDocument(wrapped({name: 7}), ONCE).document_id == "7"


@pytest.mark.promise("replies and errors", "An id or an answer is never taken from an object of another thing.")
@pytest.mark.parametrize("foreign", ["site", "tenant", "user", "session", "meta", "owner", "links"])
@pytest.mark.parametrize("field", ["id", "uuid", "document_id", "request_id", "answer", "text", "message"])
def test_nothing_is_taken_from_another_object(foreign: str, field: str) -> None:
    raw = {"status": "ok", foreign: {field: "docs"}}
    for body in (raw, {"data": raw}, {foreign: {"data": {field: "docs"}}}):
        assert CreatedDocument(body, ONCE).document_id is None
        assert find_request_id(body) is None
        assert ChatAnswer(body, ONCE).text is None


def test_the_id_of_a_chat_is_not_that_of_a_document() -> None:
    for envelope in ("request", "chat", "answer"):
        assert CreatedDocument({"status": "ok", envelope: {"id": "r1"}}, ONCE).document_id is None


@enveloped
@pytest.mark.parametrize(
    "reply",
    [
        {"answer": "42", "message": "the question", "request": {"message": "the question"}},
        {"answer": {"text": "42"}},
        {"result": {"content": "42"}},
        {"result": "42"},
        {"response": {"text": "42"}, "text": "ok"},
        {"chat": {"reply": "42"}, "result": "success"},
    ],
)
def test_the_answer(wrapped: Any, reply: dict[str, Any]) -> None:
    assert ChatAnswer(wrapped(reply), ONCE).text == "42"
    polled = ChatRequest(wrapped({**reply, "status": "complete", "request_id": "r"}), ONCE, "r")
    assert (polled.state, polled.text) == ("complete", "42")


def test_an_answer_may_be_any_text() -> None:
    assert ChatAnswer("42", ONCE).text == "42"
    assert [ChatAnswer({"answer": text}, ONCE).text for text in ("ok", "True", "")] == ["ok", "True", None]


@pytest.mark.parametrize(
    "raw",
    [
        {"status": "completed", "message": "Request completed"},
        {"success": True, "message": "Anfrage bearbeitet"},
        {"message": "Done", "data": {"status": "completed", "request_id": "r"}},
        {"code": 0, "message": "no answer was found", "answer": None},
        {"answer": "", "request": {"message": "When are refunds paid?"}},
        {"result": "success"},
        {"answer": ["42"], "text": 42},
    ],
)
def test_a_note_about_the_request_is_not_the_answer(raw: Any) -> None:
    assert ChatAnswer(raw, ONCE).text is None
    assert ChatRequest({"status": "completed", **raw}, ONCE, "r").text is None


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ({"request": {"request_id": "r", "status": "queued"}, "status": "complete"}, "queued"),
        ({"request_id": "r", "status": "queued", "result": {"status": "complete"}}, "queued"),
        ({"request_id": "trace-1", "status": "done", "data": {"request_id": "r", "status": "queued"}}, "queued"),
        ({"request_id": "r", "status": "ok", "result": {"status": "complete"}}, "complete"),
        ({"status": "success", "data": {"status": "complete"}}, "complete"),
        ({"status": 200, "state": "failed"}, "failed"),
        ({"status": "success", "answer": "42"}, "success"),
        ({"status": "x" * 500}, "x" * 100),
        ({"status": {"name": "complete"}}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_status_next_to_the_request_id_counts(raw: Any, status: str) -> None:
    assert ChatRequest(raw, ONCE, "r").status == status


@pytest.mark.promise("replies and errors", "A chat that the service ended ends the wait, whatever its word for it.")
@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("complete completed succeeded", "complete"),
        ("failed failure error cancelled canceled rejected expired timed_out timeout aborted", "failed"),
        ("queued processing in_progress quarantined", "pending"),
    ],
)
@given(st.data())
def test_words_in_any_spelling(words: str, state: str, data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words.split()))
    chars = [data.draw(st.sampled_from([char.lower(), char.upper()])) for char in word.replace("_", "")]
    spelling = "".join(data.draw(st.sampled_from(["", " ", "_", "-"])) + char for char in chars)
    assert ChatRequest({"status": f" {spelling} "}, ONCE, "r").state == state


def test_words_of_a_connection() -> None:
    words = StatusMapping().extended(complete=["Er-ledigt", "error"], failed=["kaputt"])
    states = [words.state(word) for word in ("erledigt", "KAPUTT", "complete", "queued", "error")]
    assert states == ["complete", "failed", "complete", "pending", "complete"]


def test_only_a_complete_request_has_an_answer_and_only_a_failed_one_an_error() -> None:
    raw = {"result": {"answer": "42"}, "error": {"message": "no"}}
    found = [ChatRequest({**raw, "status": status}, ONCE, "r") for status in ("complete", "failed", "queued")]
    assert [request.text for request in found] == ["42", None, None]
    assert [request.error for request in found] == [None, "no", None]


@pytest.mark.promise("replies and errors", "An error shows the service's reason, in the shapes of common frameworks.")
@enveloped
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"error": "site not found"}, "site not found"),
        # FastAPI, GraphQL, problem details, Spring, Rails.
        ({"detail": [{"loc": ["body", "title"], "msg": "field required", "type": "missing"}]},
         "body.title: field required"),
        ({"errors": [{"message": "title is blank"}, {"message": "too long"}]}, "title is blank; too long"),
        ({"error": {"message": "category is unknown", "code": 17}}, "category is unknown"),
        ({"title": "Bad Request", "status": 400, "detail": "category is unknown"}, "category is unknown"),
        ({"title": "Invalid", "detail": "category is unknown"}, "category is unknown"),
        ({"timestamp": "t", "status": 400, "error": "Bad Request", "message": "title is blank", "path": "/x"},
         "title is blank"),
        ({"errors": [{"field": "title", "defaultMessage": "must not be blank"}]}, "title: must not be blank"),
        ({"errors": {"title": ["is too long"], "answer": ["is empty"]}}, "title: is too long; answer: is empty"),
        ({"error": "Not Found"}, "Not Found"),
        ({"error": {"code": 17}}, "17"),
    ],
)  # fmt: skip
def test_the_reason_of_an_error(wrapped: Any, raw: Any, reason: str) -> None:
    assert error_text(wrapped(raw)) == reason
    failed = ChatRequest(wrapped({"state": "failed", **raw, "status": "failed"}), ONCE, "r")
    assert failed.error == reason


def test_an_error_of_another_shape_shows_its_json() -> None:
    assert error_text({"fehler": {"text": "kaputt"}}) == '{"fehler": {"text": "kaputt"}}'
    assert len(error_text({"x": "y" * 1000}) or "") == 300
    assert [error_text(raw) for raw in (None, {}, [], "")] == [None, None, None, None]
    assert ChatRequest({"status": "failed"}, ONCE, "r").error is None


RESERVED = ["__classname__", "__version__", "__data__", "__id__", "__cache__", "__type", "__source", "__var"]


@pytest.mark.parametrize("name", RESERVED)
def test_airflow_passes_a_reply_on_whatever_its_names(name: str) -> None:
    raw = {"answer": "42", "facts": [{name: "builtins.tuple", "__version__": 1, "__var": [1], "n": 1}]}
    shown = ChatAnswer(raw, ONCE).as_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert deserialize(serialize(shown)) == shown
    assert deserialize(serialize_arguments(shown)) == shown
    assert shown["raw"]["facts"][0][f"_{name}"] == raw["facts"][0][name]
    assert shown["raw"]["facts"][0]["n"] == 1


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 10**300])
def test_airflow_passes_on_integers_of_any_length(number: int) -> None:
    (shown,) = ChatAnswer([number], ONCE).as_dict()["raw"]
    assert shown == number if -(2**63) <= number < 2**64 else shown == str(number)


@pytest.mark.parametrize(
    ("fields", "level", "score"),
    [
        ({}, None, None),
        ({"confidence_level": "low"}, "low", None),
        ({"confidence_score": 1}, None, 1.0),
        ({"confidence_score": 97.5, "confidence_level": " Medium "}, "Medium", 97.5),
        ({"confidence_score": "0.41"}, None, 0.41),
        ({"confidence_score": "unknown", "confidence_level": 3}, None, None),
        ({"confidence_score": float("nan")}, None, None),
        ({"confidence_score": "Infinity"}, None, None),
        ({"confidence_score": 10**400}, None, None),
        ({"confidence_score": True, "confidence_level": ["low"]}, None, None),
        ({"confidence_score": None, "confidence": 0.5}, None, 0.5),
        ({"confidence": "low"}, "low", None),
        ({"confidence_level": "x" * 500}, "x" * 100, None),
    ],
)
def test_the_confidence(fields: Any, level: str | None, score: float | None) -> None:
    for raw in ({"answer": "42", **fields}, {"data": {"answer": "42", **fields}}):
        expected = {"confidence_level": level, "confidence_score": score}
        assert ChatAnswer(raw, ONCE).as_dict().items() >= expected.items()
        assert ChatRequest({"status": "complete", **raw}, ONCE, "r").as_dict().items() >= expected.items()
        failed = ChatRequest({"status": "failed", **raw}, ONCE, "r")
        assert (failed.confidence_level, failed.confidence_score) == (None, None)
