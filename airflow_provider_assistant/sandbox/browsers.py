"""Refuse what a web page in a browser of this machine sends: the keys of the service are public."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from airflow_provider_assistant.sandbox.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CONTROL_PATH = "/_sandbox"


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class BrowserGuard:
    """Check the headers Host and Origin of all requests.

    A website can make its own name mean this machine (DNS rebinding): its requests have its name in Host. Other pages
    can only send requests that change something, and cannot read the response: these have another host in Origin.

    :param host: address that the service listens on. If it is not a loopback address, names of other machines are valid
        outside of the control plane.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._is_local = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal:
            await refusal.response("detailed")(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        is_checked = self._is_local or scope["path"].startswith(CONTROL_PATH)
        if is_checked and not is_loopback(_name_of(host)):
            return ApiError(421, "The header Host must be a loopback address or localhost.")
        origin = headers.get("origin")
        is_foreign = origin is not None and origin.lower() != f"http://{host.lower()}"
        if is_foreign and scope["method"] not in {"GET", "HEAD", "OPTIONS"}:
            return ApiError(403, "The header Origin must be the service itself.")
        return None


def _name_of(host: str) -> str:
    """Return the name or the address in a header Host, without the port; empty if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
