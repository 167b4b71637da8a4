"""The ten endpoints of the API. Their response models are also what the OpenAPI document says."""

import json
import sqlite3
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.files import read_file
from airflow_provider_assistant.sandbox.history import site_history
from airflow_provider_assistant.sandbox.middleware import KEY
from airflow_provider_assistant.sandbox.refusals import READ_REFUSALS, WRITE_REFUSALS, refusal
from airflow_provider_assistant.sandbox.requests import (
    Caller,
    Embedded,
    SiteCaller,
    read_body,
    read_upload,
)
from airflow_provider_assistant.sandbox.schemas import FILE_BODY, json_body
from airflow_provider_assistant.sandbox.statistics import site_statistics
from airflow_provider_assistant.sandbox.tenants import DEFAULT_TENANT, Key
from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

TenantId = Annotated[str, Path(description="The workspace.", examples=[DEFAULT_TENANT])]
RequestId = Annotated[str, Path(description="An asynchronous chat request.")]
_DEFAULT_LANGUAGE = "en"


reads = APIRouter(prefix="/m2m", responses=READ_REFUSALS)
writes = APIRouter(prefix="/m2m/sites/{site_id}", responses=WRITE_REFUSALS)


@reads.get("/tenants/{tenant_id}/limits")
async def get_limits(
    request: Request,
    service: Embedded,
    tenant_id: TenantId,
) -> schemas.LimitsReply:
    """Read the tenant's limits."""
    key: Key = request.scope[KEY]
    if tenant_id != key.tenant.tenant_id:
        raise ApiError(404, "There is no such tenant.", code="tenant_not_found", field="tenant_id")
    return service.quotas.report(key, service.clock())


@reads.get(
    "/sites/{site_id}/statistics",
    response_model=schemas.StatisticsReply,
    response_model_exclude_unset=True,
)
async def get_statistics(caller: SiteCaller) -> dict[str, Any]:
    """Read the site's statistics."""
    service = caller.service
    now = service.clock()
    reply = site_statistics(service.database, caller.site, now)
    if service.settings.history:
        reply["daily"] = site_history(service.database, caller.site, service.settings, now)
    return reply


async def _store_document(
    caller: Caller,
    kind: schemas.Kind,
    **document: Any,
) -> schemas.DocumentReply:
    service = caller.service
    service.quotas.check_documents(caller.key)
    reply = service.documents.add(
        caller.key,
        caller.site,
        kind,
        now=service.clock(),
        **document,
    )
    await service.database.settled()
    return reply


@writes.post("/documents", status_code=201, openapi_extra=FILE_BODY)
async def upload_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a file."""
    filename, content = await read_upload(request)
    title, text = read_file(filename, content)
    return await _store_document(caller, "file", title=title, content=text, size=len(content))


@writes.post("/documents/text", status_code=201, openapi_extra=json_body(schemas.TextDocument))
async def create_text_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a text."""
    body = await read_body(request, schemas.TextDocument)
    size = len(body.content.encode())
    return await _store_document(caller, "text", size=size, **dict(body))


