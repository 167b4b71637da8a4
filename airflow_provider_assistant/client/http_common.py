"""Parts of a request that do not depend on the HTTP library: headers, body, proxy, and the description of a failure."""

from __future__ import annotations

import contextlib
import re
from contextlib import AbstractContextManager
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.call import Call, TransportFailure
from airflow_provider_assistant.api.multipart import UploadBody
from airflow_provider_assistant.client.response_limits import ENCODINGS
from airflow_provider_assistant.client.settings import ClientSettings

CONNECT_TIMEOUT_SECONDS = 10.0
# Common servers close an idle connection after five seconds. A request that is written while the server closes the
# connection is ambiguous, so the client closes idle connections earlier.
KEEPALIVE_SECONDS = 3.0
# What follows the scheme of a URL.
_URL = re.compile(r"://\S*")


# Headers that every request has, besides the key.
COMMON_HEADERS = {
    "User-Agent": f"airflow-provider-assistant/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
}


def key_headers(settings: ClientSettings) -> dict[str, str]:
    """
    Return the header with the API key, which belongs to each request and not to a session.

    :param settings: Settings of the client.
    :return: Value by header name; empty if no key is sent.
    """
    if not settings.bearer:
        return {"X-API-Key": settings.api_key}
    return {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}


def connect_timeout(settings: ClientSettings) -> float:
    """
    Return the timeout for opening a connection.

    :param settings: Settings of the client.
    :return: Seconds.
    """
    return min(settings.timeout, CONNECT_TIMEOUT_SECONDS)


def open_upload(call: Call[Any]) -> AbstractContextManager[BinaryIO | None]:
    """
    Open the file of an upload for one attempt.

    :param call: The call.
    :return: Context manager of the open file; of None if the call uploads no file.
    """
    return call.upload.open() if call.upload else contextlib.nullcontext()


def request_arguments(
    settings: ClientSettings, call: Call[Any], file: BinaryIO | None, stream_argument: str
) -> dict[str, Any]:
    """
    Return the body of a call and the headers of its own as keyword arguments for a request.

    :param settings: Settings of the client.
    :param call: The call.
    :param file: The open file of an upload, or None.
    :param stream_argument: Name of the HTTP library's argument for a streamed body: ``content`` or ``data``.
    :return: Keyword arguments for the body and the headers.
    """
    headers = key_headers(settings)
    if call.upload and file:
        body = UploadBody(file, call.upload.filename, call.upload.content_type)
        return {stream_argument: body, "headers": {**headers, **body.headers}}
    if call.json is None:
        return {"headers": headers}
    return {"json": call.json, "headers": headers}


def failure(
    settings: ClientSettings, call: Call[Any], error: Exception, *, sent: bool, timed_out: bool
) -> TransportFailure:
    """
    Describe a request without a complete response.

    :param settings: Settings of the client.
    :param call: The call that was sent.
    :param error: Error of the HTTP library.
    :param sent: Whether the service may have received the request.
    :param timed_out: Whether the error is a timeout.
    :return: The failure. A timeout before the request was sent is a failure of the connection.
    """
    reason = str(error)
    if not reason or (timed_out and sent):
        # Two timers end a response, and the socket's own text does not say after which time.
        reason = f"no complete answer within {settings.timeout_of(call):g} s"
    # The path of a request may identify a user.
    reason = _URL.sub("://…", reason)
    proxy = proxy_for(settings.base_url)
    host = _host_and_port(settings.base_url)
    if proxy:
        host = f"{host} through the proxy {_host_and_port(proxy)}"
    return TransportFailure(
        kind="timeout" if timed_out and sent else "connection",
        detail=f"{type(error).__name__}: {reason}",
        sent=sent,
        host=host,
    )


def proxy_for(url: str) -> str | None:
    """
    Return the proxy for a URL from the environment.

    :param url: The URL.
    :return: URL of the proxy; None if there is none for this URL.
    """
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _host_and_port(url: str) -> str:
    """Return host and port of a URL, without the credentials that it may contain."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = parts.hostname
    if host and ":" in host:
        # An IPv6 address.
        host = f"[{host}]"
    default_port = 443 if parts.scheme == "https" else 80
    return f"{host}:{parts.port or default_port}"
