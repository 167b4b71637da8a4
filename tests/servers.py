"""An HTTP server of a test: on a port of this machine, in a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Tests open many connections at once; a short queue of the system would reset some of them.
    request_queue_size = 128


class LocalServer:
    """Answer requests with :meth:`answer` while the context is entered."""

    def __init__(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are two writes: without this, the second waits 40 ms for an acknowledgement.
            disable_nagle_algorithm = True

            def setup(self) -> None:
                with owner._lock:
                    owner.connections += 1
                super().setup()

            def do_any(self) -> None:
                # A client may hang up at any moment.
                with contextlib.suppress(OSError):
                    owner.answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = do_any

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.connections = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def host(self) -> str:
        """The address and the port."""
        return f"127.0.0.1:{self._server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """Read the body of a request, with a length or in chunks."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    body = b""
    while size := int(request.rfile.readline(), 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return body


def send(request: BaseHTTPRequestHandler, status: int, content: bytes, headers: Mapping[str, str]) -> None:
    """Answer a request with these bytes."""
    request.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(content))}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)
