"""The proxy of the environment, read in one way for both HTTP libraries."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

from airflow_provider_assistant.exceptions import AssistantInputError

# A part of NO_PROXY: a name or an IPv4 network, or an IPv6 address or network in brackets.
_EXCEPTION = re.compile(r"(?:(?P<name>[^:\[\]]+)|\[(?P<address>[^\]]+)\])(?::(?P<port>\d+))?")


@dataclass(frozen=True, slots=True)
class Proxy:
    """
    A proxy whose credentials are not in its URL, because the HTTP libraries show the URL in messages.

    :param url: URL with scheme, host and port.
    :param address: ``host:port`` for messages.
    :param variable: Name of the variable in upper case, for messages.
    :param headers: Headers for the proxy only: ``Proxy-Authorization``, if the proxy has credentials.
    :param secrets: Texts that no message may contain.
    """

    url: str
    address: str
    variable: str
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def proxy_for(url: str) -> Proxy | None:
    """
    Return the proxy that the environment names for a URL.

    It is that of ``HTTP_PROXY`` or ``HTTPS_PROXY``, by the scheme of the URL, or else that of ``ALL_PROXY``. A proxy
    without a scheme is an ``http://`` proxy.

    :param url: The URL.
    :return: The proxy; None if there is none for this URL, or if ``NO_PROXY`` names its host.
    :raises AssistantInputError: The variable is not the URL of an http or https proxy.
    """
    target = urlsplit(url)
    proxies = getproxies_environment()
    name = target.scheme if proxies.get(target.scheme) else "all"
    text = proxies.get(name, "").strip()
    if not text or _is_excepted(target, proxies.get("no", "")):
        return None
    variable = f"{name.upper()}_PROXY"
    proxy = _parsed(variable, text)
    secrets: list[str] = []
    headers: dict[str, str] = {}
    if proxy.username is not None:
        user, password = unquote(proxy.username), unquote(proxy.password or "")
        token = b64encode(f"{user}:{password}".encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {token}"}
        secrets = [password, token]
    address = host_and_port(proxy.geturl())
    return Proxy(f"{proxy.scheme}://{address}", address, variable, headers, tuple(secrets))


def usable_proxy(url: str) -> Proxy | None:
    """
    Return the proxy for a URL as :func:`proxy_for` does, but None if it cannot be used.

    :param url: The URL.
    """
    try:
        return proxy_for(url)
    except AssistantInputError:
        return None


def host_and_port(url: str) -> str:
    """
    Return host and port of a URL, without the credentials that it may contain.

    :param url: The URL.
    """
    parts = urlsplit(url)
    host = parts.hostname
    if host and ":" in host:
        # An IPv6 address.
        host = f"[{host}]"
    default_port = 443 if parts.scheme == "https" else 80
    return f"{host}:{parts.port or default_port}"


def _parsed(variable: str, text: str) -> SplitResult:
    """Return a proxy's URL. No error contains the text, because it may have a password."""
    if "://" not in text:
        text = f"http://{text.removeprefix('//')}"
    parts = urlsplit("")
    with suppress(ValueError):
        parts = urlsplit(text)
    is_complete = False
    with suppress(ValueError):
        # A "/", "?" or "#" in a password would end the host, and the rest of the password would follow.
        rest = f"{parts.path}{parts.query}{parts.fragment}"
        is_complete = bool(parts.hostname) and parts.port != 0 and "@" not in rest
    if parts.scheme.startswith("socks"):
        raise AssistantInputError(
            f"{variable} names a {parts.scheme} proxy, and only http and https proxies are supported",
            todo=f"Set {variable} to the URL of an http proxy, or list the host of the service in NO_PROXY.",
        )
    if not is_complete or parts.scheme not in {"http", "https"} or any(char.isspace() for char in text):
        raise AssistantInputError(
            f"{variable} is not the URL of a proxy",
            todo="Use http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, and percent-encode special characters of "
            "user and password.",
        )
    return parts


def _is_excepted(target: SplitResult, exceptions: str) -> bool:
    """Return whether NO_PROXY names a host: the name, a domain, an address or a network, with or without a port."""
    host = (target.hostname or "").rstrip(".")
    default_port = 443 if target.scheme == "https" else 80
    port = str(target.port or default_port)
    for exception in re.split(r"[\s,]+", exceptions.lower()):
        if exception == "*":
            return True
        is_ipv6 = exception.count(":") > 1 and "[" not in exception
        parts = _EXCEPTION.fullmatch(f"[{exception}]" if is_ipv6 else exception)
        if parts is None or parts["port"] not in {None, port}:
            continue
        # *.example.com and .example.com are the same as example.com, which has all names below it.
        name = (parts["address"] or parts["name"]).removeprefix("*").strip(".")
        if name and (host == name or host.endswith(f".{name}")):
            return True
        with suppress(ValueError):
            if ip_address(host) in ip_network(name, strict=False):
                return True
    return False
