"""The endpoints for chats, feedback and sessions."""

import asyncio
import json
import sqlite3
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import JSONResponse

from airflow_provider_assistant.sandbox import bodies, schemas
from airflow_provider_assistant.sandbox.bodies import json_body
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.refusals import WRITE_REFUSALS, refusal
from airflow_provider_assistant.sandbox.requests import Caller, SiteCaller, read_body
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

RequestId = Annotated[str, Path(description="An asynchronous chat request.")]
_DEFAULT_LANGUAGE = "en"
# Below this score of the best document, an answer has the confidence level "low".
_LOW_CONFIDENCE = 0.5
_CLOSED_SESSION: dict[int | str, dict[str, Any]] = {409: refusal("The session is closed")}

router = APIRouter(prefix="/m2m/sites/{site_id}/chat", responses=WRITE_REFUSALS)


def _existing_request(caller: Caller, request_id: str) -> sqlite3.Row:
    row = caller.service.chats.request(caller.site, request_id)
    if row is None:
        message = "There is no such chat request."
        raise ApiError(404, message, code="request_not_found", field="request_id")
    return row


def _accept(caller: Caller, mode: str, body: bodies.ChatMessage) -> sqlite3.Row:
    """Store a message as a chat request, and return the request."""
    service = caller.service
    now = service.clock()
    is_refused = service.settings.closed_sessions == "refuse"
    if is_refused and service.chats.is_closed(caller.site, body.session_id):
        message = "The session is closed."
        raise ApiError(409, message, code="session_closed", field="session_id")
    service.quotas.check_messages(caller.key, now)
    request_id = service.chats.add(
        key=caller.key,
        site=caller.site,
        session_id=body.session_id,
        mode=mode,
        message=body.message,
        language=body.response_language or _DEFAULT_LANGUAGE,
        email=body.email,
        now=now,
    )
    return _existing_request(caller, request_id)


def _result(row: sqlite3.Row, settings: Settings) -> dict[str, Any]:
    sources = json.loads(row["sources"])
    result = {"answer": row["answer"]}
    if not settings.documented:
        result["answered"] = bool(row["answered"])
        result["sources"] = sources
        result["response_language"] = row["language"]
    if settings.confidence:
        score = sources[0]["score"] if sources else 0.0
        result["confidence_score"] = score
        if score < _LOW_CONFIDENCE:
            result["confidence_level"] = "low"
    return result


@router.post(
    "",
    response_model=schemas.ChatReply,
    response_model_exclude_unset=True,
    responses={**_CLOSED_SESSION, 500: refusal("The assistant failed")},
    openapi_extra=json_body(bodies.ChatMessage),
)
async def chat(caller: SiteCaller, request: Request) -> dict[str, Any]:
    """Ask and wait for the answer."""
    body = await read_body(request, bodies.ChatMessage)
    service = caller.service
    settings = service.settings
    accepted = _accept(caller, "sync", body)
    # The answer is stored first: a client that does not wait for it does not prevent it.
    service.assistant.finish(accepted, settings.sync_seconds)
    row = _existing_request(caller, accepted["id"])
    await service.database.settled()
    await asyncio.sleep(settings.sync_seconds)
    if row["error"]:
        raise ApiError(500, **json.loads(row["error"]))
    reply = {
        "request_id": row["id"],
        "session_id": row["session_id"],
        **_result(row, settings),
    }
    if settings.request_times:
        reply["created_at"] = iso(row["created_at"])
    return reply


@router.post(
    "/async",
    status_code=202,
    response_model=schemas.AsyncReply,
    response_model_exclude_unset=True,
    responses=_CLOSED_SESSION,
    openapi_extra=json_body(bodies.ChatMessage),
)
async def submit_chat(caller: SiteCaller, request: Request) -> dict[str, Any]:
    """Ask without waiting for the answer."""
    service = caller.service
    plan = caller.key.plan
    if not plan.async_chat:
        message = f"Asynchronous chat is not part of the plan {plan.name}."
        raise ApiError(403, message, code="plan_lacks_async_chat")
    body = await read_body(request, bodies.ChatMessage)
    row = _accept(caller, "async", body)
    await service.database.settled()
    service.worker.submitted()
    reply = {
        "request_id": row["id"],
        "session_id": row["session_id"],
        "status": service.faults.shown("queued"),
    }
    if service.settings.request_times:
        reply["created_at"] = iso(row["created_at"])
    return reply


