"""Why a request has no response, in the same words for both HTTP libraries, and what to do."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from http import HTTPStatus
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.errors import NOBODY_BEHIND
from airflow_provider_assistant.client.network import Proxy, host_and_port
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantResponseError,
    AssistantTimeoutError,
)

# Maximum size of the status line and headers of a response in bytes: that of httpx.
MAX_HEAD_BYTES = 100 * 1024
# The words in which httpx, and our part of aiohttp, say that they are larger.
HEAD_TOO_LARGE = "Receive buffer too long"
# Alerts with which a server ends the handshake because of the client's certificate. With TLS 1.3, they arrive after
# the request was written; the server has not read it.
_CERTIFICATE_ALERT = re.compile(r"ALERT_\w*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)")
_UNREACHABLE = frozenset({errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
TLS_TODO = (
    "If your company signs certificates itself, set ca_bundle in the Airflow connection to the file of its certificate "
    "authority. For a service that requires a client certificate, set client_cert and client_key. For a service "
    "without TLS, begin the base URL with http:// (without a protocol, https is assumed); the API key is then sent "
    "unencrypted."
)
PROXY_HINT = "Some networks need a proxy in HTTPS_PROXY."
BROKEN_TODO = (
    "Check that the service is well, and the port in the base URL of the Airflow connection: https:// needs a port "
    "with TLS, http:// one without. A service that requires a client certificate needs client_cert and client_key."
)


def failure(
    error: Exception,
    call: Call[Any],
    settings: ClientSettings,
    proxy: Proxy | None,
    *,
    sent: bool,
    timed_out: bool,
    connect_status: int | None,
) -> AssistantError:
    """
    Return the error of a request without a complete response, without words of the other side: it may repeat secrets.

    :param error: Error of the HTTP library.
    :param sent: Whether the service may have received the request.
    :param timed_out: Whether the error is a timeout.
    :param connect_status: Status with which the proxy refused CONNECT; None if it did not.
    """
    kind = type(error).__name__
    service = host_and_port(settings.base_url)
    host = f"{service} through the proxy {proxy.address}" if proxy else service
    if sent and timed_out:
        seconds = settings.timeout_of(call)
        return AssistantTimeoutError(
            f"No answer in time from {host}: {kind}: no complete answer within {seconds:g} s ({call})",
            todo=f"If the service is only slow, raise {call.timeout_field} in the Airflow connection.",
            maybe_done=True,
        )
    if sent and str(error) == HEAD_TOO_LARGE:
        return AssistantResponseError(
            f"The reply of {host} cannot be read: its status line and headers have more than "
            f"{MAX_HEAD_BYTES // 1024} KiB ({call})",
            todo="Ask the owner of the service, or of the gateway in front of it, for smaller headers.",
            maybe_done=True,
        )
    if proxy and connect_status is not None:
        return _refused_tunnel(call, service, proxy, connect_status)
    setting = f"the proxy in {proxy.variable}" if proxy else "the base URL in the Airflow connection"
    address = proxy.address if proxy else service
    cause = _system_error(error)
    if isinstance(cause, socket.gaierror):
        reason = f"the host name {address.rpartition(':')[0]} is not known ({cause.strerror})"
        todo = f"Check the host name in {setting}, and that the DNS of this machine knows it."
    elif isinstance(cause, ssl.SSLError):
        reason = str(cause)
        todo = TLS_TODO
        if _CERTIFICATE_ALERT.search(cause.reason or ""):
            sent = False
    elif cause is not None and cause.errno in _UNREACHABLE:
        reason = f"no connection to {address}: {os.strerror(cause.errno or 0)}"
        todo = f"Check {setting}, with its port, and that it runs there. {PROXY_HINT}"
    elif timed_out:
        reason = f"no connection within {settings.connect_timeout:g} s"
        todo = f"Check {setting}, with its port, and whether a firewall blocks it. "
        todo += todo_of_proxy(proxy) if proxy else PROXY_HINT
    else:
        reason = "the connection broke, or the reply is not HTTP"
        todo = BROKEN_TODO if sent or not proxy else todo_of_proxy(proxy)
    return AssistantConnectionError(f"No answer from {host}: {kind}: {reason} ({call})", todo=todo, maybe_done=sent)


def _refused_tunnel(call: Call[Any], service: str, proxy: Proxy, status: int) -> AssistantError:
    """Return the error of a proxy that answered CONNECT with an error status."""
    said = f"the proxy {proxy.address} answered CONNECT with {status} ({call})"
    todo = todo_of_proxy(proxy)
    if status in NOBODY_BEHIND or status == HTTPStatus.TOO_MANY_REQUESTS:
        return AssistantConnectionError(f"No answer from {service}: {said}", todo=todo)
    return AssistantGatewayError(
        f"The request was not passed on to {service}: {said}",
        todo=todo,
        status=status,
        endpoint=call.endpoint,
        stops_all=True,
    )


def todo_of_proxy(proxy: Proxy) -> str:
    """Return what to do about a proxy that opens no connection."""
    return (
        f"Check the proxy in {proxy.variable} with its user and password (percent-encoded), and ask its owner to allow "
        "the host of the service. If the service is reached without the proxy, list its host in NO_PROXY."
    )


def _system_error(error: BaseException | None) -> OSError | None:
    """Return the error of the system or of OpenSSL that an error of an HTTP library wraps, or None."""
    while error is not None:
        # Errors of aiohttp inherit from those of ssl, without their attributes.
        if isinstance(error, OSError) and type(error).__module__ in {"builtins", "ssl", "socket"}:
            return error
        # Not __context__: it may be the error of an earlier request. httpcore has no __cause__, but the error as its
        # argument.
        wrapped = error.args[0] if error.args else None
        error = wrapped if isinstance(wrapped, BaseException) else error.__cause__
    return None
