"""The endpoints of feedback and of the end of a session."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.dependencies import (
    SiteId,
    authorize,
    existing,
    read_body,
    refusals,
)
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.timestamps import iso


def session_routes(service: Service) -> APIRouter:
    """Return the endpoints of feedback and of the end of a session.

    :param service: components of the sandbox.
    """
    router = APIRouter()
    settled = service.database.settled

    @router.post(
        "/m2m/sites/{site_id}/chat/feedback",
        status_code=201,
        response_model=schemas.FeedbackReply,
        responses=refusals(400, 403),
        openapi_extra=schemas.json_body(schemas.Feedback),
    )
    async def send_feedback(request: Request, site_id: SiteId) -> Response:
        """Rate the answer to a chat request."""
        authorize(request, site=site_id)
        body = await read_body(request, schemas.Feedback)
        row = existing(service, site_id, body.request_id)
        if row["session_id"] != body.session_id:
            message = "The chat request belongs to another session."
            raise ApiError(400, message, code="session_mismatch", field="session_id")
        now = service.clock()
        service.chats.rate(site_id, body.request_id, body.session_id, body.feedback, now)
        await settled()
        return JSONResponse(
            {
                "status": "recorded",
                "request_id": body.request_id,
                "session_id": body.session_id,
                "feedback": body.feedback,
                "created_at": iso(now),
            },
            201,
        )

    @router.post(
        "/m2m/sites/{site_id}/chat/session/close",
        status_code=204,
        responses=refusals(400, 403),
        openapi_extra=schemas.json_body(schemas.SessionToClose),
    )
    async def close_session(request: Request, site_id: SiteId) -> Response:
        """Close a conversation."""
        authorize(request, site=site_id)
        body = await read_body(request, schemas.SessionToClose)
        if not service.chats.close_session(site_id, body.session_id, service.clock()):
            message = "There is no such open session."
            raise ApiError(404, message, code="session_not_found", field="session_id")
        await settled()
        return Response(status_code=204)

    return router
