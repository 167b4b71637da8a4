"""A hostile service that repeats the API key in all parts of its replies, in every encoding."""

from __future__ import annotations

import html
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote

# Replies contain this text next to the key. Where it is found, an unmasked key would be found too.
MARKER = "polly-wants-a-cracker"


class Parrot:
    """Listen on the loopback interface while the context is active."""

    # Contains characters that JSON, HTML and URLs can encode in several ways.
    key = "canary-echo/4c9e+17<b>&d2=="

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.polls: Counter[str] = Counter()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def _answer(self) -> None:
        key = self.headers["X-API-Key"]
        said = f"{MARKER} {key}"
        path = self.path.removeprefix("/api/v1/m2m/")
        match path.split("/")[2:]:
            case ["limits"]:
                self._send(200, {"plan": said, key: MARKER, "nested": [{"of": {"key": said}}]}, key)
            case ["statistics"]:
                self._send(200, {"site": said, key: 1, "messages": 2, MARKER: 3}, key)
            case ["chat"]:
                self._send(400, {"error": {"code": key, "message": said}}, key)
            case ["chat", "async"]:
                self._send(202, {"request_id": said, "session_id": said}, key)
            case ["chat", "requests", _]:
                self.server.polls[path] += 1
                # The worker polls once before the triggerer does.
                ended = self.server.polls[path] > 2
                status = {"status": "failed", "error": {"message": said}} if ended else {"status": said}
                self._send(200, {"request_id": said, **status}, key)
            case ["chat", "session", "close"]:
                self._send(403, f"<html><title>{html.escape(said)}</title></html>", key)
            case ["documents", "text"]:
                self._send(302, {"error": said}, key, Location=f"/login?{MARKER}={quote(key)}")
            case _:
                self._send(500, {"error": said}, key)

    def _send(self, status: int, body: Any, key: str, **headers: str) -> None:
        # PHP's json_encode escapes slashes; others escape what is not safe inside HTML.
        text = body if isinstance(body, str) else json.dumps(body).replace("/", "\\/").replace("<", "\\u003c")
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Request-Id", f"{MARKER} {key}")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
