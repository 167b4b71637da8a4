"""The application: the API under ``/api/v1``, the judge under ``/v1``, the control plane under ``/_sandbox``."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from airflow_provider_assistant.sandbox.account_routes import account_routes
from airflow_provider_assistant.sandbox.admin import create_control
from airflow_provider_assistant.sandbox.chat_routes import chat_routes
from airflow_provider_assistant.sandbox.document_routes import document_routes
from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.judge import judge_routes
from airflow_provider_assistant.sandbox.middleware import Gate
from airflow_provider_assistant.sandbox.service import Service
from airflow_provider_assistant.sandbox.session_routes import session_routes
from airflow_provider_assistant.sandbox.settings import Settings

API_ROOT = "/api/v1"
MODELS_ROOT = "/v1"
_LOG = logging.getLogger(__name__)


async def _refused(_: Request, error: Exception) -> Response:
    """Return all errors in the same format, including those of the framework."""
    match error:
        case ApiError():
            return error.response()
        case HTTPException():
            return ApiError(error.status_code, str(error.detail)).response(error.headers)
        case RequestValidationError():
            place = ".".join(str(part) for part in error.errors()[0]["loc"])
            return ApiError(400, f"{place} is not valid.", field=place).response()
        case _:
            return ApiError(500, "The service failed.").response()


def _report(working: asyncio.Task[None]) -> None:
    """Log the error that ended the worker, if any: without it, async requests make no progress."""
    if not working.cancelled() and (error := working.exception()):
        _LOG.error("The worker of asynchronous requests ended.", exc_info=error)


def _handle_errors(app: FastAPI) -> None:
    for kind in (ApiError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _refused)


def _describe(api: FastAPI) -> Callable[[], dict[str, Any]]:
    """Return the function that generates the OpenAPI document."""

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            schema = get_openapi(title="Assistant M2M API, embedded", version="v1", routes=api.routes)
            schema["servers"] = [{"url": API_ROOT}]
            schema["security"] = [{"ApiKey": []}]
            parts = schema["components"]
            parts["securitySchemes"] = {"ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
            # The framework documents a status that the service turns into 400.
            for name in ("HTTPValidationError", "ValidationError"):
                parts["schemas"].pop(name, None)
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            api.openapi_schema = schema
        return api.openapi_schema

    return openapi


def create_app(settings: Settings | None = None, *, clock: Callable[[], float] = time.time) -> FastAPI:
    """Return the ASGI application; its :class:`Service` is at ``app.state.service``.

    :param settings: settings of the service. Default: ``Settings()``.
    :param clock: returns the current time in seconds since the epoch. Default: the system clock.
    """
    service = Service(settings or Settings(), clock)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        working = asyncio.create_task(service.worker.run())
        working.add_done_callback(_report)
        try:
            yield
        finally:
            working.cancel()
            await asyncio.wait([working])
            service.database.close()

    api = FastAPI(docs_url=None, redoc_url=None, generate_unique_id_function=lambda route: route.name)
    api.openapi = _describe(api)  # type: ignore[method-assign]
    for routes in (account_routes, document_routes, chat_routes, session_routes):
        api.include_router(routes(service))
    control = create_control(service)
    app = FastAPI(openapi_url=None, lifespan=lifespan)
    models = FastAPI(openapi_url=None)
    models.include_router(judge_routes(service.clock, lambda: service.faults.settings.judge_position_bias))
    for part in (app, api, control, models):
        _handle_errors(part)
    app.mount(API_ROOT, Gate(api, service))
    app.mount(MODELS_ROOT, Gate(models, service, prefix="/chat/", bearer=True))
    app.mount("/_sandbox", control)
    app.state.service = service
    return app
