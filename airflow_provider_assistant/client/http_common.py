"""Parts of a request that do not depend on the HTTP library: headers, body, and the description of a failure."""

from __future__ import annotations

import contextlib
import re
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Any, BinaryIO

from airflow_provider_assistant import __version__
from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.api.errors import status_line
from airflow_provider_assistant.api.multipart import UploadBody
from airflow_provider_assistant.client.connection_errors import cause_of, todo_of_proxy
from airflow_provider_assistant.client.proxies import Proxy, host_and_port
from airflow_provider_assistant.client.response_head import MAX_HEAD_BYTES, TOO_LARGE
from airflow_provider_assistant.client.response_limits import ENCODINGS
from airflow_provider_assistant.client.settings import ClientSettings

CONNECT_TIMEOUT_SECONDS = 10.0
# Common servers close an idle connection after five seconds. A request that is written while the server closes the
# connection is ambiguous, so the client closes idle connections earlier.
KEEPALIVE_SECONDS = 3.0
FIREWALL = (
    "Check the base URL in the Airflow connection, with its port, and whether a firewall blocks it. "
    "Some networks need a proxy in HTTPS_PROXY."
)
# What follows the scheme of a URL.
_URL = re.compile(r"://\S*")
# Bytes that an HTTP library quotes from an invalid response, which may repeat the API key in any encoding.
_QUOTATION = re.compile(r"(?:bytearray\()?\bb['\"].*", re.DOTALL)


# Headers that every request has, besides the key.
COMMON_HEADERS = {
    "User-Agent": f"airflow-provider-assistant/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
    # A cache in between would answer each poll with the first status.
    "Cache-Control": "no-cache",
}


def key_headers(settings: ClientSettings) -> dict[str, str]:
    """
    Return the header with the API key, which belongs to each request and not to a session.

    :param settings: Settings of the client.
    """
    return {"X-API-Key": settings.api_key}


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
    Return the body of a call, and the headers that not every request has, as keyword arguments.

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
    settings: ClientSettings,
    proxy: Proxy | None,
    call: Call[Any],
    error: Exception,
    *,
    sent: bool,
    timed_out: bool,
    tunnel_failed: bool = False,
    connect_status: int | None = None,
) -> TransportFailure:
    """
    Describe a request without a complete response.

    :param settings: Settings of the client.
    :param proxy: The proxy, if there is one.
    :param call: The call that was sent.
    :param error: Error of the HTTP library.
    :param sent: Whether the service may have received the request.
    :param timed_out: Whether the error is a timeout.
    :param tunnel_failed: Whether the proxy was reached and opened no tunnel. Default: False.
    :param connect_status: Status of its reply to CONNECT. Default: None, it is not known.
    :return: The failure. A timeout before the request was sent is a failure of the connection.
    """
    kind = type(error).__name__
    if sent and str(error) == TOO_LARGE:
        return TransportFailure(
            kind="connection",
            detail=f"its status line and headers have more than {MAX_HEAD_BYTES // 1024} KiB",
            sent=True,
            is_answered=True,
            host=host_and_port(settings.base_url),
            proxy=proxy.address if proxy else None,
            todo="Ask the owner of the service, or of the gateway in front of it, for smaller headers.",
        )
    cause = cause_of(error, settings, proxy, sent=sent)
    todo = cause.todo
    if timed_out and sent:
        detail = f"{kind}: no complete answer within {settings.timeout_of(call):g} s"
    elif timed_out:
        detail = f"{kind}: no connection within {connect_timeout(settings):g} s"
        if not proxy:
            todo = FIREWALL
    elif cause.happened:
        detail = f"{kind}: {cause.happened}"
    elif proxy and tunnel_failed:
        # Not in the words of the proxy, which may repeat the credentials that it got.
        detail = f"the proxy {proxy.address} did not answer CONNECT with HTTP ({kind})"
        if connect_status is not None:
            detail = f"the proxy {proxy.address} answered CONNECT with {status_line(connect_status)}"
    else:
        reason = _QUOTATION.sub("…", str(error))
        # The path of a request may identify a user.
        reason = _URL.sub("://…", reason) or "the connection broke"
        detail = f"{kind}: {reason}"
    if proxy and not sent and not todo:
        todo = todo_of_proxy(proxy, connect_status)
    return TransportFailure(
        kind="timeout" if timed_out and sent else "connection",
        detail=detail,
        sent=sent and not cause.is_refused,
        host=host_and_port(settings.base_url),
        proxy=proxy.address if proxy else None,
        proxy_status=connect_status if proxy and tunnel_failed else None,
        todo=todo or "",
    )


def refused_by_proxy(settings: ClientSettings, proxy: Proxy | None, response: Response) -> TransportFailure | None:
    """
    Return the failure of an unencrypted request whose proxy asks for other credentials, and did not forward it.

    :param settings: Settings of the client.
    :param proxy: The proxy, if there is one.
    :param response: The response.
    :return: The failure; None if the response is not of the proxy.
    """
    if proxy is None or not settings.base_url.startswith("http:"):
        return None
    if response.status != HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return None
    return TransportFailure(
        kind="connection",
        detail=f"the proxy {proxy.address} answered with {status_line(response.status)}",
        sent=False,
        host=host_and_port(settings.base_url),
        proxy=proxy.address,
        proxy_status=response.status,
        todo=todo_of_proxy(proxy, response.status),
    )
