"""The way to the service: the proxy that the environment names, and the certificates of TLS."""

from __future__ import annotations

import ssl
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import httpx

from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError


@dataclass(frozen=True, slots=True)
class Proxy:
    """
    A proxy whose credentials are not in its URL, because the HTTP libraries show the URL in messages.

    :param address: ``host:port``, and ``variable`` the name of the variable, for messages.
    :param headers: ``Proxy-Authorization``, if the proxy has credentials.
    :param secrets: Texts that no message may contain.
    """

    url: str
    address: str
    variable: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def proxy_for(url: str) -> Proxy | None:
    """
    Return the proxy for a URL by the rules of :mod:`urllib`; httpx and aiohttp each have other ones.

    :return: The proxy of ``HTTP_PROXY``, ``HTTPS_PROXY`` or ``ALL_PROXY``; None without one, or if ``NO_PROXY`` names
        the host or a domain above it.
    :raises AssistantInputError: The variable is not the URL of an http or https proxy.
    """
    scheme = urlsplit(url).scheme
    proxies = getproxies_environment()
    name = scheme if proxies.get(scheme) else "all"
    text = proxies.get(name, "").strip()
    if not text or proxy_bypass_environment(host_and_port(url), proxies):
        return None
    variable = f"{name.upper()}_PROXY"
    parts = _parsed(variable, text)
    address = host_and_port(parts.geturl())
    proxy_url = f"{parts.scheme}://{address}"
    if parts.username is None:
        return Proxy(proxy_url, address, variable)
    user, password = unquote(parts.username), unquote(parts.password or "")
    token = b64encode(f"{user}:{password}".encode()).decode()
    headers = {"Proxy-Authorization": f"Basic {token}"}
    return Proxy(proxy_url, address, variable, headers, secrets=(password, token))


def usable_proxy(url: str) -> Proxy | None:
    """Return the proxy for a URL as :func:`proxy_for` does, but None if it cannot be used."""
    try:
        return proxy_for(url)
    except AssistantInputError:
        return None


def host_and_port(url: str) -> str:
    """Return host and port of a URL, without the credentials that it may contain."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        # An IPv6 address.
        host = f"[{host}]"
    default_port = 443 if parts.scheme == "https" else 80
    return f"{host}:{parts.port or default_port}"


def _parsed(variable: str, text: str) -> SplitResult:
    """Return the URL of a proxy. No error contains the text, because it may have a password."""
    if "://" not in text:
        text = f"http://{text}"
    is_usable = False
    try:
        parts = urlsplit(text)
        # A "/", "?" or "#" in a password would end the host, and the rest of the password would follow.
        rest = f"{parts.path}{parts.query}{parts.fragment}"
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in rest
    except ValueError:
        # An invalid port or IPv6 address.
        pass
    if not is_usable or any(map(str.isspace, text)):
        raise AssistantInputError(
            f"{variable} is not the URL of an http or https proxy",
            todo="Use http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, and percent-encode special characters of "
            "user and password. If the service is reached without a proxy, list its host in NO_PROXY.",
        ) from None
    return parts


def tls_context(
    verify: bool | str = True, client_cert: str | None = None, client_key: str | None = None
) -> ssl.SSLContext:
    """
    Read the trusted certificates, and the client's own.

    :param verify: Whether to verify certificates, or the path of those to verify them with. Default: those of
        ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, or else of the Python package certifi.
    :param client_key: Path of the private key. Default: it is in the file of the certificate.
    :raises AssistantInputError: A file with certificates cannot be used.
    """
    field, setting = None, "SSL_CERT_FILE or SSL_CERT_DIR of the environment"
    try:
        if isinstance(verify, str):
            field, setting = "ca_bundle", f"ca_bundle {verify!r} of the Airflow connection"
            context = ssl.create_default_context(cafile=verify)
        else:
            context = httpx.create_ssl_context(verify=verify)
        # A certificate that is listed need not be that of a root. Python 3.13 does this by default.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if client_cert or client_key:
            field = "client_cert"
            setting = f"client_cert {client_cert!r} and client_key {client_key!r} of the Airflow connection"
            # Without a password, OpenSSL would ask for the one of an encrypted key at the terminal.
            context.load_cert_chain(client_cert or "", client_key, password="")
    except (OSError, ValueError) as error:
        raise AssistantInputError(
            f"{setting} cannot be used: {error}",
            todo="Give the paths of files in PEM format that exist on this machine and that Airflow may read, and of a "
            "private key without a password that belongs to the first certificate of its file.",
            field=field,
        ) from None
    return context


def tls_context_of(settings: ClientSettings, proxy: Proxy | None) -> ssl.SSLContext:
    """Read the certificates that a client needs."""
    is_encrypted = settings.base_url.startswith("https:") or (proxy and proxy.url.startswith("https:"))
    if not is_encrypted:
        # Reading the trusted certificates takes as long as 100 requests.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return tls_context(settings.verify, settings.client_cert, settings.client_key)
