"""The control plane for tests and development. It is not part of the API and accepts only local callers."""

import contextlib
import ipaddress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ValidationError

from airflow_provider_assistant.sandbox.errors import ApiError, explained
from airflow_provider_assistant.sandbox.requests import Embedded, read_object
from airflow_provider_assistant.sandbox.settings import Regex


async def _local_only(request: Request) -> None:
    """Refuse callers from other machines, even if the service listens on all addresses."""
    is_local = False
    if request.client:
        with contextlib.suppress(ValueError):  # the host is not an IP address
            is_local = ipaddress.ip_address(request.client.host).is_loopback
    if not is_local:
        raise ApiError(403, "The control plane answers on the loopback interface only.")


router = APIRouter(dependencies=[Depends(_local_only)])


@router.get("/health")
async def health(service: Embedded) -> dict[str, Any]:
    """Say that the service works, and how many requests are not finished."""
    return {"status": "ok", "pending": service.chats.pending(), "in_flight": service.in_flight}


@router.get("/journal")
async def journal(
    service: Embedded,
    method: str | None = None,
    path: Regex | None = None,
    status: int | None = None,
    key: str | None = None,
    limit: Annotated[int, Query(ge=1)] = 1000,
) -> dict[str, Any]:
    """List the last requests that meet the conditions."""
    entries = service.journal.entries(method=method, path=path, status=status, key=key)
    last_entries = entries[-limit:]
    return {"count": len(entries), "requests": [entry.as_json() for entry in last_entries]}


@router.delete("/journal", status_code=204)
async def clear_journal(service: Embedded) -> None:
    """Delete the records of the requests."""
    service.journal.clear()


@router.get("/documents")
async def documents(
    service: Embedded, site: str | None = None, limit: Annotated[int, Query(ge=0)] = 1000
) -> dict[str, Any]:
    """Count and list the documents."""
    listed = service.documents.listed(site, limit)
    return {"count": service.documents.count(site), "documents": listed}


@router.post("/reset", status_code=204)
async def reset(service: Embedded, only: Annotated[list[str] | None, Query()] = None) -> None:
    """Delete data, journal and faults, or some of them."""
    try:
        service.reset(*(only or ()))
    except ValueError as error:
        raise ApiError(400, str(error)) from None


@router.get("/faults")
async def read_faults(service: Embedded) -> dict[str, Any]:
    """Read the current faults."""
    return service.faults.as_json()


@router.post("/faults")
async def change_faults(request: Request, service: Embedded) -> dict[str, Any]:
    """Change the given faults and keep the others."""
    changes = await read_object(request)
    try:
        service.faults.update(**changes)
    except ValidationError as error:
        raise ApiError(400, explained(error)) from None
    except (TypeError, ValueError) as error:
        raise ApiError(400, str(error)) from None
    return service.faults.as_json()
