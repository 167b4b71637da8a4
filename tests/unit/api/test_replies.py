"""Replies: any JSON can be read, and the fields that matter are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ChatAnswer, ChatRequest, CreatedDocument, find_request_id
from airflow_provider_assistant.api.status import StatusMapping
from tests.versions import deserialize, serialize, serialize_arguments

ONCE = CallInfo(200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["status", "request_id", "result", "answer", "error", "message", "id", "data"]) | st.text(),
            inner,
        )
    ),
    max_leaves=10,
)


@st.composite
def envelopes(draw: st.DrawFn) -> Callable[[dict[str, Any]], Any]:
    """Draw one to three envelopes with generic fields, and wrap a reply in them."""
    noise = st.fixed_dictionaries(
        {},
        optional={
            "message": st.sampled_from(["OK", "Request processed.", "Done"]),
            "status": st.sampled_from(["success", "ok", "OK", "Success", 200, True]),
            "result": st.just("success"),
            "code": st.just("S200"),
            "title": st.just("Assistant"),
            "id": st.just("call-1"),
            "meta": st.just({"message": "v2", "id": "m"}),
        },
    )
    names = st.sampled_from(["data", "payload", "chat", "response", "body", "item", "record"])
    layers = draw(st.lists(st.tuples(noise, names), min_size=1, max_size=3))

    def wrapped(reply: dict[str, Any]) -> Any:
        for fields, name in layers:
            reply = {**fields, name: reply}
        return reply

    return wrapped


class TestReplies:
    @given(st.sampled_from(["complete", "completed", "failed", "failure"]), st.data())
    def test_any_spelling(self, word: str, data: st.DataObject) -> None:
        spelling = "".join(data.draw(st.sampled_from([char.lower(), char.upper()])) for char in word)
        state = ChatRequest({"status": f" {spelling} "}, ONCE, "r").state
        assert state == ("complete" if word.startswith("complete") else "failed")

    @pytest.mark.parametrize(
        ("raw", "status"),
        [
            ({"status": "complete"}, "complete"),
            ({"data": {"status": "complete"}}, "complete"),
            ({"request": {"request_id": "r", "status": "queued"}, "status": "complete"}, "queued"),
            ({"request_id": "r", "status": "queued", "result": {"status": "complete"}}, "queued"),
            ({"status": "success", "data": {"status": "complete"}}, "complete"),
            ({"status": 200, "state": "failed"}, "failed"),
            ({"request_id": "trace-1", "status": "done", "data": {"request_id": "r", "status": "queued"}}, "queued"),
            ({"request_id": "r", "status": "ok", "result": {"status": "complete"}}, "complete"),
            ({"status": "success", "answer": "42"}, "success"),
            ({}, ""),
            (None, ""),
            ([], ""),
            ({"status": None}, ""),
            ({"status": {"name": "complete"}}, ""),
        ],
    )
    def test_the_status_next_to_the_request_id_counts(self, raw: Any, status: str) -> None:
        assert ChatRequest(raw, ONCE, "r").status == status

    @pytest.mark.parametrize(
        "raw",
        [
            {"answer": "42"},
            {"text": "42"},
            {"data": {"answer": "42", "message": "the question"}},
            {"message": "42"},
            {"response": {"text": "42"}},
            {"status": "complete", "result": {"answer": "42"}},
            {"status": "complete", "result": "42", "message": "the question"},
            {"answer": "42", "message": "the question"},
            "42",
        ],
    )
    def test_the_answer(self, raw: Any) -> None:
        assert ChatAnswer(raw, ONCE).text == "42"

    def test_only_a_complete_request_has_an_answer_and_only_a_failed_one_an_error(self) -> None:
        raw = {"result": {"answer": "42"}, "error": {"message": "no"}}
        found = {
            status: ChatRequest({**raw, "status": status}, ONCE, "r") for status in ("complete", "failed", "queued")
        }
        assert [found[status].text for status in found] == ["42", None, None]
        assert [found[status].error for status in found] == [None, "no", None]

    @given(envelopes(), st.sampled_from(["answer", "reply", "text", "content"]))
    def test_the_answer_in_envelopes(self, wrapped: Any, name: str) -> None:
        assert ChatAnswer(wrapped({name: "42"}), ONCE).text == "42"
        polled = ChatRequest(wrapped({"status": "complete", "result": {name: "42"}}), ONCE, "r")
        assert (polled.state, polled.text) == ("complete", "42")

    @given(envelopes(), st.sampled_from(["complete", "failed", "queued"]), st.booleans())
    def test_the_status_in_envelopes(self, wrapped: Any, status: str, named: bool) -> None:
        raw = wrapped({"status": status} | ({"request_id": "r"} if named else {}))
        assert ChatRequest(raw, ONCE, "r").status == status

    @given(envelopes())
    def test_ids_in_envelopes(self, wrapped: Any) -> None:
        assert find_request_id(wrapped({"request_id": "r1"})) == "r1"
        assert CreatedDocument(wrapped({"document_id": "d1"}), ONCE).document_id == "d1"
        assert CreatedDocument(wrapped({"document": {"id": "d1"}}), ONCE).document_id == "d1"

    @given(envelopes(), st.sampled_from(["error", "reason", "detail", "error_message"]))
    def test_the_error_in_envelopes(self, wrapped: Any, name: str) -> None:
        assert ChatRequest(wrapped({"status": "failed", name: "no credit"}), ONCE, "r").error == "no credit"

    @pytest.mark.promise("replies and errors", "An id or an answer is never taken from an object of another thing.")
    @pytest.mark.parametrize("foreign", ["site", "tenant", "user", "session", "meta", "owner", "links"])
    @pytest.mark.parametrize("field", ["id", "uuid", "document_id", "request_id", "answer", "text", "message"])
    def test_nothing_is_taken_from_another_object(self, foreign: str, field: str) -> None:
        raw = {"status": "ok", foreign: {field: "docs"}}
        for body in (raw, {"data": raw}, {foreign: {"data": {field: "docs"}}}):
            assert CreatedDocument(body, ONCE).document_id is None
            assert CreatedDocument(body, ONCE, id_field=field).document_id is None
            assert find_request_id(body) is None
            assert ChatAnswer(body, ONCE).text is None

    @pytest.mark.parametrize("envelope", ["request", "chat", "message"])
    def test_the_id_of_a_chat_is_not_that_of_a_document(self, envelope: str) -> None:
        assert CreatedDocument({"status": "ok", envelope: {"id": "r1"}}, ONCE).document_id is None

    @pytest.mark.parametrize("path", ["meta.key", "key"])
    def test_the_id_at_the_path_of_the_connection(self, path: str) -> None:
        found = [CreatedDocument(body, ONCE, id_field=path).document_id for body in ({"meta": {"key": 7}}, {"key": 7})]
        assert found == ["7" if path == "meta.key" else None, "7"]

    @pytest.mark.parametrize(
        "raw",
        [
            {"status": "completed", "message": "Request completed"},
            {"success": True, "message": "Anfrage bearbeitet"},
            {"message": "Done", "data": {"status": "completed", "request_id": "r"}},
            {"message": "Done", "data": {"result": {"state": "finished"}}},
            {"data": {"state": "complete", "message": "Finished in 3 s"}},
            {"code": 0, "message": "no answer was found", "answer": None},
            {"answer": "", "request": {"message": "When are refunds paid?"}},
        ],
    )
    def test_a_note_about_the_request_is_not_the_answer(self, raw: Any) -> None:
        assert ChatAnswer(raw, ONCE).text is None
        assert ChatRequest({"status": "completed", **raw}, ONCE, "r").text is None

    def test_a_message_without_a_note_about_the_request_is_the_answer(self) -> None:
        reply = {"request_id": "r", "session_id": "s", "message": "42"}
        for raw in (reply, {"status": "success", "code": 200, "message": "OK", "data": reply}):
            assert ChatAnswer(raw, ONCE).text == "42"

    @pytest.mark.parametrize("name", ["message", "text", "content", "answer"])
    def test_an_acknowledgement_is_not_the_answer(self, name: str) -> None:
        raw = {"status": "success", "message": "OK", "data": {"request_id": "r", name: "Paris"}}
        assert ChatAnswer(raw, ONCE).text == "Paris"

    @pytest.mark.parametrize("outer", ["message", "text", "content", "result"])
    @pytest.mark.parametrize("inner", ["answer", "reply", "response"])
    def test_an_envelope_is_not_the_answer(self, outer: str, inner: str) -> None:
        raw = {outer: "Your message was processed.", "data": {"status": "success", inner: "In five days."}}
        assert ChatAnswer(raw, ONCE).text == "In five days."

    @pytest.mark.parametrize("raw", [{"message": "OK"}, {"result": "Success", "message": ""}, {"response": "ok"}])
    def test_an_acknowledgement_is_the_answer_if_there_is_no_other(self, raw: Any) -> None:
        assert ChatAnswer(raw, ONCE).text == next(iter(raw.values()))

    def test_replies_are_plain_json_for_xcom(self) -> None:
        raw = {"status": "complete", "result": {"answer": "42"}}
        assert json.loads(json.dumps(ChatRequest(raw, ONCE, "r").as_dict()))["text"] == "42"


class TestStatusWords:
    def test_words_of_a_connection(self) -> None:
        words = StatusMapping().extended(complete=["Erledigt"], failed=["kaputt"])
        assert [words.state(word) for word in ("erledigt", "KAPUTT", "complete", "queued")] == [
            "complete",
            "failed",
            "complete",
            "pending",
        ]

    def test_a_word_can_move_to_the_other_set(self) -> None:
        words = StatusMapping().extended(complete=["error"])
        assert words.state("error") == "complete"


RESERVED = ["__classname__", "__version__", "__data__", "__id__", "__cache__", "__type", "__source", "__var"]


@pytest.mark.parametrize("name", RESERVED)
def test_airflow_passes_a_reply_on_whatever_its_names(name: str) -> None:
    raw = {"answer": "42", "facts": [{name: "builtins.tuple", "__version__": 1, "__var": [1], "n": 1}]}
    shown = ChatAnswer(raw, ONCE).as_dict()
    assert deserialize(serialize(shown)) == shown
    assert deserialize(serialize_arguments(shown)) == shown
    assert shown["raw"]["facts"][0][f"_{name}"] == raw["facts"][0][name]
    assert shown["raw"]["facts"][0]["n"] == 1


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, -(2**63), 2**64, -(2**63) - 1, 10**300])
def test_airflow_passes_on_integers_of_any_length(number: int) -> None:
    (shown,) = ChatAnswer([number], ONCE).as_dict()["raw"]
    assert shown == number if -(2**63) <= number < 2**64 else shown == str(number)


@pytest.mark.parametrize(
    ("raw", "level", "score"),
    [
        ({"answer": "42"}, None, None),
        ({"answer": "42", "confidence_level": "low"}, "low", None),
        ({"answer": "42", "confidence_score": 0.83}, None, 0.83),
        ({"answer": "42", "confidence_score": 1}, None, 1.0),
        ({"answer": "42", "confidence_score": 97.5, "confidence_level": " Medium "}, "Medium", 97.5),
        ({"answer": "42", "confidence_score": "0.41"}, None, 0.41),
        ({"answer": "42", "confidence_score": "unknown", "confidence_level": 3}, None, None),
        ({"answer": "42", "confidence_score": float("nan")}, None, None),
        ({"answer": "42", "confidence_score": "Infinity"}, None, None),
        ({"answer": "42", "confidence_score": 10**400}, None, None),
        ({"answer": "42", "confidence_score": True, "confidence_level": ["low"]}, None, None),
        ({"answer": "42", "confidence_score": None, "confidence": 0.5}, None, 0.5),
        ({"answer": "42", "confidence": "low"}, "low", None),
        ({"answer": "42", "confidence": {"level": "low", "score": 0.1}}, "low", 0.1),
        ({"confidence": 0.9, "data": {"answer": "42", "confidence_score": 0.2}}, None, 0.2),
        ({"data": {"result": {"answer": "42", "confidence_level": "low", "confidence_score": 0}}}, "low", 0.0),
        ({"confidence_level": "x" * 500, "answer": "42"}, "x" * 100, None),
    ],
)
def test_the_confidence(raw: Any, level: str | None, score: float | None) -> None:
    answer = ChatAnswer(raw, ONCE)
    assert (answer.confidence_level, answer.confidence_score) == (level, score)
    assert answer.as_dict().items() >= {"confidence_level": level, "confidence_score": score}.items()
    request = ChatRequest({"status": "complete", **raw}, ONCE, "r")
    assert request.as_dict().items() >= {"confidence_level": level, "confidence_score": score}.items()
    failed = ChatRequest({"status": "failed", **raw}, ONCE, "r")
    assert (failed.confidence_level, failed.confidence_score) == (None, None)