@router.get(
    "/requests/{request_id}",
    response_model=schemas.StatusReply,
    response_model_exclude_unset=True,
)
async def get_chat_request(caller: SiteCaller, request_id: RequestId) -> dict[str, Any]:
    """Read the status of a chat request and, once it is complete, its result."""
    row = _existing_request(caller, request_id)
    settings = caller.service.settings
    error = json.loads(row["error"]) if row["error"] else None
    reply = {
        "request_id": row["id"],
        "session_id": row["session_id"],
        "status": caller.service.faults.shown(row["status"]),
    }
    if settings.request_times:
        reply["created_at"] = iso(row["created_at"])
        reply["started_at"] = maybe_iso(row["started_at"])
        reply["completed_at"] = maybe_iso(row["completed_at"])
        reply["result"] = _result(row, settings) if row["status"] == "complete" else None
        reply["error"] = error
        return reply
    if row["status"] == "complete":
        reply["answer"] = row["answer"]
    if error is not None:
        reply["error"] = error["message"]
    return reply


@router.post(
    "/feedback",
    status_code=201,
    response_model=schemas.FeedbackReply,
    response_model_exclude_unset=True,
    responses={200: {"model": schemas.FeedbackReply, "description": "With the setting documented"}},
    openapi_extra=json_body(bodies.Feedback),
)
async def send_feedback(caller: SiteCaller, request: Request, response: Response) -> dict[str, Any]:
    """Rate the answer to a chat request."""
    body = await read_body(request, bodies.Feedback)
    service = caller.service
    _check_word(body.feedback, service.settings)
    rated_request = _existing_request(caller, body.request_id)
    if rated_request["session_id"] != body.session_id:
        message = "The chat request belongs to another session."
        raise ApiError(400, message, code="session_mismatch", field="session_id")
    now = service.clock()
    if not service.settings.documented:
        await _rate(caller, body, now)
        return {"status": "recorded", "created_at": iso(now), **dict(body)}
    response.status_code = 200
    if rated_request["status"] != "complete":
        message = "The chat request is not completed."
        raise ApiError(400, message, code="request_not_completed", field="request_id")
    first_rating = service.chats.rating(caller.site, body.request_id)
    reply = {"status": "ok", "request_id": body.request_id, "feedback": first_rating}
    # A second rating does not replace the first one.
    if first_rating is None:
        await _rate(caller, body, now)
        reply["feedback"] = body.feedback
        reply["feedback_submitted_at"] = iso(now)
    return reply


def _check_word(feedback: str, settings: Settings) -> None:
    if settings.feedback_words is None:
        return
    words = [word.strip() for word in settings.feedback_words.split(",")]
    if feedback not in words:
        message = "feedback must be " + " or ".join(f"'{word}'" for word in words)
        raise ApiError(400, message, code="invalid_field", field="feedback")


async def _rate(caller: Caller, body: bodies.Feedback, now: float) -> None:
    caller.service.chats.rate(
        site=caller.site,
        request_id=body.request_id,
        session_id=body.session_id,
        rating=body.feedback,
        now=now,
    )
    await caller.service.database.settled()


@router.post(
    "/session/close",
    status_code=204,
    responses={200: {"model": schemas.ClosedReply, "description": "With the setting documented"}},
    openapi_extra=json_body(bodies.SessionToClose),
)
async def close_session(caller: SiteCaller, request: Request) -> Response:
    """Close a conversation; nothing changes if it is closed already."""
    body = await read_body(request, bodies.SessionToClose)
    service = caller.service
    service.chats.close_session(caller.site, body.session_id, service.clock())
    await service.database.settled()
    if service.settings.documented:
        return JSONResponse({"status": "ok"})
    return Response(status_code=204)
