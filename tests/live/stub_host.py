"""Airflow's UI, as its package ships it, with a server that knows only the pages of this package."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import airflow
from pydantic import BaseModel

from airflow_provider_assistant.ui.plugin import AssistantPlugin
from tests.servers import LocalServer, body_of, send

UI = Path(airflow.__file__).with_name("ui") / "dist"
STATIC = Path(str(files("airflow_provider_assistant.ui"))) / "static"
CONTENT_TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".css": "text/css"}
# What the UI itself asks for before it shows a page.
CONFIG = {
    "fallback_page_limit": 50,
    "auto_refresh_interval": 3,
    "hide_paused_dags_by_default": False,
    "instance_name": "Airflow",
    "enable_swagger_ui": False,
    "require_confirmation_dag_change": False,
    "default_wrap": False,
    "test_connection": "Disabled",
    "dashboard_alert": [],
    "show_external_log_redirect": False,
    "theme": None,
    "multi_team": False,
}
# A model, plain JSON, a status with JSON, or a function of the query and the body that returns one of them.
Reply: TypeAlias = BaseModel | dict[str, Any] | tuple[int, Any] | Callable[[dict[str, str], Any], Any]


class StubHost(LocalServer):
    """
    Serve Airflow's UI below a path, the files of our pages, and replies that a test chose.

    :param prefix: Path of the UI, with a slash at both ends.
    """

    def __init__(self, prefix: str = "/") -> None:
        super().__init__()
        self.prefix = prefix
        self.url = f"http://{self.host}{prefix}"
        self.replies: dict[str, Reply] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.searches: list[str] = []

    def reply(self, replies: Mapping[str, Reply]) -> None:
        """Reply to routes below ``assistant/api/`` with these, and with 404 to all others."""
        self.replies = dict(replies)
        self.requests = []
        self.searches = []

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(body_of(request) or "null")
        if "Assistant-Search" in request.headers:
            self.searches.append(request.headers["Assistant-Search"])
        url = urlsplit(request.path)
        path = url.path.removeprefix(self.prefix) if url.path.startswith(self.prefix) else None
        status, kind, content = self._answer(path, url.query, body)
        # The browser compiles a module that it may keep once, and megabytes of Airflow's UI for each page otherwise.
        kept = {"Cache-Control": "max-age=3600"} if path and path.startswith("static/") else {}
        send(request, status, content, {"Content-Type": kind} | kept)

    def _answer(self, path: str | None, query: str, body: Any) -> tuple[int, str, bytes]:
        if path is None:
            return _json(404, {"detail": "Not below the prefix"})
        for folder, root in (("assistant/static/", STATIC), ("static/", UI)):
            if path.startswith(folder):
                file = root / path.removeprefix(folder)
                if not file.is_file():
                    return _json(404, {"detail": "Not found"})
                kind = CONTENT_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
                return 200, kind, file.read_bytes()
        if path.startswith("assistant/api/"):
            return self._ours(path.removeprefix("assistant/api/"), query, body)
        if path.startswith(("api/", "ui/")):
            return self._airflow(path)
        page = (UI / "index.html").read_text().replace("{{ backend_server_base_url }}", self.prefix)
        return 200, "text/html", page.encode()

    def _ours(self, path: str, query: str, body: Any) -> tuple[int, str, bytes]:
        path = unquote(path)
        self.requests.append((path, query, body))
        found: Any = self.replies.get(path, (404, {"detail": "Not found"}))
        if callable(found):
            found = found({name: values[0] for name, values in parse_qs(query).items()}, body)
        status, content = found if isinstance(found, tuple) else (200, found)
        return _json(status, content)

    def _airflow(self, path: str) -> tuple[int, str, bytes]:
        bundle = f"{self.prefix}assistant/static/assistant.mjs?v=test"
        apps = [{**app, "bundle_url": bundle} for app in AssistantPlugin.react_apps]
        plugin = {"name": "assistant", "react_apps": apps, "external_views": [], "appbuilder_views": []}
        known = {
            "ui/config": CONFIG,
            "ui/auth/menus": {"authorized_menu_items": ["Plugins"], "extra_menu_items": []},
            "ui/auth/me": {"id": "1", "username": "admin"},
            "api/v2/plugins": {"plugins": [plugin], "total_entries": 1},
            "api/v2/version": {"version": "stub"},
        }
        if path in known:
            return _json(200, known[path])
        return _json(404, {"detail": "Not part of the stub"})


def _json(status: int, content: Any) -> tuple[int, str, bytes]:
    text = json.dumps(content, default=lambda model: model.model_dump(mode="json"))
    return status, "application/json", text.encode()
