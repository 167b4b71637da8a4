"""The routes that create documents."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from airflow_provider_assistant.sandbox import bodies, schemas
from airflow_provider_assistant.sandbox.bodies import FILE_BODY, json_body
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.files import read_file
from airflow_provider_assistant.sandbox.refusals import WRITE_REFUSALS, refusal
from airflow_provider_assistant.sandbox.requests import (
    Caller,
    SiteCaller,
    read_body,
    read_upload,
)

router = APIRouter(
    prefix="/m2m/sites/{site_id}/documents",
    responses={**WRITE_REFUSALS, 409: refusal("There is such a document")},
)


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


@router.post("", status_code=201, openapi_extra=FILE_BODY)
async def upload_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a file."""
    filename, content = await read_upload(request)
    title, text = read_file(filename, content)
    return await _store_document(caller, "file", title=title, content=text, size=len(content))


@router.post("/text", status_code=201, openapi_extra=json_body(bodies.TextDocument))
async def create_text_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a text."""
    body = await read_body(request, bodies.TextDocument)
    size = len(body.content.encode())
    return await _store_document(caller, "text", size=size, **dict(body))


@router.post("/qa", status_code=201, openapi_extra=json_body(bodies.QaDocument))
async def create_qa_document(caller: SiteCaller, request: Request) -> schemas.DocumentReply:
    """Create a document from a question and its answer."""
    body = await read_body(request, bodies.QaDocument)
    return await _store_document(
        caller,
        "qa",
        title=body.title,
        question=body.question,
        content=body.answer,
        category=body.category,
        size=len(body.question.encode()) + len(body.answer.encode()),
    )
