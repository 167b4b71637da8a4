"""The endpoints of chat."""

import json

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.dependencies import (
    RequestId,
    SiteId,
    authorize,
    existing,
    read_body,
    refusals,
)
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.tenants import Key
from airflow_provider_assistant.sandbox.timestamps import iso, maybe_iso
from airflow_provider_assistant.sandbox.worker import FAILURE

_DEFAULT_LANGUAGE = "en"


def chat_routes(service: Service) -> APIRouter:
    """Return the endpoints of chat.

    :param service: components of the sandbox.
    """
    router = APIRouter()
    settled = service.database.settled

    def accept(key: Key, site: str, mode: str, body: schemas.ChatMessage, now: float) -> str:
        service.quotas.check_messages(key, service.settings, now)
        language = body.response_language or _DEFAULT_LANGUAGE
        return service.chats.add(key, site, body.session_id, mode, body.message, language, now)

    @router.post(
        "/m2m/sites/{site_id}/chat",
        response_model=schemas.ChatReply,
        responses=refusals(400, 403, 500),
        openapi_extra=schemas.json_body(schemas.ChatMessage),
    )
    async def chat(request: Request, site_id: SiteId) -> Response:
        """Ask and wait for the answer."""
        key = authorize(request, site=site_id)
        body = await read_body(request, schemas.ChatMessage)
        created_at = service.clock()
        request_id = accept(key, site_id, "sync", body, created_at)
        if service.faults.fails(body.message):
            service.chats.fail(request_id, FAILURE, service.clock())
            await settled()
            raise ApiError(500, FAILURE["message"], code=FAILURE["code"])
        language = body.response_language or _DEFAULT_LANGUAGE
        answer = service.assistant.reply(
            site_id, body.session_id, body.message, language, service.settings.min_relevance
        )
        answered, text = bool(answer.sources), service.faults.cut(answer.text)
        service.chats.complete(request_id, text, answer.sources, answered=answered, now=service.clock())
        await settled()
        return JSONResponse(
            {
                "request_id": request_id,
                "session_id": body.session_id,
                "answer": text,
                "answered": answered,
                "sources": answer.sources,
                "response_language": language,
                "created_at": iso(created_at),
            }
        )

    @router.post(
        "/m2m/sites/{site_id}/chat/async",
        status_code=202,
        response_model=schemas.AsyncReply,
        responses=refusals(400, 403),
        openapi_extra=schemas.json_body(schemas.ChatMessage),
    )
    async def submit_chat(request: Request, site_id: SiteId) -> Response:
        """Ask without waiting for the answer."""
        key = authorize(request, site=site_id, async_chat=True)
        body = await read_body(request, schemas.ChatMessage)
        created_at = service.clock()
        request_id = accept(key, site_id, "async", body, created_at)
        await settled()
        service.worker.submitted()
        return JSONResponse(
            {
                "request_id": request_id,
                "session_id": body.session_id,
                "status": service.faults.shown("queued"),
                "created_at": iso(created_at),
            },
            202,
        )

    @router.get(
        "/m2m/sites/{site_id}/chat/requests/{request_id}",
        response_model=schemas.StatusReply,
        responses=refusals(),
    )
    async def get_chat_request(request: Request, site_id: SiteId, request_id: RequestId) -> Response:
        """Read the status of a chat request and, once it is complete, its result."""
        authorize(request, site=site_id, write=False)
        row = existing(service, site_id, request_id)
        result = None
        if row["status"] == "complete":
            result = {
                "answer": row["answer"],
                "answered": bool(row["answered"]),
                "sources": json.loads(row["sources"]),
                "response_language": row["language"],
            }
        return JSONResponse(
            {
                "request_id": request_id,
                "session_id": row["session_id"],
                "status": service.faults.shown(row["status"]),
                "created_at": iso(row["created_at"]),
                "started_at": maybe_iso(row["started_at"]),
                "completed_at": maybe_iso(row["completed_at"]),
                "result": result,
                "error": json.loads(row["error"]) if row["error"] else None,
            }
        )

    return router
