"""The routes: ten of the specification, four of documents, and the reads. Replies have the documented shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from airflow_provider_assistant.sandbox.messages import ApiError, Key, Reply, Request
from airflow_provider_assistant.sandbox.settings import Settings
from airflow_provider_assistant.sandbox.store import Store


@dataclass(slots=True)
class Call:
    """A request that a key may send, with all that its route needs.

    :param now: time, in seconds since the epoch.
    :param scope: id of the site or the tenant.
    :param item: id in the path below it, such as that of a chat request.
    """

    store: Store
    settings: Settings
    now: float
    key: Key
    request: Request
    scope: str = ""
    item: str = ""

    def body(self, *required: str) -> dict[str, Any]:
        """Return the JSON body. The required fields are there; all fields of the API but lists are texts."""
        content_type = self.request.headers.get("content-type", "").partition(";")[0]
        if content_type.strip().lower() != "application/json":
            raise ApiError(400, "the Content-Type must be application/json")
        try:
            body = json.loads(self.request.body)
        except ValueError:
            raise ApiError(400, "the body is not valid JSON") from None
        if not isinstance(body, dict):
            raise ApiError(400, "the body must be a JSON object")
        for name in required:
            if not str(body.get(name) or "").strip():
                raise ApiError(400, f"{name} is required")
        for name, value in body.items():
            if not isinstance(value, str | list | None):
                raise ApiError(400, f"{name} must be a text")
        return body

    def page(self, records: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the records of the page that the request asks for, and the fields that lead to the next one."""
        size, query = self.settings.page_size, self.request.query
        if size is None:
            return records, {}
        if query.get("limit", "").isdecimal():
            size = min(size, max(1, int(query["limit"])))
        # A cursor is the id of the last record of a page.
        ids = [record.id for record in records]
        start = ids.index(query["cursor"]) + 1 if query.get("cursor") in ids else 0
        page = records[start : start + size]
        return page, {"next_cursor": page[-1].id if start + size < len(records) else None}


Route = Callable[[Call], Reply]
_ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


def route(method: str, path: str) -> Callable[[Route], Route]:
    """Register the function of a route; the path may have placeholders in braces."""

    def register(function: Route) -> Route:
        _ROUTES.append((method, re.compile(re.sub(r"\{\w+\}", "([^/]+)", path)), function))
        return function

    return register


def answer(call: Call) -> Reply:
    """Carry out a request.

    :raises ApiError: the service refuses it.
    """
    methods = set()
    for method, pattern, function in _ROUTES:
        match = pattern.fullmatch(call.request.path)
        if match and method == call.request.method:
            call.scope, call.item = (unquote(part) for part in (*match.groups(), "")[:2])
            _check_access(call)
            return function(call)
        if match:
            methods.add(method)
    raise ApiError(405, "method not allowed") if methods else ApiError(404, "not found")


def _check_access(call: Call) -> None:
    key, path = call.key, call.request.path
    if path.startswith("/m2m/sites/") and call.scope not in key.sites:
        raise ApiError(404, "site not found")
    if path.startswith("/m2m/tenants/") and call.scope != key.tenant:
        raise ApiError(404, "tenant not found")
    if key.read_only and call.request.method != "GET":
        raise ApiError(403, "api_access_not_available_on_plan")


def time_text(moment: float | None) -> str | None:
    """Return a time in ISO 8601, UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
