"""The endpoints for limits, statistics and new documents.

Their response models are also what the OpenAPI document says.
"""

from collections.abc import Mapping
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

TenantId = Annotated[str, Path(description="The workspace.", examples=[DEFAULT_TENANT])]


reads = APIRouter(prefix="/m2m", responses=READ_REFUSALS)
writes = APIRouter(
    prefix="/m2m/sites/{site_id}/documents",
    responses={**WRITE_REFUSALS, 409: refusal("There is such a document")},
)


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


def _check_duplicate(caller: Caller, document: Mapping[str, Any]) -> None:
    """Refuse a document with the title and the content of an existing one."""
    existing_id = caller.service.documents.find_same(
        caller.site,
        title=document["title"],
        question=document.get("question"),
        content=document["content"],
    )
    if existing_id is not None:
        raise ApiError(
            409,
            "There is a document with this title and content.",
            code="duplicate_document",
            document_id=existing_id,
        )


async def _store_document(
    caller: Caller,
    kind: schemas.Kind,
    **document: Any,
) -> schemas.DocumentReply:
    service = caller.service
    if service.settings.duplicate_documents == "reject":
        _check_duplicate(caller, document)
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


@writes.post("", status_code=201, openapi_extra=FILE_BODY)
async def upload_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a file."""
    filename, content = await read_upload(request)
    title, text = read_file(filename, content)
    return await _store_document(caller, "file", title=title, content=text, size=len(content))


@writes.post("/text", status_code=201, openapi_extra=json_body(schemas.TextDocument))
async def create_text_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a text."""
    body = await read_body(request, schemas.TextDocument)
    size = len(body.content.encode())
    return await _store_document(caller, "text", size=size, **dict(body))


@writes.post("/qa", status_code=201, openapi_extra=json_body(schemas.QaDocument))
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
