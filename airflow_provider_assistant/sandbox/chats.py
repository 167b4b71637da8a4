"""The routes of chats, ratings and sessions."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Any

from airflow_provider_assistant.sandbox.answers import best_document, is_follow_up, passage, unknown
from airflow_provider_assistant.sandbox.documents import status_of
from airflow_provider_assistant.sandbox.messages import ApiError, Reply, json_reply
from airflow_provider_assistant.sandbox.routes import Call, route, time_text
from airflow_provider_assistant.sandbox.store import Chat, Document, Session

_PATH = "/m2m/sites/{site_id}/chat"
_FAILURE = "the assistant could not answer"
_LOW_CONFIDENCE = 0.5  # an answer with a lower score has the level "low"


@route("POST", _PATH)
def _chat(call: Call) -> Reply:
    ended = _end(call, _accept(call, "sync"))
    if ended.answer is None:
        raise ApiError(500, _FAILURE)
    confidence: dict[str, Any] = {"confidence_score": ended.score}
    if ended.score < _LOW_CONFIDENCE:
        confidence["confidence_level"] = "low"
    ids = {"session_id": ended.session_id, "request_id": ended.id}
    return json_reply({**ids, "answer": ended.answer, **confidence})


@route("POST", f"{_PATH}/async")
def _submit(call: Call) -> Reply:
    accepted = _accept(call, "async")
    ids = {"session_id": accepted.session_id, "request_id": accepted.id}
    return json_reply({**ids, "status": "queued"}, 202)


@route("GET", f"{_PATH}/requests/{{request_id}}")
def _get_request(call: Call) -> Reply:
    found = _request(call, call.item)
    reply = {"session_id": found.session_id, "request_id": found.id, "status": _status_of(call, found)}
    if found.answer is not None:
        reply["answer"] = found.answer
    elif found.ended_at is not None:
        reply["error"] = _FAILURE
    return json_reply(reply)


@route("POST", f"{_PATH}/feedback")
def _rate(call: Call) -> Reply:
    body = call.body("session_id", "request_id", "feedback")
    if body["feedback"] not in {"good", "bad"}:
        raise ApiError(400, "feedback must be 'good' or 'bad'")
    rated = _request(call, body["request_id"])
    if rated.session_id != body["session_id"]:
        raise ApiError(404, "request not found")
    if rated.answer is None:
        raise ApiError(400, "request is not completed")
    reply = {"status": "ok", "request_id": rated.id, "feedback": rated.rating or body["feedback"]}
    if rated.rating is None:
        call.store.save(replace(rated, rating=body["feedback"], rated_at=call.now))
        reply["feedback_submitted_at"] = time_text(call.now)
    return json_reply(reply)


@route("POST", f"{_PATH}/session/close")
def _close_session(call: Call) -> Reply:
    session = call.store.find(Session, call.scope, call.body("session_id")["session_id"])
    if session is not None and session.closed_at is None:
        call.store.save(replace(session, closed_at=call.now))
    return json_reply({"status": "ok"})


def _accept(call: Call, mode: str) -> Chat:
    """Store a message, and open its session if there is none."""
    body = call.body("session_id", "message")
    session = call.store.find(Session, call.scope, body["session_id"])
    if session is None:
        call.store.save(Session(body["session_id"], call.scope, call.now))
    elif session.closed_at is not None:
        raise ApiError(409, "session is closed")
    accepted = Chat(
        id=f"req_{secrets.token_hex(16)}",
        site=call.scope,
        session_id=body["session_id"],
        mode=mode,
        message=body["message"],
        email=body.get("email"),
        language=body.get("response_language"),
        created_at=call.now,
    )
    return call.store.save(accepted)


def _request(call: Call, identifier: str) -> Chat:
    found = call.store.find(Chat, call.scope, identifier)
    if found is None:
        raise ApiError(404, "request not found")
    return ended_if_due(call, found)


def ended_if_due(call: Call, request: Chat) -> Chat:
    """Return a chat request, which ends when its time is over."""
    if request.ended_at is None and call.now >= request.created_at + call.settings.processing_seconds:
        return _end(call, request)
    return request


def _end(call: Call, request: Chat) -> Chat:
    """Answer a chat request, or let it fail."""
    pattern = call.settings.fail_messages
    if pattern and re.search(pattern, request.message):
        return call.store.save(replace(request, ended_at=call.now))
    in_use = [one for one in call.store.all(Document, request.site) if status_of(call, one) == "active"]
    best, score = best_document(request.message, in_use)
    if best is None and is_follow_up(request.message):
        chats = call.store.all(Chat, request.site)
        conversation = [one.message for one in chats if one.session_id == request.session_id]
        best, score = best_document(" ".join(conversation), in_use)
    answer = passage(best, request.message) if best else unknown(request.language)
    answer = answer[: call.settings.answer_limit]
    document = best.id if best else None
    return call.store.save(replace(request, ended_at=call.now, answer=answer, document=document, score=score))


def _status_of(call: Call, request: Chat) -> str:
    if request.ended_at is not None:
        return "failed" if request.answer is None else "completed"
    half = call.settings.processing_seconds / 2
    return "queued" if call.now < request.created_at + half else "processing"
