"""Explain failed connections in the same words for both HTTP libraries, and say what to do."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from airflow_provider_assistant.client.proxies import Proxy, host_and_port
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.tls import ca_sources

# Alerts with which a server ends the handshake because of the client's certificate. With TLS 1.3, they arrive after
# the request was written; the server has not read it.
_CERTIFICATE_ALERT = re.compile(
    r"ALERT_((NO|BAD|UNSUPPORTED)_CERTIFICATE|CERTIFICATE_(REQUIRED|REVOKED|EXPIRED|UNKNOWN)|UNKNOWN_CA|ACCESS_DENIED)$"
)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"})
_TLS_VERSION = frozenset({"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "WRONG_SSL_VERSION"})
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
# What a server with TLS answers to a request without it: an alert, as an HTTP library quotes it.
_QUOTED_ALERT = re.compile(r"\\x15\\+x03")
# What h11 says of a reply that begins with such a byte, without quoting it.
_BINARY_REPLY = "illegal request line"
HTTPS_INSTEAD = "If this port expects TLS, write https:// in the base URL of the Airflow connection."


@dataclass(frozen=True, slots=True)
class Cause:
    """
    Why a request has no response.

    :param happened: What happened, as the end of a sentence; None if the text of the HTTP library says it best.
    :param todo: What to do.
    :param is_refused: Whether the server ended the handshake because of the client's certificate, so that it has read
        nothing. Default: False.
    """

    happened: str | None
    todo: str | None
    is_refused: bool = False


def cause_of(error: Exception, settings: ClientSettings, proxy: Proxy | None, *, sent: bool) -> Cause:
    """
    Return why a request has no response.

    :param error: Error of the HTTP library.
    :param settings: Settings of the client.
    :param proxy: The proxy, if there is one.
    :param sent: Whether the service may have received the request.
    """
    for found in _system_errors(error):
        cause = None
        if isinstance(found, ssl.SSLCertVerificationError):
            cause = _untrusted(found, settings, proxy)
        elif isinstance(found, ssl.SSLError):
            cause = _tls_failure(found, settings, proxy, sent=sent)
        elif isinstance(found, OSError) and not isinstance(found, TimeoutError):
            cause = _network_failure(found, settings, proxy)
        if cause:
            return cause
    if settings.base_url.startswith("http:"):
        return _without_tls(str(error), sent=sent)
    todo = None
    if sent and not settings.client_cert:
        # The alert of a server that requires a certificate is lost if it resets the connection.
        todo = (
            "Check that the service is well. If it requires a client certificate, set client_cert and client_key in "
            "the Airflow connection."
        )
    return Cause(None, todo)


def _without_tls(text: str, *, sent: bool) -> Cause:
    """Return why a request without TLS has no response, from the text of the HTTP library."""
    if text == _BINARY_REPLY:
        return Cause("the reply is not HTTP", f"Check the port in the base URL. {HTTPS_INSTEAD}")
    if _QUOTED_ALERT.search(text):
        return Cause("the port expects TLS, and the base URL begins with http://", HTTPS_INSTEAD, is_refused=True)
    return Cause(None, f"Check that the service is well. {HTTPS_INSTEAD}" if sent else None)


def todo_of_proxy(proxy: Proxy, status: int | None = None) -> str:
    """
    Return what to do about a proxy that opens no connection.

    :param proxy: The proxy.
    :param status: Status of its reply. Default: None, it is not known.
    """
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return (
            f"Check user and password in {proxy.variable}, percent-encoded: http://USER:PASSWORD@HOST:PORT. "
            "If the service is reached without the proxy, list its host in NO_PROXY."
        )
    if status == HTTPStatus.FORBIDDEN:
        return (
            "Ask the owner of the proxy to allow the host of the service. If the service is reached without the "
            f"proxy in {proxy.variable}, list its host in NO_PROXY."
        )
    return (
        f"Check the proxy in {proxy.variable}, or list the host of the service in NO_PROXY. "
        "Otherwise check the base URL in the Airflow connection."
    )


def _system_errors(error: Exception) -> list[BaseException]:
    """Return the errors of the system and of OpenSSL that an error of an HTTP library wraps."""
    errors: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in errors:
        errors.append(cause)
        # Not __context__: it may be the error of an earlier request. httpcore has no __cause__, but
        # the error as its argument.
        wrapped = cause.args[0] if cause.args else None
        cause = wrapped if isinstance(wrapped, BaseException) else cause.__cause__
    # Errors of aiohttp inherit from those of ssl, without their attributes.
    return [found for found in errors if type(found).__module__ in {"builtins", "ssl", "socket"}]


def _untrusted(error: ssl.SSLCertVerificationError, settings: ClientSettings, proxy: Proxy | None) -> Cause:
    host = urlsplit(settings.base_url).hostname
    server = _server(proxy)
    problem = error.verify_message.strip(" .") or "certificate verify failed"
    happened = f"the certificate of {server} cannot be trusted: {problem} (CERTIFICATE_VERIFY_FAILED)"
    if "mismatch" in problem:
        todo = (
            f"Write the name for which the certificate was issued in the base URL of the Airflow connection; "
            f"it is not {host}."
        )
    elif "expired" in problem:
        todo = "Have its owner renew the certificate. If it is valid, set the clock of this machine."
    elif "not yet valid" in problem:
        todo = "Set the clock of this machine."
    else:
        ca_bundle = settings.verify if isinstance(settings.verify, str) else None
        sources = ca_sources(ca_bundle)
        trusted = " and ".join(map(str, sources)) or "the Python package certifi"
        todo = (
            "If your company signs certificates itself, set ca_bundle in the Airflow connection to the file of its "
            f"certificate authority. Trusted are now the certificates of {trusted}. "
            "Otherwise somebody may pretend to be the service."
        )
    return Cause(happened, todo)


def _tls_failure(error: ssl.SSLError, settings: ClientSettings, proxy: Proxy | None, *, sent: bool) -> Cause | None:
    server = _server(proxy)
    reason = error.reason or "TLS failed"
    if _CERTIFICATE_ALERT.search(reason):
        return Cause(
            f"{server} refused the client certificate during the TLS handshake ({reason})"
            if settings.client_cert
            else f"{server} requires a client certificate ({reason})",
            _client_certificate_todo(settings),
            is_refused=True,
        )
    if reason.endswith("ALERT_HANDSHAKE_FAILURE"):
        return Cause(
            f"{server} refused the TLS handshake ({reason})",
            f"It may require a client certificate, or other ciphers. {_client_certificate_todo(settings)}",
        )
    if reason in _NO_TLS:
        return Cause(
            f"{server} did not answer with TLS: this port speaks http or another protocol, not https ({reason})",
            "Write the port for https in the base URL of the Airflow connection. For a service without TLS, begin the "
            "base URL with http:// (without a protocol, https is assumed): the API key is then sent unencrypted."
            f"{_or_proxy(proxy)}",
        )
    if reason in _TLS_VERSION:
        return Cause(
            f"{server} supports no version of TLS that this machine allows ({reason})",
            "Have the owner of the service enable TLS 1.2 or 1.3.",
        )
    if isinstance(error, ssl.SSLEOFError) and not sent:
        return Cause(
            f"{server} closed the connection during the TLS handshake ({reason})",
            "A firewall or a gateway may not allow it. "
            f"Check the base URL in the Airflow connection.{_or_proxy(proxy)}",
        )
    return None


def _client_certificate_todo(settings: ClientSettings) -> str:
    if not settings.client_cert:
        return "Set client_cert and client_key in the Airflow connection to the paths of the client's certificate."
    return (
        f"Check that the certificate in client_cert {settings.client_cert!r} has not expired, is for this service, and "
        "is followed in its file by the intermediate certificates."
    )


def _network_failure(error: OSError, settings: ClientSettings, proxy: Proxy | None) -> Cause | None:
    """Return why the next host, which is the proxy if there is one, cannot be reached; None if it can."""
    address = proxy.address if proxy else host_and_port(settings.base_url)
    setting = f"the proxy in {proxy.variable}" if proxy else "the base URL in the Airflow connection"
    if isinstance(error, socket.gaierror):
        host = address.rpartition(":")[0]
        if error.errno == socket.EAI_AGAIN:
            return Cause(
                f"the name server did not answer for {host} ({error.strerror})",
                f"Check the DNS of this machine, and {setting}.",
            )
        return Cause(
            f"the host name {host} is not known ({error.strerror})",
            f"Check the host name: {setting}, and that the DNS of this machine knows it.",
        )
    if error.errno == errno.ECONNREFUSED:
        return Cause(
            f"Connection refused: nothing accepts connections at {address}",
            f"Check {setting}, with its port, and that the service runs there.",
        )
    if error.errno in _UNREACHABLE:
        return Cause(
            f"this machine has no route to {address} ({os.strerror(error.errno)})",
            f"Check the network of this machine, and {setting}. Some networks need a proxy in HTTPS_PROXY.",
        )
    return None


def _server(proxy: Proxy | None) -> str:
    """Return whose TLS failed, with an https proxy the two that it may be."""
    if proxy and proxy.url.startswith("https:"):
        return f"the service or the proxy {proxy.address}"
    return "the service"


def _or_proxy(proxy: Proxy | None) -> str:
    if proxy is None:
        return ""
    return f" Check the proxy in {proxy.variable}, too: an http proxy begins with http://."