@writes.post("/documents/qa", status_code=201, openapi_extra=json_body(schemas.QaDocument))
async def create_qa_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a question and its answer."""
    body = await read_body(request, schemas.QaDocument)
    return await _store_document(
        caller,
        "qa",
        title=body.title,
        question=body.question,
        content=body.answer,
        category=body.category,
        size=len(body.question.encode()) + len(body.answer.encode()),
    )


def _existing_request(caller: Caller, request_id: str) -> sqlite3.Row:
    row = caller.service.chats.request(caller.site, request_id)
    if row is None:
        message = "There is no such chat request."
        raise ApiError(404, message, code="request_not_found", field="request_id")
    return row


def _accept(caller: Caller, mode: str, body: schemas.ChatMessage) -> sqlite3.Row:
    """Store a message as a chat request, and return the request."""
    service = caller.service
    now = service.clock()
    service.quotas.check_messages(caller.key, now)
    request_id = service.chats.add(
        key=caller.key,
        site=caller.site,
        session_id=body.session_id,
        mode=mode,
        message=body.message,
        language=body.response_language or _DEFAULT_LANGUAGE,
        now=now,
    )
    return _existing_request(caller, request_id)


def _chat_result(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "answer": row["answer"],
        "answered": bool(row["answered"]),
        "sources": json.loads(row["sources"]),
        "response_language": row["language"],
    }


@writes.post(
    "/chat",
    responses={500: refusal("The assistant failed")},
    openapi_extra=json_body(schemas.ChatMessage),
)
async def chat(caller: SiteCaller, request: Request) -> schemas.ChatReply:
    """Ask and wait for the answer."""
    body = await read_body(request, schemas.ChatMessage)
    accepted = _accept(caller, "sync", body)
    caller.service.assistant.finish(accepted)
    row = _existing_request(caller, accepted["id"])
    await caller.service.database.settled()
    if row["error"]:
        raise ApiError(500, **json.loads(row["error"]))
    return schemas.ChatReply(
        request_id=row["id"],
        session_id=row["session_id"],
        created_at=iso(row["created_at"]),
        **_chat_result(row),
    )


@writes.post("/chat/async", status_code=202, openapi_extra=json_body(schemas.ChatMessage))
async def submit_chat(caller: SiteCaller, request: Request) -> schemas.AsyncReply:
    """Ask without waiting for the answer."""
    service = caller.service
    plan = caller.key.plan
    if not plan.async_chat:
        message = f"Asynchronous chat is not part of the plan {plan.name}."
        raise ApiError(403, message, code="plan_lacks_async_chat")
    body = await read_body(request, schemas.ChatMessage)
    row = _accept(caller, "async", body)
    await service.database.settled()
    service.worker.submitted()
    return schemas.AsyncReply(
        request_id=row["id"],
        session_id=row["session_id"],
        status=service.faults.shown("queued"),
        created_at=iso(row["created_at"]),
    )


@reads.get("/sites/{site_id}/chat/requests/{request_id}")
async def get_chat_request(caller: SiteCaller, request_id: RequestId) -> schemas.StatusReply:
    """Read the status of a chat request and, once it is complete, its result."""
    row = _existing_request(caller, request_id)
    result = None
    if row["status"] == "complete":
        result = _chat_result(row)
    error = None
    if row["error"]:
        error = json.loads(row["error"])
    return schemas.StatusReply(
        request_id=row["id"],
        session_id=row["session_id"],
        status=caller.service.faults.shown(row["status"]),
        created_at=iso(row["created_at"]),
        started_at=maybe_iso(row["started_at"]),
        completed_at=maybe_iso(row["completed_at"]),
        result=result,
        error=error,
    )


@writes.post("/chat/feedback", status_code=201, openapi_extra=json_body(schemas.Feedback))
async def send_feedback(caller: SiteCaller, request: Request) -> schemas.FeedbackReply:
    """Rate the answer to a chat request."""
    body = await read_body(request, schemas.Feedback)
    rated_request = _existing_request(caller, body.request_id)
    if rated_request["session_id"] != body.session_id:
        message = "The chat request belongs to another session."
        raise ApiError(400, message, code="session_mismatch", field="session_id")
    service = caller.service
    now = service.clock()
    service.chats.rate(
        site=caller.site,
        request_id=body.request_id,
        session_id=body.session_id,
        rating=body.feedback,
        now=now,
    )
    await service.database.settled()
    return schemas.FeedbackReply(status="recorded", created_at=iso(now), **dict(body))


@writes.post(
    "/chat/session/close",
    status_code=204,
    openapi_extra=json_body(schemas.SessionToClose),
)
async def close_session(caller: SiteCaller, request: Request) -> None:
    """Close a conversation; nothing changes if it is closed already."""
    body = await read_body(request, schemas.SessionToClose)
    service = caller.service
    service.chats.close_session(caller.site, body.session_id, service.clock())
    await service.database.settled()
