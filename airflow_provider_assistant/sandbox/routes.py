"""The ten endpoints of the API. Their response models are also what the OpenAPI document says."""

import json
import sqlite3
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.files import read_file
from airflow_provider_assistant.sandbox.history import site_history
from airflow_provider_assistant.sandbox.requests import Embedded, authorize, read_body, read_upload
from airflow_provider_assistant.sandbox.schemas import FILE_BODY, json_body
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.statistics import site_statistics
from airflow_provider_assistant.sandbox.tenants import DEFAULT_SITE, DEFAULT_TENANT, Key
from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso

TenantId = Annotated[str, Path(description="The workspace.", examples=[DEFAULT_TENANT])]
SiteId = Annotated[str, Path(description="The website or chatbot.", examples=[DEFAULT_SITE])]
RequestId = Annotated[str, Path(description="An asynchronous chat request.")]
_DEFAULT_LANGUAGE = "en"


def _refusal(reason: str, **headers: Any) -> dict[str, Any]:
    return {"model": schemas.ErrorReply, "description": reason, **headers}


_RETRY_AFTER = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}
_READ_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: _refusal("API key missing or wrong"),
    404: _refusal("Not found, or not owned by the key"),
    429: _refusal("Too many requests, or a quota used up", headers={"Retry-After": _RETRY_AFTER}),
}
_WRITE_REFUSALS: dict[int | str, dict[str, Any]] = {
    **_READ_REFUSALS,
    400: _refusal("Malformed payload or request structure"),
    403: _refusal("The key's plan or access does not permit the call"),
}
reads = APIRouter(prefix="/m2m", responses=_READ_REFUSALS)
writes = APIRouter(prefix="/m2m/sites/{site_id}", responses=_WRITE_REFUSALS)


@reads.get("/tenants/{tenant_id}/limits")
async def get_limits(
    request: Request,
    tenant_id: TenantId,
    service: Embedded,
) -> schemas.LimitsReply:
    """Read the tenant's limits."""
    key = authorize(request, tenant=tenant_id, write=False)
    return service.quotas.report(key, service.clock())


@reads.get(
    "/sites/{site_id}/statistics",
    response_model=schemas.StatisticsReply,
    response_model_exclude_unset=True,
)
async def get_statistics(request: Request, site_id: SiteId, service: Embedded) -> dict[str, Any]:
    """Read the site's statistics."""
    authorize(request, site=site_id, write=False)
    now = service.clock()
    reply = site_statistics(service.database, site_id, now)
    if service.settings.history:
        reply["daily"] = site_history(service.database, site_id, service.settings, now)
    return reply


async def _stored(
    service: Service,
    key: Key,
    site: str,
    kind: schemas.Kind,
    **document: Any,
) -> schemas.DocumentReply:
    service.quotas.check_documents(key)
    reply = service.documents.add(key, site, kind, now=service.clock(), **document)
    await service.database.settled()
    return reply


@writes.post("/documents", status_code=201, openapi_extra=FILE_BODY)
async def upload_document(
    request: Request,
    site_id: SiteId,
    service: Embedded,
) -> schemas.DocumentReply:
    """Create a document from a file."""
    key = authorize(request, site=site_id)
    filename, content = await read_upload(request)
    title, text = read_file(filename, content)
    size = len(content)
    return await _stored(service, key, site_id, "file", title=title, content=text, size=size)


@writes.post("/documents/text", status_code=201, openapi_extra=json_body(schemas.TextDocument))
async def create_text_document(
    request: Request,
    site_id: SiteId,
    service: Embedded,
) -> schemas.DocumentReply:
    """Create a document from a text."""
    key = authorize(request, site=site_id)
    body = await read_body(request, schemas.TextDocument)
    size = len(body.content.encode())
    return await _stored(service, key, site_id, "text", size=size, **dict(body))


@writes.post("/documents/qa", status_code=201, openapi_extra=json_body(schemas.QaDocument))
async def create_qa_document(
    request: Request,
    site_id: SiteId,
    service: Embedded,
) -> schemas.DocumentReply:
    """Create a document from a question and its answer."""
    key = authorize(request, site=site_id)
    body = await read_body(request, schemas.QaDocument)
    return await _stored(
        service,
        key,
        site_id,
        "qa",
        title=body.title,
        question=body.question,
        content=body.answer,
        category=body.category,
        size=len(body.question.encode()) + len(body.answer.encode()),
    )


