"""A cheaper way to Airflow's Execution API, which ``dag.test()`` calls about ten times per task."""

from __future__ import annotations

import asyncio
import json
import threading
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.versions import AIRFLOW
from tests.versions import airflow_httpx as httpx

if TYPE_CHECKING:
    from fastapi import FastAPI


class DirectTransport(httpx.BaseTransport):
    """
    Send requests to an ASGI application in an event loop of another thread.

    Airflow sends them through a2wsgi, and asyncio tasks of each request stay pending for ever. anyio searches all
    pending tasks six times per request, so every request takes longer than the one before: after 2,500 requests, a
    run of a DAG takes twice as long.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app, self._asgi = app, httpx.ASGITransport(app)
        # Before 3.3, only the API stores values as they are; from 3.4 on, only it knows the iteration of a task loop.
        self._stores_xcoms = AIRFLOW == (3, 3)
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), name="execution API", daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._app.router.lifespan_context(self._app):
            self._ready.set()
            await asyncio.Event().wait()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        response = await self._asgi.handle_async_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

    def pending(self) -> int:
        """Return the number of asyncio tasks that have not ended, without the one that counts."""

        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        return asyncio.run_coroutine_threadsafe(count(), self._loop).result()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        stores = request.method == "POST" and request.url.path.startswith("/xcoms/") and not request.url.query
        if stores and self._stores_xcoms:
            return _store_xcom(*request.url.path.split("/")[2:], json.loads(request.content or "null"))
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop).result()


def _store_xcom(dag_id: str, run_id: str, task_id: str, key: str, value: Any) -> httpx.Response:
    """
    Store a value as the API does, without FastAPI around it.

    Two thirds of the requests of a load with ``dag.test()`` do this: one for each key of its result.
    """
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    names = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": -1}
    with create_session() as session:
        XComModel.set(key, value, serialize=False, session=session, **names)
    return httpx.Response(201, json={"message": "XCom successfully set"})


def keep_newest_version() -> None:
    """
    Drop all versions of the API but the one that this Airflow's tasks ask for, from Airflow 3.3 on.

    Airflow generates the routes of nine versions for the first request, which takes 6 s of processor time.
    """
    if AIRFLOW < (3, 3):
        return
    from airflow.api_fastapi.execution_api import versions
    from airflow.api_fastapi.execution_api.routes import execution_api_router
    from cadwyn import HeadVersion, Version, VersionBundle
    from cadwyn.route_generation import _DELETED_ROUTE_TAG

    # Airflow's changes of a version still ask the old bundle which version a request has.
    newest = Version(versions.bundle.versions[0].value)
    versions.bundle = VersionBundle(HeadVersion(), newest, api_version_var=versions.bundle.api_version_var)
    routes = execution_api_router.routes
    routes[:] = [route for route in routes if _DELETED_ROUTE_TAG not in getattr(route, "tags", ())]


@cache
def in_process_api_server() -> SimpleNamespace:
    """Return Airflow's Execution API and a transport to it; ``dag.test()`` creates both for every task."""
    from airflow.api_fastapi.execution_api.app import InProcessExecutionAPI

    keep_newest_version()
    app = InProcessExecutionAPI().app
    # Ids for logs and new tokens, of which dag.test() uses neither, take several asyncio tasks for every request.
    unused = {"CorrelationIdMiddleware", "JWTReissueMiddleware"}
    app.user_middleware[:] = [known for known in app.user_middleware if known.cls.__name__ not in unused]
    return SimpleNamespace(app=app, transport=DirectTransport(app))


def remember_dependants() -> None:
    """Airflow's API inspects the signatures of its dependencies in every request."""
    from fastapi.dependencies import utils

    get_dependant, known = utils.get_dependant, {}

    def remembered(**arguments: Any) -> Any:
        key = repr(sorted(arguments.items()))
        if key not in known:
            known[key] = get_dependant(**arguments)
        return known[key]

    utils.get_dependant = remembered
