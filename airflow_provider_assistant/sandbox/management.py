"""The routes that list, change and delete documents. The specification does not show them."""

import sqlite3
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from airflow_provider_assistant.sandbox import bodies, schemas
from airflow_provider_assistant.sandbox.bodies import json_body
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.paging import PageQuery, read_page
from airflow_provider_assistant.sandbox.refusals import WRITE_REFUSALS
from airflow_provider_assistant.sandbox.requests import Caller, Embedded, SiteCaller, read_body

DocumentId = Annotated[str, Path(description="A document.")]


async def _managed(service: Embedded) -> None:
    if not service.settings.manage_documents:
        raise ApiError(404, "Not Found")


router = APIRouter(
    prefix="/m2m/sites/{site_id}/documents",
    responses=WRITE_REFUSALS,
    dependencies=[Depends(_managed)],
)


@router.get("", response_model=schemas.DocumentsReply, response_model_exclude_unset=True)
async def list_documents(
    caller: SiteCaller,
    request: Request,
    response: Response,
    query: Annotated[PageQuery, Query()],
) -> dict[str, Any]:
    """List the site's documents in the order of their creation."""
    service = caller.service
    now = service.clock()
    page = read_page(
        request,
        query,
        service.settings,
        fetch=partial(service.documents.page, caller.site, now),
        count=partial(service.documents.count_listed, caller.site, now),
    )
    response.headers.update(page.headers)
    listed_at = now - service.settings.list_delay
    documents = []
    for row in page.rows:
        document = service.documents.described(row, listed_at)
        if service.settings.list_content:
            document.update(_content(row))
        documents.append(document)
    return {"documents": documents, **page.fields}


def _content(row: sqlite3.Row) -> dict[str, str]:
    if row["kind"] == "qa":
        return {"question": row["question"], "answer": row["content"]}
    return {"content": row["content"]}


# The paths with a fixed name come first: otherwise it would be taken as the id of a document.
@router.patch("/bulk-status", openapi_extra=json_body(bodies.StatusChange))
async def change_status(caller: SiteCaller, request: Request) -> schemas.BulkReply:
    """Activate or deactivate documents."""
    body = await read_body(request, bodies.StatusChange)
    rows, not_found = _chosen(caller, body.document_ids)
    now = caller.service.clock()
    for row in rows:
        is_active = row["activated_at"] is not None
        becomes_active = body.status == "active"
        if is_active != becomes_active:
            caller.service.documents.change(row, {"active": becomes_active}, now)
    return await _bulk_reply(caller, rows, not_found)


@router.post("/bulk-delete", openapi_extra=json_body(bodies.DocumentIds))
async def delete_documents(caller: SiteCaller, request: Request) -> schemas.BulkReply:
    """Delete documents."""
    body = await read_body(request, bodies.DocumentIds)
    rows, not_found = _chosen(caller, body.document_ids)
    now = caller.service.clock()
    for row in rows:
        caller.service.documents.delete(row, now)
    return await _bulk_reply(caller, rows, not_found)


@router.patch("/{document_id}", openapi_extra=json_body(bodies.DocumentChange))
async def change_document(
    caller: SiteCaller,
    request: Request,
    document_id: DocumentId,
) -> schemas.DocumentReply:
    """Change a document."""
    body = await read_body(request, bodies.DocumentChange)
    service = caller.service
    row = service.documents.document(caller.site, document_id)
    if row is None:
        raise _document_not_found("document_id")
    now = service.clock()
    changes = _changes(row, body)
    if changes:
        row = service.documents.change(row, changes, now)
        await service.database.settled()
    return schemas.DocumentReply(**service.documents.described(row, now))


def _changes(row: sqlite3.Row, body: bodies.DocumentChange) -> dict[str, Any]:
    """Return the new values of a document; fields of another kind of document are ignored."""
    changes = body.model_dump(exclude_unset=True)
    question, answer = changes.pop("question", None), changes.pop("answer", None)
    if row["kind"] == "qa":
        if question is not None:
            changes["question"] = question
        if answer is not None:
            changes["content"] = answer
    if "status" in changes:
        changes["active"] = changes.pop("status") == "active"
    return changes


def _chosen(caller: Caller, document_ids: list[str]) -> tuple[list[sqlite3.Row], list[str]]:
    """Return the documents of a bulk request, and the ids that the site does not have."""
    settings = caller.service.settings
    if len(document_ids) > settings.bulk_limit:
        message = f"document_ids may have {settings.bulk_limit} ids at most."
        raise ApiError(400, message, code="too_many_documents", field="document_ids")
    rows = []
    not_found = []
    for identifier in dict.fromkeys(document_ids):  # without repetitions
        row = caller.service.documents.document(caller.site, identifier)
        if row is None:
            not_found.append(identifier)
        else:
            rows.append(row)
    if not_found and settings.bulk_unknown == "reject":
        raise _document_not_found("document_ids")
    return rows, not_found


def _document_not_found(field: str) -> ApiError:
    return ApiError(404, "There is no such document.", code="document_not_found", field=field)


async def _bulk_reply(
    caller: Caller,
    rows: list[sqlite3.Row],
    not_found: list[str],
) -> schemas.BulkReply:
    await caller.service.database.settled()
    identifiers = [row["id"] for row in rows]
    return schemas.BulkReply(count=len(identifiers), document_ids=identifiers, not_found=not_found)
