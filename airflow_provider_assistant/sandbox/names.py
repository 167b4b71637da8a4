"""Other names for documents: routes, fields and words that differ from the default ones.

The setting ``document_names`` maps a default name to another one:

- ``"id": "uuid"`` renames a field of bodies, a query parameter and a word of ``status``;
- ``"status.active": "LIVE"`` renames only the word;
- ``"documents": "data.items"`` nests a field of replies;
- ``"bytes": null`` leaves a field out of replies;
- ``"/documents/bulk-status": "/documents/state"`` renames a path below the site, except for the
  paths that create documents.

A request to list or change documents must use the other names: the default ones are ignored.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response

from airflow_provider_assistant.sandbox.middleware import BufferedReply, replaying
from airflow_provider_assistant.sandbox.paging import SENT_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from airflow_provider_assistant.sandbox.service import Service

_CREATE_PATHS = ("/documents", "/documents/text", "/documents/qa")
# A path that no route has.
_UNKNOWN = "/unknown"


class OtherNames:
    """Translate requests and replies about documents between the two sets of names."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        names = self._service.settings.document_names
        if not names:
            await self._app(scope, receive, send)
            return
        root = scope.get("root_path", "")
        *site_parts, rest = scope["path"].removeprefix(root).split("/", 4)
        if len(site_parts) < 4:
            await self._app(scope, receive, send)
            return
        sent_path = "/" + rest
        creates = scope["method"] == "POST" and sent_path in _CREATE_PATHS
        path = sent_path if creates else default_path(sent_path, names)
        if not path.startswith(("/documents", _UNKNOWN)):
            await self._app(scope, receive, send)
            return
        inner_scope = {
            **scope,
            "path": root + "/".join(site_parts) + path,
            "query_string": _default_query(scope["query_string"], names),
            SENT_PATH: scope["path"],
        }
        inner_receive = receive
        if Headers(scope=scope).get("content-type", "").startswith("application/json"):
            body = default_body((await receive())["body"], names, keep_default=creates)
            headers = MutableHeaders(raw=list(scope["headers"]))
            headers["content-length"] = str(len(body))
            inner_scope["headers"] = headers.raw
            inner_receive = replaying(body, receive)
        reply = BufferedReply()
        await self._app(inner_scope, inner_receive, reply.send)
        await _renamed_response(reply, names)(scope, receive, send)


def default_path(path: str, names: Mapping[str, str | None]) -> str:
    """Return the default path of a route, below the site.

    :param path: path as sent.
    """
    path_names = {name: other for name, other in names.items() if name.startswith("/")}
    # The longest path first, so that /documents/bulk-status wins over /documents.
    names_by_path = {other: name for name, other in path_names.items() if other}
    for other in sorted(names_by_path, key=len, reverse=True):
        if _is_below(path, other):
            return names_by_path[other] + path.removeprefix(other)
    if any(_is_below(path, name) for name in path_names):
        return _UNKNOWN
    return path


def _is_below(path: str, start: str) -> bool:
    return path == start or path.startswith(start + "/")


def _default_query(query: bytes, names: Mapping[str, str | None]) -> bytes:
    default_names = _default_names(names)
    parameters = []
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in default_names:
            parameters.append((default_names[name], value))
        elif name not in names:
            parameters.append((name, value))
    return urlencode(parameters).encode()


def default_body(
    body: bytes,
    names: Mapping[str, str | None],
    *,
    keep_default: bool = False,
) -> bytes:
    """Return the JSON body of a request with the default names.

    :param keep_default: whether the default name of a renamed field also counts.
    """
    try:
        sent = json.loads(body)
    except ValueError:
        return body  # the route refuses it
    if not isinstance(sent, dict):
        return body
    default_names = _default_names(names)
    fields: dict[str, Any] = {}
    for sent_name, value in sent.items():
        name = default_names.get(sent_name) or sent_name
        is_renamed = sent_name in names and sent_name not in default_names
        if is_renamed and not keep_default:
            continue
        if name == "status" and isinstance(value, str):
            fields[name] = _default_word(value, names)
        else:
            fields[name] = value
    return json.dumps(fields).encode()


def _default_names(names: Mapping[str, str | None]) -> dict[str, str]:
    """Return the default name of each other name of a field."""
    default_names = {}
    for name, other in names.items():
        if other is not None and "." not in name and "/" not in name:
            default_names[other] = name
    return default_names


def _default_word(word: str, names: Mapping[str, str | None]) -> str:
    """Return the default word of a status; a default word that has another name is unknown."""
    for default in ("active", "draft", "processing"):
        if _other_word(default, names) == word:
            return default
    return f"unknown {word}"


def _other_word(word: str, names: Mapping[str, str | None]) -> str:
    return names.get(f"status.{word}") or names.get(word) or word


def renamed(value: Any, names: Mapping[str, str | None]) -> Any:
    """Return a reply, or a part of it, with the other names."""
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = {}
    for name, item in value.items():
        other = names.get(name, name)
        if other is None:
            continue
        new_item = renamed(item, names)
        if name == "status" and isinstance(item, str):
            new_item = _other_word(item, names)
        *outer_names, last_name = other.split(".")
        place = fields
        for outer_name in outer_names:
            place = place.setdefault(outer_name, {})
        place[last_name] = new_item
    return fields


def _renamed_response(reply: BufferedReply, names: Mapping[str, str | None]) -> Response:
    headers = MutableHeaders(raw=list(reply.headers))
    for name in ("content-length", "content-type"):
        del headers[name]
    try:
        content = json.loads(reply.body)
    except ValueError:
        response = Response(bytes(reply.body), reply.status)
        response.raw_headers = list(reply.headers)
        return response
    return JSONResponse(renamed(content, names), reply.status, headers)
