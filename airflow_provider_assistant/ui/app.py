"""
The application behind the pages in Airflow's UI.

A mounted application inherits no access checks from Airflow: every router declares its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response

from airflow_provider_assistant.ui import report, routes, settle
from airflow_provider_assistant.ui.access import may_see_pages

# Headers of every reply that sets no others. Replies are data for scripts: nothing in them may be run or framed.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
STATIC = files("airflow_provider_assistant.ui") / "static"
CONTENT_TYPES = {"mjs": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

static = APIRouter(prefix="/static", dependencies=[Depends(may_see_pages)])


@static.get("/{name}")
def static_file(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """
    Return a file of the pages.

    :param if_none_match: ETag of the browser's copy.
    """
    match = re.fullmatch(r"[a-z0-9_-]+\.([a-z]+)", name)
    content_type = None
    if match:
        extension = match[1]
        content_type = CONTENT_TYPES.get(extension)
    if content_type is None or not (STATIC / name).is_file():
        raise HTTPException(404, "There is no such file.")
    content = (STATIC / name).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    etag = f'"{digest[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if if_none_match == etag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=content_type, headers=headers)


app = FastAPI(title="Assistant", docs_url=None, redoc_url=None, openapi_url=None)


@app.middleware("http")
async def add_security_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Add :data:`HEADERS` to a reply."""
    reply = await call_next(request)
    for name, value in HEADERS.items():
        reply.headers.setdefault(name, value)
    return reply


for _router in (static, report.router, routes.router, routes.task_router, settle.router):
    app.include_router(_router)
