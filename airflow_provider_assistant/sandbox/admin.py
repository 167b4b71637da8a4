"""The control plane for tests and development. It is not part of the API and accepts only local callers."""

import ipaddress
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic_core import from_json

from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.service import Service


def _local_only(request: Request) -> None:
    """Refuse callers from other machines, even if the service listens on all addresses."""
    host = request.client.host if request.client else ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ApiError(403, "The control plane answers on the loopback interface only.")


async def _object(request: Request) -> dict[str, Any]:
    try:
        given = from_json(await request.body())
    except ValueError:
        raise ApiError(400, "The body is not valid JSON.", code="malformed_json") from None
    if not isinstance(given, dict):
        raise ApiError(400, "The body must be a JSON object.", code="malformed_json")
    return given


def _change_routes(router: APIRouter, service: Service) -> None:
    @router.post("/reset")
    async def reset(only: Annotated[list[str] | None, Query()] = None) -> Response:
        try:
            service.reset(*(only or ()))
        except ValueError as error:
            raise ApiError(400, str(error)) from None
        return Response(status_code=204)

    @router.get("/faults")
    async def read_faults() -> Response:
        return JSONResponse(service.faults.as_json())

    @router.post("/faults")
    async def change_faults(request: Request) -> Response:
        given = await _object(request)
        try:
            service.faults.update(**given)
        except (TypeError, ValueError) as error:
            raise ApiError(400, str(error)) from None
        return JSONResponse(service.faults.as_json())


def create_control(service: Service) -> FastAPI:
    """Return the router of the control plane.

    :param service: the service to control.
    """
    router = APIRouter(dependencies=[Depends(_local_only)])

    @router.get("/health")
    async def health() -> Response:
        return JSONResponse({"status": "ok", "pending": service.chats.pending(), "in_flight": service.in_flight})

    @router.get("/journal")
    async def journal(
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        key: str | None = None,
        limit: Annotated[int, Query(ge=1)] = 1000,
    ) -> Response:
        try:
            found = service.journal.entries(method=method, path=path, status=status, key=key)
        except re.error as error:
            message = f"path is not a regular expression: {error}."
            raise ApiError(400, message, field="path") from None
        shown = [entry.as_json() for entry in found[-limit:]]
        return JSONResponse({"count": len(found), "requests": shown})

    @router.delete("/journal")
    async def clear_journal() -> Response:
        service.reset("journal")
        return Response(status_code=204)

    @router.get("/documents")
    async def documents(site: str | None = None, limit: Annotated[int, Query(ge=0)] = 1000) -> Response:
        count = service.documents.count(site)
        return JSONResponse({"count": count, "documents": service.documents.listed(site, limit)})

    _change_routes(router, service)
    control = FastAPI(openapi_url=None)
    control.include_router(router)
    return control
