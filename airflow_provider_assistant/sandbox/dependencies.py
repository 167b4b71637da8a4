"""Common code of the endpoints: path parameters, access checks, request bodies, documented errors."""

import sqlite3
from typing import Annotated, Any, TypeVar

from fastapi import Path, Request
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile

from airflow_provider_assistant.sandbox import schemas
from airflow_provider_assistant.sandbox.errors import ApiError, invalid_body
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.tenants import DEFAULT_SITE, DEFAULT_TENANT, Key

TenantId = Annotated[str, Path(description="The workspace.", examples=[DEFAULT_TENANT])]
SiteId = Annotated[str, Path(description="The website or chatbot.", examples=[DEFAULT_SITE])]
RequestId = Annotated[str, Path(description="An asynchronous chat request.")]
Model = TypeVar("Model", bound=BaseModel)

_REASONS = {
    400: "Malformed payload or request structure",
    401: "API key missing or wrong",
    403: "The key's plan or access does not permit the call",
    404: "Not found, or not owned by the key",
    429: "Too many requests, or a quota used up",
    500: "The assistant failed",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI documentation of an endpoint's errors.

    :param statuses: HTTP statuses in addition to 401, 404 and 429, which all endpoints have.
    """
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorReply, "description": _REASONS[status]} for status in (401, 404, 429, *statuses)
    }
    wait = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}
    responses[429]["headers"] = {"Retry-After": wait}
    return responses


def authorize(
    request: Request,
    *,
    site: str | None = None,
    tenant: str | None = None,
    write: bool = True,
    async_chat: bool = False,
) -> Key:
    """Return the caller's key, or refuse the request: 404 for a foreign site or tenant, then 403 for a missing right.

    :param request: request that has passed the gate.
    :param site: site of the request.
    :param tenant: tenant of the request.
    :param write: whether the request changes anything.
    :param async_chat: whether the request needs async chat.
    """
    key: Key = request.scope["assistant.key"]
    if tenant is not None and tenant != key.tenant.tenant_id:
        raise ApiError(404, "There is no such tenant.", code="tenant_not_found", field="tenant_id")
    if site is not None and site not in key.tenant.sites:
        raise ApiError(404, "There is no such site.", code="site_not_found", field="site_id")
    if write and key.read_only:
        raise ApiError(403, "This key may only read.", code="read_only_key")
    if async_chat and not key.plan.async_chat:
        message = f"Asynchronous chat is not part of the plan {key.plan.name}."
        raise ApiError(403, message, code="plan_lacks_async_chat")
    return key


def _demand_content_type(request: Request, kind: str) -> None:
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != kind:
        raise ApiError(400, f"The Content-Type must be {kind}.", code="bad_content_type")


async def read_body(request: Request, model: type[Model]) -> Model:
    """Return the validated JSON body, or refuse the request with the name of the invalid field.

    :param request: the request.
    :param model: model of the body.
    """
    _demand_content_type(request, "application/json")
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise invalid_body(error) from None


async def read_upload(request: Request) -> tuple[str, bytes]:
    """Return name and content of the uploaded file, or refuse the request.

    :param request: the request.
    """
    _demand_content_type(request, "multipart/form-data")
    try:
        return await _file_of(request)
    except FormParserError as error:  # newer versions of starlette refuse this themselves
        raise ApiError(400, f"The body is not a multipart form: {error}.", code="invalid_body") from None


async def _file_of(request: Request) -> tuple[str, bytes]:
    async with request.form(max_files=10, max_fields=100) as form:
        parts = form.getlist("file")
        if not parts:
            raise ApiError(400, "file is required.", code="missing_field", field="file")
        part = parts[0]
        if len(parts) > 1 or not isinstance(part, UploadFile) or not part.filename:
            message = "file must be one part with a file name."
            raise ApiError(400, message, code="invalid_field", field="file")
        return part.filename, await part.read()


def existing(service: Service, site: str, request_id: str) -> sqlite3.Row:
    """Return a chat request of a site, or refuse with 404.

    :param service: components of the sandbox.
    :param site: id of the site.
    :param request_id: id of the chat request.
    """
    row = service.chats.request(site, request_id)
    if row is None:
        message = "There is no such chat request."
        raise ApiError(404, message, code="request_not_found", field="request_id")
    return row
