"""A website on a port of this machine, whose files are a mapping that tests change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.servers import LocalServer

NAVIGATION = "<nav><a href='/'>Home</a> <a href='/login'>Sign in</a></nav>"


def page(title: str, text: str) -> bytes:
    """Return a page with navigation and footer."""
    return (
        f"<html><head><title>{title}</title></head><body>{NAVIGATION}<main><h1>{title}</h1><p>{text}</p></main>"
        "<footer>Imprint</footer></body></html>"
    ).encode()


def sitemap(*urls: str, kind: str = "urlset", child: str = "url") -> bytes:
    """Return a sitemap; relative addresses are completed by :class:`Website`."""
    entries = "".join(f"<{child}><loc>{url}</loc></{child}>" for url in urls)
    return f'<{kind} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</{kind}>'.encode()


def index(*urls: str) -> bytes:
    return sitemap(*urls, kind="sitemapindex", child="sitemap")


@dataclass
class File:
    """
    The response to a path.

    :param body: The content, or a function that writes the body to a file and so decides its speed and length.
    :param times: How often to respond so, before ``then``. Default: None, always.
    """

    body: bytes | Callable[[Any], None] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None
    then: Any = None


class Website(LocalServer):
    """Serves files by path; a missing one is 404."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, File | bytes] = {}
        self.requests: list[str] = []
        self.headers: dict[str, Mapping[str, str]] = {}
        # Set when the test ends, for bodies that are sent slowly.
        self.gone = threading.Event()

    def url(self, path: str = "") -> str:
        return f"http://{self.host}{path}"

    def site(self, pages: Mapping[str, bytes | File]) -> str:
        """Serve pages and a sitemap of them; return its address."""
        self.files |= pages
        self.files["/sitemap.xml"] = sitemap(*map(self.url, pages))
        return self.url("/sitemap.xml")

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests.append(request.path)
        self.headers[request.path] = dict(request.headers)
        found = self.files.get(request.path, File(status=404))
        file = File(found) if isinstance(found, bytes) else found
        if file.times is not None:
            file.times -= 1
            if file.times == 0:
                self.files[request.path] = file.then
        body, headers = file.body, {"Content-Type": "text/html", **file.headers}
        request.send_response(file.status)
        if callable(body):
            headers["Connection"] = "close"
        else:
            headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if callable(body):
            request.close_connection = True
            body(request.wfile)
        else:
            request.wfile.write(body)

    def __exit__(self, *error: object) -> None:
        self.gone.set()
        super().__exit__(*error)
