"""Addresses of pages, and the IP addresses that they may lead to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode

import httpx

from airflow_provider_assistant.exceptions import AssistantInputError

# The protocol of sitemaps allows no more characters.
LONGEST_URL = 2048
HIGHEST_PORT = 65535
# A name, or an IP address without brackets.
HOST = re.compile(rb"[\w.:-]+")
_INDEX_FILE = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?)$", re.IGNORECASE)
_TRACKING = re.compile(r"utm_\w+|gclid|fbclid|msclkid|mc_[ce]id|_ga|_gl|igshid|ref_src", re.IGNORECASE)
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# All IPv6 addresses of the internet, and those of them that only documents use.
GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
DOCUMENTATION = ipaddress.ip_network("3fff::/20")
# Addresses for protocols, which Python before 3.11.10 takes for global ones.
PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")
# Their last 32 bits are an IPv4 address.
NAT64 = ipaddress.ip_network("64:ff9b::/96")


def web_address(text: str, base: httpx.URL | None = None) -> httpx.URL | None:
    """
    Return an address in its normal form, without a fragment.

    :param text: The address, as a link, a sitemap or a user has written it.
    :param base: Address that a relative one is relative to. Default: None, only absolute ones are valid.
    :return: The address; None if it is not a valid one of ``http`` or ``https``, contains a user name or a password, or
        is longer than 2,048 characters.
    """
    if len(text) > LONGEST_URL:
        return None
    try:
        url = httpx.URL(text.strip())
        if base is not None:
            url = base.join(url)
        url = url.copy_with(fragment=None)
        url = url.copy_with(raw_path=url.raw_path)  # writes a missing path as a slash
    except (httpx.InvalidURL, ValueError):
        return None
    if url.scheme not in {"http", "https"} or not HOST.fullmatch(url.raw_host):
        return None
    if url.port is not None and url.port > HIGHEST_PORT:
        return None
    # Encoded characters may make the address longer than its text.
    if url.userinfo or len(str(url)) > LONGEST_URL:
        return None
    return url


def spelling(url: httpx.URL) -> str:
    """
    Return what equal addresses of one page have in common.

    :return: The address without its scheme, ``www.``, the name of the file that a folder shows, a slash at the end, and
        the parameters that advertising adds.
    """
    path = _INDEX_FILE.sub("", url.path).rstrip("/")
    parameters = [item for item in url.params.multi_items() if not _TRACKING.fullmatch(item[0])]
    return f"{host_of(url).removeprefix('www.')}{path}?{urlencode(parameters)}"


def host_of(url: httpx.URL) -> str:
    """
    Return host and port of an address, such as ``example.com`` or ``example.com:8080``.

    :return: Host and port, without the port that its scheme implies.
    """
    return url.netloc.decode("ascii")


def refuse_private_networks(event: str, info: Mapping[str, Any]) -> None:
    """
    Stop a connection to a private, loopback, link-local or otherwise special IP address.

    Pass it to httpx as the extension ``trace``. It looks at what the name means before the connection is opened, and at
    the address that was connected to before anything is sent: the name may mean another address the second time.

    :raises AssistantInputError: The IP address is not public.
    """
    if event == "connection.connect_tcp.started":
        for address in _resolved(info["host"], info["port"]):
            _refuse_if_private(address, info["host"])
    elif event == "connection.connect_tcp.complete":
        stream = info["return_value"]
        try:
            address, *_ = stream.get_extra_info("server_addr")
            _refuse_if_private(address, "the host")
        except BaseException:
            stream.close()  # the caller has not received it yet, so it cannot close it
            raise


def _resolved(host: str, port: int) -> Iterator[str]:
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return  # the connection fails with a better message
    for *_, socket_address in infos:
        ip_address = socket_address[0]
        yield str(ip_address)


def _refuse_if_private(address: str, host: str) -> None:
    if not is_public(address):
        raise AssistantInputError(
            f"{host} has the address {address}, which is not a public one",
            safe="Nothing was sent to it.",
            todo="For a website in your own network, set private_networks=True.",
            field="private_networks",
        )


def is_public(address: str) -> bool:
    """
    Return whether an IP address is on the public internet.

    :return: False for private, loopback, link-local, site-local, multicast, reserved and invalid addresses, and for
        IPv6 addresses that contain such an IPv4 address.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_global(parsed)
    embedded = _embedded_ipv4(parsed)
    is_translated = parsed.ipv4_mapped is not None or parsed in NAT64
    is_unicast = parsed in GLOBAL_UNICAST and parsed not in DOCUMENTATION and _is_global(parsed)
    return (is_translated or is_unicast) and all(map(_is_global, embedded))


def _is_global(address: _Address) -> bool:
    return address.is_global and not address.is_multicast and address not in PROTOCOLS


def _embedded_ipv4(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses in an IPv6 address, to which gateways connect."""
    last_32_bits = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None or address in NAT64:
        return [last_32_bits]
    if address.sixtofour is not None:
        return [address.sixtofour]
    # ISATAP: the interface is 0000:5efe or 0200:5efe, and an IPv4 address.
    interface = int(address) >> 32 & 0xFDFFFFFF
    return [last_32_bits] if interface == 0x5EFE else []
