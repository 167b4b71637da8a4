"""What endpoints take from a request: the service, the caller, and the body."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile

from airflow_provider_assistant.sandbox.errors import ApiError, invalid_body
from airflow_provider_assistant.sandbox.middleware import KEY
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.tenants import DEFAULT_SITE, DEFAULT_TENANT, Key

SiteId = Annotated[str, Path(description="The website or chatbot.", examples=[DEFAULT_SITE])]
TenantId = Annotated[str, Path(description="The workspace.", examples=[DEFAULT_TENANT])]
Model = TypeVar("Model", bound=BaseModel)


async def _service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Embedded = Annotated[Service, Depends(_service_of)]


@dataclass(frozen=True, slots=True)
class Caller:
    """A key that may send the request, and the site that the request is for."""

    service: Service
    key: Key
    site: str


async def _of_site(request: Request, service: Embedded, site_id: SiteId) -> Caller:
    """Refuse the request for a foreign site, then one that the key's access does not permit."""
    key: Key = request.scope[KEY]
    if site_id not in key.tenant.sites:
        raise ApiError(404, "There is no such site.", code="site_not_found", field="site_id")
    if request.method != "GET" and key.read_only:
        raise ApiError(403, "This key may only read.", code="read_only_key")
    return Caller(service, key, site_id)


async def _of_tenant(request: Request, tenant_id: TenantId) -> Key:
    """Return the key of a request for its own tenant, and refuse it for another one."""
    key: Key = request.scope[KEY]
    if tenant_id != key.tenant.tenant_id:
        raise ApiError(404, "There is no such tenant.", code="tenant_not_found", field="tenant_id")
    return key


TenantKey = Annotated[Key, Depends(_of_tenant)]
SiteCaller = Annotated[Caller, Depends(_of_site)]


def _demand_content_type(request: Request, media_type: str) -> None:
    header = request.headers.get("content-type", "")
    sent_type, _, _ = header.partition(";")  # without parameters such as the charset
    if sent_type.strip().lower() != media_type:
        raise ApiError(400, f"The Content-Type must be {media_type}.", code="bad_content_type")


async def read_body(request: Request, model: type[Model]) -> Model:
    """Return the validated JSON body, or refuse the request with the name of the invalid field.

    The framework would parse a body before it is known whether the key may send one.
    """
    _demand_content_type(request, "application/json")
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise invalid_body(error) from None


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body, of any content type, or refuse the request."""
    try:
        body = from_json(await request.body())
    except ValueError:
        raise ApiError(400, "The body is not valid JSON.", code="malformed_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The body must be a JSON object.", code="malformed_json")
    return body


async def read_upload(request: Request) -> tuple[str, bytes]:
    """Return name and content of the uploaded file, or refuse the request."""
    _demand_content_type(request, "multipart/form-data")
    try:
        return await _file_of(request)
    except FormParserError as error:  # newer versions of starlette refuse this themselves
        message = f"The body is not a multipart form: {error}."
        raise ApiError(400, message, code="invalid_body") from None


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
