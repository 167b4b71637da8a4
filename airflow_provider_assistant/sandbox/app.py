"""The application: the API under ``/api/v1``, the judge under ``/v1``, the control plane under ``/_sandbox``."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from airflow_provider_assistant.sandbox import (
    admin,
    chat_routes,
    creation,
    judge,
    management,
    reads,
)
from airflow_provider_assistant.sandbox.errors import ApiError, ErrorFormat
from airflow_provider_assistant.sandbox.middleware import Gate
from airflow_provider_assistant.sandbox.names import OtherNames
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.settings import Settings

API_ROOT = "/api/v1"
MODELS_ROOT = "/v1"
_LOG = logging.getLogger(__name__)


def _allowed_methods(request: Request) -> str:
    """Return the methods of a path as in the header ``Allow``; the framework names only one."""
    matching = []
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is Match.PARTIAL:
            matching.append(route)
    methods: set[str] = set()
    for route in matching:
        if route.path == matching[0].path:
            methods |= route.methods
    return ", ".join(sorted(methods))


async def _refused(request: Request, error: Exception) -> Response:
    """Return all errors in the same format, including those of the framework."""
    headers: dict[str, str] = {}
    match error:
        case ApiError():
            refusal = error
        case HTTPException():
            refusal = ApiError(error.status_code, str(error.detail))
            headers.update(error.headers or {})
            if error.status_code == 405:
                headers["Allow"] = _allowed_methods(request)
        case RequestValidationError():
            first_error = error.errors()[0]
            parameter = ".".join(str(part) for part in first_error["loc"])
            refusal = ApiError(400, f"{parameter} is not valid.", field=parameter)
        case _:
            refusal = ApiError(500, "The service failed.")
    error_format: ErrorFormat = "detailed"
    if request.url.path.startswith(API_ROOT):
        error_format = request.app.state.service.settings.error_format
    return refusal.response(error_format, headers)


class _App(FastAPI):
    """An application that describes the errors that it really sends."""

    def __init__(self, service: Service, **options: Any) -> None:
        kinds = (ApiError, HTTPException, RequestValidationError, Exception)
        handlers: dict[Any, Any] = dict.fromkeys(kinds, _refused)
        super().__init__(docs_url=None, redoc_url=None, exception_handlers=handlers, **options)
        self.state.service = service

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        schema["security"] = [{"ApiKey": []}]
        components = schema["components"]
        api_key = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
        components["securitySchemes"] = {"ApiKey": api_key}
        # The framework documents a status that the service turns into 400.
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        for path in schema["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        return schema


def _log_failure(worker_task: asyncio.Task[None]) -> None:
    """Log the error that ended the worker, if any: without it, async requests make no progress."""
    if worker_task.cancelled():
        return
    error = worker_task.exception()
    if error is not None:
        _LOG.error("The worker of asynchronous requests ended.", exc_info=error)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    worker_task = asyncio.create_task(service.worker.run())
    worker_task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        worker_task.cancel()
        await asyncio.wait([worker_task])
        service.database.close()


def create_app(
    settings: Settings | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Return the ASGI application; its :class:`Service` is at ``app.state.service``.

    :param settings: settings of the service. Default: ``Settings()``.
    :param clock: returns the current time in seconds since the epoch. Default: the system clock.
    """
    service = Service(settings or Settings(), clock)
    api = _App(
        service,
        title="Assistant M2M API, embedded",
        version="v1",
        generate_unique_id_function=lambda route: route.name,
    )
    # Routes are tried in this order, and loads send most requests.
    for module in (creation, chat_routes, management, reads):
        api.include_router(module.router)
    models = _App(service, openapi_url=None)
    models.include_router(judge.router)
    control = _App(service, openapi_url=None)
    control.include_router(admin.router)
    app = _App(service, openapi_url=None, lifespan=_lifespan)
    app.mount(API_ROOT, Gate(OtherNames(api, service), service))
    app.mount(MODELS_ROOT, Gate(models, service, prefix="/chat/", bearer=True))
    app.mount("/_sandbox", control)
    return app
