"""A hostile service that repeats the API key in all parts of its replies, in every encoding."""

from __future__ import annotations

import html
import json
from collections import Counter
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote

from tests.servers import LocalServer, body_of, send

# Replies contain this text next to the key. Where it is found, an unmasked key would be found too.
MARKER = "polly-wants-a-cracker"


class Parrot(LocalServer):
    """Listen on the loopback interface while the context is active."""

    # Contains characters that JSON, HTML and URLs can encode in several ways.
    key = "canary-echo/4c9e+17<b>&d2=="

    def __init__(self) -> None:
        super().__init__()
        self.polls: Counter[str] = Counter()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body_of(request)
        key = request.headers["X-API-Key"]
        status, body, headers = self._reply(request.path.removeprefix("/api/v1/m2m/"), key)
        # PHP's json_encode escapes slashes; others escape what is not safe inside HTML.
        text = body if isinstance(body, str) else json.dumps(body).replace("/", "\\/").replace("<", "\\u003c")
        kind = "text/html" if isinstance(body, str) else "application/json"
        send(request, status, text.encode(), {"Content-Type": kind, "X-Request-Id": f"{MARKER} {key}", **headers})

    def _reply(self, path: str, key: str) -> tuple[int, Any, dict[str, str]]:
        """Return the status, the body and the headers of a reply."""
        said = f"{MARKER} {key}"
        match path.split("/")[2:]:
            case ["limits"]:
                return 200, {"plan": said, key: MARKER, "nested": [{"of": {"key": said}}]}, {}
            case ["statistics"]:
                return 200, {"site": said, key: 1, "messages": 2, MARKER: 3}, {}
            case ["chat"]:
                return 400, {"error": {"code": key, "message": said}}, {}
            case ["chat", "async"]:
                return 202, {"request_id": said, "session_id": said}, {}
            case ["chat", "requests", _]:
                self.polls[path] += 1
                # The worker polls once before the triggerer does.
                ended = self.polls[path] > 2
                status = {"status": "failed", "error": {"message": said}} if ended else {"status": said}
                return 200, {"request_id": said, **status}, {}
            case ["chat", "session", "close"]:
                return 403, f"<html><title>{html.escape(said)}</title></html>", {}
            case ["documents", "text"]:
                return 302, {"error": said}, {"Location": f"/login?{MARKER}={quote(key)}"}
            case _:
                return 500, {"error": said}, {}
