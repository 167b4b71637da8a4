"""The endpoints that load documents."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.dependencies import SiteId, authorize, read_body, read_upload, refusals
from airflow_provider_assistant.sandbox.files import read_file
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.tenants import Key


def document_routes(service: Service) -> APIRouter:
    """Return the endpoints that load documents.

    :param service: components of the sandbox.
    """
    router = APIRouter()

    async def store_document(
        key: Key, site: str, kind: str, *, title: str, content: str, size: int, **more: str | None
    ) -> Response:
        service.quotas.check_documents(key, service.settings)
        record = service.documents.add(
            key,
            site,
            kind,
            title=title,
            content=content,
            size=size,
            now=service.clock(),
            **more,
        )
        await service.database.settled()
        return JSONResponse(record, 201)

    @router.post(
        "/m2m/sites/{site_id}/documents",
        status_code=201,
        response_model=schemas.DocumentReply,
        responses=refusals(400, 403),
        openapi_extra=schemas.FILE_BODY,
    )
    async def upload_document(request: Request, site_id: SiteId) -> Response:
        """Create a document from a file."""
        key = authorize(request, site=site_id)
        filename, content = await read_upload(request)
        title, text = read_file(filename, content)
        return await store_document(key, site_id, "file", title=title, content=text, size=len(content))

    @router.post(
        "/m2m/sites/{site_id}/documents/text",
        status_code=201,
        response_model=schemas.DocumentReply,
        responses=refusals(400, 403),
        openapi_extra=schemas.json_body(schemas.TextDocument),
    )
    async def create_text_document(request: Request, site_id: SiteId) -> Response:
        """Create a document from a text."""
        key = authorize(request, site=site_id)
        body = await read_body(request, schemas.TextDocument)
        return await store_document(
            key,
            site_id,
            "text",
            title=body.title,
            content=body.content,
            category=body.category,
            size=len(body.content.encode()),
        )

    @router.post(
        "/m2m/sites/{site_id}/documents/qa",
        status_code=201,
        response_model=schemas.DocumentReply,
        responses=refusals(400, 403),
        openapi_extra=schemas.json_body(schemas.QaDocument),
    )
    async def create_qa_document(request: Request, site_id: SiteId) -> Response:
        """Create a document from a question and its answer."""
        key = authorize(request, site=site_id)
        body = await read_body(request, schemas.QaDocument)
        return await store_document(
            key,
            site_id,
            "qa",
            title=body.title,
            content=body.answer,
            question=body.question,
            category=body.category,
            size=len(body.question.encode()) + len(body.answer.encode()),
        )

    return router