def _existing(service: Service, site: str, request_id: str) -> sqlite3.Row:
    row = service.chats.request(site, request_id)
    if row is None:
        message = "There is no such chat request."
        raise ApiError(404, message, code="request_not_found", field="request_id")
    return row


def _accept(
    service: Service,
    key: Key,
    site: str,
    mode: str,
    body: schemas.ChatMessage,
) -> sqlite3.Row:
    """Store a message as a chat request, and return the request."""
    now = service.clock()
    service.quotas.check_messages(key, now)
    language = body.response_language or _DEFAULT_LANGUAGE
    chats = service.chats
    request_id = chats.add(key, site, body.session_id, mode, body.message, language, now)
    return _existing(service, site, request_id)


def _result(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "answer": row["answer"],
        "answered": bool(row["answered"]),
        "sources": json.loads(row["sources"]),
        "response_language": row["language"],
    }


@writes.post(
    "/chat",
    responses={500: _refusal("The assistant failed")},
    openapi_extra=json_body(schemas.ChatMessage),
)
async def chat(request: Request, site_id: SiteId, service: Embedded) -> schemas.ChatReply:
    """Ask and wait for the answer."""
    key = authorize(request, site=site_id)
    body = await read_body(request, schemas.ChatMessage)
    accepted = _accept(service, key, site_id, "sync", body)
    service.assistant.finish(accepted)
    row = _existing(service, site_id, accepted["id"])
    await service.database.settled()
    if row["error"]:
        raise ApiError(500, **json.loads(row["error"]))
    return schemas.ChatReply(
        request_id=row["id"],
        session_id=body.session_id,
        created_at=iso(row["created_at"]),
        **_result(row),
    )


@writes.post("/chat/async", status_code=202, openapi_extra=json_body(schemas.ChatMessage))
async def submit_chat(request: Request, site_id: SiteId, service: Embedded) -> schemas.AsyncReply:
    """Ask without waiting for the answer."""
    key = authorize(request, site=site_id, async_chat=True)
    body = await read_body(request, schemas.ChatMessage)
    row = _accept(service, key, site_id, "async", body)
    await service.database.settled()
    service.worker.submitted()
    return schemas.AsyncReply(
        request_id=row["id"],
        session_id=body.session_id,
        status=service.faults.shown("queued"),
        created_at=iso(row["created_at"]),
    )


@reads.get("/sites/{site_id}/chat/requests/{request_id}")
async def get_chat_request(
    request: Request, site_id: SiteId, request_id: RequestId, service: Embedded
) -> schemas.StatusReply:
    """Read the status of a chat request and, once it is complete, its result."""
    authorize(request, site=site_id, write=False)
    row = _existing(service, site_id, request_id)
    return schemas.StatusReply(
        request_id=request_id,
        session_id=row["session_id"],
        status=service.faults.shown(row["status"]),
        created_at=iso(row["created_at"]),
        started_at=maybe_iso(row["started_at"]),
        completed_at=maybe_iso(row["completed_at"]),
        result=_result(row) if row["status"] == "complete" else None,
        error=json.loads(row["error"]) if row["error"] else None,
    )


@writes.post("/chat/feedback", status_code=201, openapi_extra=json_body(schemas.Feedback))
async def send_feedback(
    request: Request,
    site_id: SiteId,
    service: Embedded,
) -> schemas.FeedbackReply:
    """Rate the answer to a chat request."""
    authorize(request, site=site_id)
    body = await read_body(request, schemas.Feedback)
    row = _existing(service, site_id, body.request_id)
    if row["session_id"] != body.session_id:
        message = "The chat request belongs to another session."
        raise ApiError(400, message, code="session_mismatch", field="session_id")
    now = service.clock()
    service.chats.rate(site_id, body.request_id, body.session_id, body.feedback, now)
    await service.database.settled()
    return schemas.FeedbackReply(status="recorded", created_at=iso(now), **dict(body))


@writes.post("/chat/session/close", status_code=204, openapi_extra=json_body(schemas.SessionToClose))
async def close_session(request: Request, site_id: SiteId, service: Embedded) -> None:
    """Close a conversation."""
    authorize(request, site=site_id)
    body = await read_body(request, schemas.SessionToClose)
    if not service.chats.close_session(site_id, body.session_id, service.clock()):
        message = "There is no such open session."
        raise ApiError(404, message, code="session_not_found", field="session_id")
    await service.database.settled()
